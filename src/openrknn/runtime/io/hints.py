"""What may have gone wrong with an array of the wrong shape, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

__all__ = ["shape_hint"]

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
