"""Which axis is which: NHWC and NCHW arrays distinguished by their shape, a missing batch dimension added.

Nothing is copied: the result is a view of the array in the one order that the input needs.
"""

from __future__ import annotations

from collections.abc import Sequence

from openrknn.container.parts import Tensor
from openrknn.runtime.io.hints import shape_hint
from openrknn.runtime.io.tensors import Array

__all__ = ["LAYOUTS", "arrange", "shape_in", "state_layout", "wanted_text"]

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
            raise ValueError(f"layout {layout!r} is not known; there are 'nhwc' and 'nchw'")
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
