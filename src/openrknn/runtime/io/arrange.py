"""Which axis is which: NHWC and NCHW arrays distinguished by their shape, a missing batch dimension added.

Nothing is copied: the result is a view of the array in the one order that the input needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from openrknn.container.parts import Tensor
from openrknn.runtime.io.tensors import Array

LAYOUTS = ("nhwc", "nchw")
_FEATURE_RANK = 4


def arrange(array: Array, tensor: Tensor, layout: str | None, *, picture: bool) -> Array:
    """[N, H, W, C] for tensors of four dimensions, the tensor's shape for all others.

    `picture` says that the array is one by its type (uint8 for an image input): then NHWC is what people mean where
    both layouts have the same shape.
    """
    if len(tensor.shape) != _FEATURE_RANK:
        return _plain(array, tensor)
    fitting = [name for name in LAYOUTS if _fits(array.shape, _shape(tensor, name))]
    if layout is not None:
        if layout not in LAYOUTS:
            raise ValueError(f"layout {layout!r} is unknown; the choices are 'nhwc' and 'nchw'")
        if layout not in fitting:
            other = f". It fits as {fitting[0]}: leave layout= out" if fitting else _hint(array, tensor)
            raise ValueError(f"{_given(array, tensor)}; as {layout} it has to be {_shape(tensor, layout)}{other}")
        return _channels_last(array, tensor, layout)
    if not fitting and tensor.shape[1] == 1 and _fits(array.shape, tensor.shape[2:]):
        return array.reshape(_shape(tensor, "nhwc"))  # a grey picture without its channel
    if not fitting:
        raise ValueError(f"{_given(array, tensor)}; it has to be {wanted_text(tensor)}{_hint(array, tensor)}")
    if len(fitting) > 1 and not picture and not _same_order(tensor.shape):
        raise ValueError(
            f"{_given(array, tensor)}, which can be read as NHWC and as NCHW; say which with layout='nhwc' or 'nchw'"
        )
    return _channels_last(array, tensor, fitting[0])


def wanted_text(tensor: Tensor) -> str:
    """The shapes that an input takes, for messages."""
    if len(tensor.shape) != _FEATURE_RANK:
        return str(tensor.shape)
    return " or ".join(f"{_shape(tensor, name)} ({name})" for name in LAYOUTS)


def state_layout(name: str, made: Sequence[int], read: Sequence[int], given: str | None) -> str | None:
    """How an output of shape `made` becomes the input `name` of shape `read`; None where there are no two layouts."""
    if len(read) != _FEATURE_RANK:
        return None
    fitting = [layout for layout in LAYOUTS if tuple(made) == shape_in(read, layout)]
    if given is not None:
        if fitting and given not in fitting:
            raise ValueError(f"state {name!r}: the output is {tuple(made)}, which is {fitting[0]} and not {given}")
        return given
    if len(fitting) > 1 and not _same_order(read):
        raise ValueError(
            f"state {name!r}: {tuple(made)} can be NHWC and NCHW; say which the model gives with layout='nchw' (ONNX) "
            "or 'nhwc' (TFLite, TensorFlow)"
        )
    return fitting[0] if len(fitting) == 1 else "nchw"


def _plain(array: Array, tensor: Tensor) -> Array:
    if array.shape != tensor.shape and not _fits(array.shape, tensor.shape):
        raise ValueError(f"{_given(array, tensor)}; it has to be {tensor.shape}{_hint(array, tensor)}")
    return array.reshape(tensor.shape)


def _fits(given: Sequence[int], wanted: Sequence[int]) -> bool:
    """Equal, or equal but for a batch dimension of one that is missing."""
    return tuple(given) == tuple(wanted) or (wanted[0] == 1 and tuple(given) == tuple(wanted[1:]))


def shape_in(shape: Sequence[int], layout: str) -> tuple[int, ...]:
    """[N, C, H, W] in this layout."""
    batches, channels, height, width = shape
    return (batches, height, width, channels) if layout == "nhwc" else tuple(shape)


def _shape(tensor: Tensor, layout: str) -> tuple[int, ...]:
    return shape_in(tensor.shape, layout)


def _same_order(shape: Sequence[int]) -> bool:
    """One channel, or one pixel: both layouts have their elements in the same order."""
    return shape[1] == 1 or shape[2] * shape[3] == 1


def _channels_last(array: Array, tensor: Tensor, layout: str) -> Array:
    full = array if array.ndim == _FEATURE_RANK else array[None]
    return full if layout == "nhwc" else full.transpose(0, 2, 3, 1)


def _given(array: Array, tensor: Tensor) -> str:
    return f"input {tensor.name!r}: an array of shape {array.shape} was given"


def _hint(array: Array, tensor: Tensor) -> str:
    hint = shape_hint(array.shape, tensor.shape)
    return f". {hint}" if hint else ""


_PICTURE = (1, 3, 4)
_RANK = 4


def shape_hint(given: Sequence[int], wanted: Sequence[int]) -> str:
    """A sentence for an array of shape `given` where the tensor is `wanted` (NCHW if it has four dimensions), or ""."""
    given, wanted = tuple(given), tuple(wanted)
    if not given or 0 in given:
        return ""
    if len(wanted) == _RANK:
        hint = _batch_hint(given, wanted) or _picture_hint(given, wanted)
        if hint:
            return hint
    elif len(given) == len(wanted) and given[1:] == wanted[1:]:
        return _items(given[0], wanted[0])
    elif wanted[0] > 1 and given == wanted[1:]:
        return _items(1, wanted[0])
    if prod(given) == prod(wanted):
        return f"It has as many numbers: array.reshape{wanted} if they are in that order"
    return ""


def _batch_hint(given: tuple[int, ...], wanted: tuple[int, ...]) -> str:
    batches, channels, height, width = wanted
    for item in ((height, width, channels), (channels, height, width)):
        if len(given) == _RANK and given[1:] == item:
            return _items(given[0], batches)
        if given == item:
            return _items(1, batches)
    return ""


def _items(given: int, wanted: int) -> str:
    if given > wanted == 1:
        return "One run takes one item: run them one after the other, or `SessionPool.map` several at a time"
    return f"One run takes {wanted} items and {given} came: np.stack them; fill up the last ones with copies"


def _picture_hint(given: tuple[int, ...], wanted: tuple[int, ...]) -> str:
    """For arrays that are a picture of another kind."""
    _, channels, height, width = wanted
    if channels not in _PICTURE or len(given) not in (2, 3, 4) or (len(given) == _RANK and given[0] != 1):
        return ""
    seen = _size(given[1:] if len(given) == _RANK else given)
    if seen is None:
        return ""
    other, rows, columns = seen
    if (rows, columns) == (height, width):
        return _CHANNELS.get((other, channels), f"It has {other} channel(s) and the model takes {channels}")
    if (rows, columns) == (width, height) and other == channels:
        return f"Height and width are exchanged: the model takes {height} rows of {width} pixels (cv2.resize and " \
               f"PIL want the width first: ({width}, {height}))"  # fmt: skip
    return (
        f"It is {rows} x {columns} pixels and the model takes {height} x {width}: resize it, or letterbox it so that "
        "its proportions stay; `openrknn.vision.Pipeline` does so, and so does `openrknn run --input`"
    )


_CHANNELS = {
    (4, 3): "It has an alpha channel: leave it away with array[..., :3]",
    (1, 3): "It is grey and the model takes three channels: np.repeat(array, 3, axis=-1)",
    (3, 1): "It has colours and the model takes grey: cv2.cvtColor(array, cv2.COLOR_RGB2GRAY)",
}


def _size(shape: tuple[int, ...]) -> tuple[int, int, int] | None:
    """Channels, height and width of one picture, whichever way its axes lie."""
    if len(shape) == 2:
        return 1, *shape
    if shape[-1] in _PICTURE:
        return shape[2], shape[0], shape[1]
    return (shape[0], shape[1], shape[2]) if shape[0] in _PICTURE else None
