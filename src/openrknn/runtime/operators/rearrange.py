"""Reshape, Transpose, Concat, Slice, Split, Pad and the like: values at other places, some of them more than once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from openrknn.errors import UnsupportedError
from openrknn.runtime.operators.interface import (
    Array,
    Attributes,
    Compute,
    Inputs,
    Shape,
    axis_of,
    fitting,
    integer,
    integers,
    number,
    optional,
    text,
)

_PADDINGS = {"constant": "constant", "reflect": "reflect", "edge": "edge", "wrap": "wrap"}


def identity(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """The input itself."""
    return inputs[0]


def slice_(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """Starts, ends, axes and steps are inputs since opset 10, and were attributes before."""
    x = inputs[0]
    starts, ends = _numbers(inputs, 1, attributes, "starts"), _numbers(inputs, 2, attributes, "ends")
    axes = _numbers(inputs, 3, attributes, "axes") or tuple(range(len(starts)))
    steps = _numbers(inputs, 4, attributes, "steps") or (1,) * len(starts)
    if len({len(starts), len(ends), len(axes), len(steps)}) != 1 or 0 in steps:
        raise UnsupportedError(f"starts {starts}, ends {ends}, axes {axes} and steps {steps} do not go together")
    parts = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        place = axis_of(axis, x.ndim)
        size = x.shape[place]
        first, last = (value + size if value < 0 else value for value in (start, end))
        if step > 0:
            parts[place] = slice(max(first, 0), max(last, 0), step)
        else:
            parts[place] = slice(min(first, size - 1), None if last < 0 else last, step)
            if first < 0:
                parts[place] = slice(0, 0)
    return np.asarray(x[tuple(parts)])


def _numbers(inputs: Inputs, index: int, attributes: Attributes, name: str) -> tuple[int, ...]:
    given = optional(inputs, index)
    if given is None:
        return integers(attributes, name, ())
    return tuple(int(value) for value in given.reshape(-1).tolist())


def split(inputs: Inputs, attributes: Attributes, shapes: Sequence[Shape]) -> Sequence[Array]:
    """Parts along one axis, of the sizes that the second input or `split` states, or as equal as it goes."""
    x = inputs[0]
    axis = axis_of(integer(attributes, "axis", 0), x.ndim)
    sizes = _numbers(inputs, 1, attributes, "split")
    if not sizes:
        each = -(-x.shape[axis] // max(len(shapes), 1))
        sizes = tuple(max(0, min(each, x.shape[axis] - each * k)) for k in range(len(shapes)))
    if len(sizes) != len(shapes) or sum(sizes) != x.shape[axis] or min(sizes) < 0:
        raise UnsupportedError(f"{x.shape[axis]} are not split into {list(sizes)} for {len(shapes)} outputs")
    return np.split(x, np.cumsum(sizes)[:-1].tolist(), axis=axis)


def pad(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """Pads are an input since opset 11, an attribute before; a negative one cuts off."""
    x = inputs[0]
    mode = _PADDINGS.get(text(attributes, "mode", "constant"))
    amounts = _numbers(inputs, 1, attributes, "pads")
    axes = [axis_of(axis, x.ndim) for axis in _numbers(inputs, 3, attributes, "axes") or range(x.ndim)]
    if mode is None or len(amounts) != 2 * len(axes):
        raise UnsupportedError(f"mode {text(attributes, 'mode', '')!r} with pads {list(amounts)} on {list(x.shape)}")
    sides = [(0, 0)] * x.ndim
    for axis, before, after in zip(axes, amounts[: len(axes)], amounts[len(axes) :], strict=True):
        sides[axis] = (before, after)
    fitting([size + sum(side) for size, side in zip(x.shape, sides, strict=True)], shape)
    kept = x[tuple(slice(max(0, -a), size - max(0, -b)) for size, (a, b) in zip(x.shape, sides, strict=True))]
    grown = [(max(0, before), max(0, after)) for before, after in sides]
    if mode != "constant":
        return np.asarray(np.pad(kept, grown, mode=mode))  # type: ignore[call-overload]
    given = optional(inputs, 2)
    value = number(attributes, "value", 0.0) if given is None else given.reshape(-1)[0]
    return np.asarray(np.pad(kept, grown, constant_values=value))


def tile(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """The whole repeated along each axis."""
    x, repeats = inputs[0], tuple(int(value) for value in inputs[1].reshape(-1).tolist())
    if len(repeats) != x.ndim:
        raise UnsupportedError(f"{list(x.shape)} is not repeated {list(repeats)} times")
    fitting([size * count for size, count in zip(x.shape, repeats, strict=True)], shape)
    return np.tile(x, repeats)


def expand(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """Axes of size 1 are repeated to the wanted shape, which the compiler has resolved."""
    wanted = tuple(int(value) for value in inputs[1].reshape(-1).tolist()) if len(inputs) > 1 else shape
    made = fitting(np.broadcast_shapes(inputs[0].shape, wanted), shape)
    return np.broadcast_to(inputs[0], made)


def depth_to_space(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """Channels become blocks of pixels; DCR has the block's place in front of the channel, CRD behind it."""
    x, size = inputs[0], integer(attributes, "blocksize", 1)
    n, c, h, w = x.shape
    if size < 1 or c % (size * size):
        raise UnsupportedError(f"{c} channels are no blocks of {size} x {size}")
    if text(attributes, "mode", "DCR") == "DCR":
        turned = x.reshape(n, size, size, c // size**2, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        turned = x.reshape(n, c // size**2, size, size, h, w).transpose(0, 1, 4, 2, 5, 3)
    return turned.reshape(n, c // size**2, h * size, w * size)


def space_to_depth(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """Blocks of pixels become channels, the place in the block in front (DCR), or behind the channel (CRD)."""
    x, size = inputs[0], integer(attributes, "blocksize", 1)
    n, c, h, w = x.shape
    if size < 1 or h % size or w % size:
        raise UnsupportedError(f"{h} x {w} pixels are no blocks of {size} x {size}")
    order = (0, 3, 5, 1, 2, 4) if text(attributes, "mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    turned = x.reshape(n, c, h // size, size, w // size, size).transpose(order)
    return turned.reshape(n, c * size * size, h // size, w // size)


def reverse_sequence(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """Of each item the first `length` steps in reverse, the others as they are."""
    x, lengths = inputs[0], [int(value) for value in inputs[1].reshape(-1).tolist()]
    batch, time = (axis_of(integer(attributes, name, k), x.ndim) for name, k in (("batch_axis", 1), ("time_axis", 0)))
    if batch == time or len(lengths) != x.shape[batch] or not all(0 <= n <= x.shape[time] for n in lengths):
        raise UnsupportedError(f"lengths {lengths} along axis {time} of {list(x.shape)}")
    result = x.copy()
    from_, to = (np.moveaxis(array, (batch, time), (0, 1)) for array in (x, result))
    for item, length in enumerate(lengths):
        to[item, :length] = from_[item, :length][::-1]
    return result


def trilu(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """The upper or lower triangle of each matrix, the rest 0."""
    given = optional(inputs, 1)
    diagonal = 0 if given is None else int(given.reshape(-1)[0])
    diagonal = max(-max(inputs[0].shape), min(diagonal, max(inputs[0].shape)))
    return np.asarray((np.triu if integer(attributes, "upper", 1) else np.tril)(inputs[0], diagonal))


def concat(inputs: Sequence[Array], attributes: Attributes, shape: tuple[int, ...]) -> Array:
    """All other axes have the same size."""
    return np.concatenate(inputs, axis=integer(attributes, "axis", 1))


def transpose(inputs: Sequence[Array], attributes: Attributes, shape: tuple[int, ...]) -> Array:
    """Axis k of the output is axis perm[k] of the input; without perm the axes are reversed."""
    rank = inputs[0].ndim
    return inputs[0].transpose(integers(attributes, "perm", range(rank - 1, -1, -1)))


def reshape(inputs: Sequence[Array], attributes: Attributes, shape: tuple[int, ...]) -> Array:
    """The order of the elements stays; the second input (the wanted shape) has been resolved in `shape`."""
    return inputs[0].reshape(shape)


REARRANGES: Mapping[str, Compute] = MappingProxyType(
    {
        "Concat": concat,
        "DepthToSpace": depth_to_space,
        "Dropout": identity,
        "Expand": expand,
        "Flatten": reshape,
        "Identity": identity,
        "Reshape": reshape,
        "ReverseSequence": reverse_sequence,
        "Slice": slice_,
        "SpaceToDepth": space_to_depth,
        "Squeeze": reshape,
        "Tile": tile,
        "Transpose": transpose,
        "Unsqueeze": reshape,
    }
)
"""Operator type -> how to compute it. Many models leave only such ones to the CPU: they need no other file."""
