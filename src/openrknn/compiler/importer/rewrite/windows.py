"""Padding, strides and sizes beyond what a task can do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from openrknn.compiler.identity import choice
from openrknn.compiler.importer.rewrite.moves import select
from openrknn.compiler.importer.rewrite.writer import Writer, attribute, rectangle
from openrknn.compiler.ir import Array

__all__ = ["RULES"]

_LARGEST_STRIDE = 7
_WIDEST = 2047
"""Pixels of a row that a convolution reads."""


def _conv(writer: Writer, node: Any) -> None:
    """Patches of 8 to 49 pixels in two steps, long strides of 1-D signals by phases, wide rows as rectangles."""
    weight, shape = writer.operand(node, 1), writer.shape(node.input[0])
    if weight is None or shape is None or weight.ndim != len(shape):
        return
    if len(shape) == 3:
        _phases(writer, node, weight, shape)
        return
    strides, pads = attribute(node, "strides", [1, 1]), attribute(node, "pads", [0])
    is_point = weight.shape[2:] == (1, 1) and max(strides) == 1 and not any(pads)
    if len(shape) == 4 and is_point and shape[3] > _WIDEST:  # where only the number of pixels matters
        given = {entry.name: attribute(node, entry.name) for entry in node.attribute}
        flat = writer.reshape(node.input[0], (1, shape[1], *rectangle(shape[2] * shape[3])))
        made = writer.add("Conv", flat, *node.input[1:], **given)
        writer.reshape(made, (1, len(weight), *shape[2:]), to=node.output[0])
        return
    _patches(writer, node)


def _phases(writer: Writer, node: Any, weight: Array, shape: tuple[int, ...]) -> None:
    """A long stride over samples (a short-time Fourier transform): each phase of the stride becomes a channel."""
    (stride,) = attribute(node, "strides", [1])
    plain = int(attribute(node, "group", 1)) == 1 and max(attribute(node, "dilations", [1])) == 1
    out = writer.shape(node.output[0])
    if stride <= _LARGEST_STRIDE or not plain or any(attribute(node, "pads", [0])) or out is None or shape[0] != 1:
        return
    outputs, channels, kernel = weight.shape
    taps = -(-kernel // stride)
    steps = out[2] + taps - 1
    name, length = node.input[0], steps * stride
    if length > shape[2]:
        end = [0, 0, 0, 0, 0, length - shape[2]]
        name = writer.add("Pad", name, pads=end) if writer.facts.opset < 11 else writer.add(
            "Pad", name, writer.new(end, np.int64)
        )
    elif length < shape[2]:
        name = writer.cut(name, 2, 0, length)
    rows = writer.transpose(writer.reshape(name, (1, channels, steps, stride)), [0, 1, 3, 2])
    full = np.zeros((outputs, channels, taps * stride))
    full[:, :, :kernel] = weight
    grid = full.reshape(outputs, channels, taps, stride)
    inner = grid.transpose(0, 1, 3, 2).reshape(outputs, channels * stride, taps)
    flat = writer.reshape(rows, (1, channels * stride, steps))
    writer.add("Conv", flat, writer.new(inner), *node.input[2:3], to=node.output[0], kernel_shape=[taps])


def _patches(writer: Writer, node: Any) -> None:
    """Patches of a vision transformer: a stride of 16 is one of 4, taken twice.

    The first convolution only moves pixels to channels, with weights of 0 and 1; the second has the weights of both.
    """
    weight, shape = writer.operand(node, 1), writer.shape(node.input[0])
    strides = attribute(node, "strides", [1, 1])
    if weight is None or shape is None or weight.ndim != 4 or len(shape) != 4 or max(strides) <= _LARGEST_STRIDE:
        return
    kernel = list(weight.shape[2:])
    plain = int(attribute(node, "group", 1)) == 1 and max(attribute(node, "dilations", [1])) == 1
    left_over = any(size % taps for size, taps in zip(shape[2:], kernel, strict=True))
    if not plain or kernel != strides or any(attribute(node, "pads", [0])) or left_over:
        return
    first = [_factor(size) for size in kernel]
    second = [size // factor for size, factor in zip(kernel, first, strict=True)]
    if 0 in first or max(second) > _LARGEST_STRIDE:
        return
    channels, block = shape[1], first[0] * first[1]
    taps = np.zeros((channels * block, channels, *first))
    for channel in range(channels):
        for place in range(block):
            taps[channel * block + place, channel, place // first[1], place % first[1]] = 1
    moved = writer.add("Conv", node.input[0], writer.new(taps), kernel_shape=first, strides=first)
    outputs = len(weight)
    grid = weight.reshape(outputs, channels, second[0], first[0], second[1], first[1])
    inner = grid.transpose(0, 1, 3, 5, 2, 4).reshape(outputs, channels * block, *second)
    operands = [moved, writer.new(inner), *node.input[2:3]]
    writer.add("Conv", *operands, to=node.output[0], kernel_shape=second, strides=second)


def _factor(size: int) -> int:
    """The part of a stride that the first convolution takes; 0 if there is none."""
    if size <= _LARGEST_STRIDE:
        return 1
    choices = range(2, _LARGEST_STRIDE + 1)
    return next((number for number in choices if size % number == 0 and size // number <= _LARGEST_STRIDE), 0)


def _pad(writer: Writer, node: Any) -> None:
    """Mirrored and repeated edges, and channels of zeros, by 1x1 convolutions with 0 and 1."""
    shape = writer.shape(node.input[0])
    given = attribute(node, "pads")
    if given is None and len(node.input) > 1:
        array = writer.constant(node.input[1])
        given = None if array is None else array.reshape(-1).tolist()
    if shape is None or given is None or len(node.input) > 3 or len(given) != 2 * len(shape):
        return
    before, after = ([int(value) for value in part] for part in (given[: len(shape)], given[len(shape) :]))
    mode = attribute(node, "mode", "constant")
    if not any(given):
        writer.add("Identity", node.input[0], to=node.output[0])
        return
    if any(value < 0 for value in given) or before[0] or after[0]:
        return
    if mode in {"reflect", "edge"}:
        _edges(writer, node, shape, before, after, mirrored=mode == "reflect")
    elif mode == "constant" and (before[1] or after[1]) and not any((*before[2:], *after[2:])):
        fill = writer.operand(node, 2)
        value = float(fill.reshape(-1)[0]) if fill is not None and fill.size else float(attribute(node, "value", 0.0))
        total = before[1] + shape[1] + after[1]
        weight, bias = choice(total, shape[1], f"Pad {writer.name!r}"), np.full(total, value)
        weight[np.arange(before[1], before[1] + shape[1]), np.arange(shape[1])] = 1
        bias[before[1] : before[1] + shape[1]] = 0
        cube = shape if len(shape) == 4 else (1, shape[1], 1, int(np.prod(shape[2:])))
        source = node.input[0] if len(shape) == 4 else writer.reshape(node.input[0], cube)
        made = writer.add("Conv", source, writer.new(weight), writer.new(bias), kernel_shape=[1, 1])
        writer.reshape(made, (1, total, *shape[2:]), to=node.output[0])


def _edges(
    writer: Writer, node: Any, shape: tuple[int, ...], before: list[int], after: list[int], *, mirrored: bool
) -> None:
    """Along each axis a choice of what is there, by a 1x1 convolution with 0 and 1."""
    name, current = node.input[0], list(shape)
    for axis in range(1, len(shape)):
        size = current[axis]
        if not before[axis] and not after[axis]:
            continue
        weight = choice(size + before[axis] + after[axis], size, f"Pad {writer.name!r}")
        if mirrored:
            ahead, behind = range(before[axis], 0, -1), range(size - 2, size - 2 - after[axis], -1)
            picks = [*ahead, *range(size), *behind]
        else:
            picks = [0] * before[axis] + [*range(size)] + [size - 1] * after[axis]
        weight[np.arange(len(picks)), picks] = 1
        order = list(range(len(shape)))
        order[1], order[axis] = order[axis], order[1]
        turned = writer.transpose(name, order)
        have = tuple(current[at] for at in order)
        target = writer.facts.fresh(f"{writer.name}_edges")
        select(writer, turned, have, weight, None, (1, len(picks), *have[2:]), target)
        name = writer.transpose(target, order)
        current[axis] = len(picks)
    writer.add("Identity", name, to=node.output[0])


def _smaller(writer: Writer, node: Any) -> None:
    """Nearest resizing by 1/n that starts at the first pixel: every n-th one."""
    shape, out = writer.shape(node.input[0]), writer.shape(node.output[0])
    if shape is None or out is None or len(shape) != 4 or shape[:2] != out[:2] or writer.facts.opset < 10:
        return
    is_nearest = attribute(node, "mode", "nearest") == "nearest"
    starts_at_zero = attribute(node, "coordinate_transformation_mode", "half_pixel") == "asymmetric"
    if shape == out:
        writer.add("Identity", node.input[0], to=node.output[0])
        return
    if not is_nearest or not starts_at_zero or attribute(node, "nearest_mode", "round_prefer_floor") == "ceil":
        return
    steps = [have // want for have, want in zip(shape[2:], out[2:], strict=True)]
    if any(step < 1 or have != step * want for step, have, want in zip(steps, shape[2:], out[2:], strict=True)):
        return
    numbers = [writer.new(value, np.int64) for value in ([0, 0], list(shape[2:]), [2, 3], steps)]
    writer.add("Slice", node.input[0], *numbers, to=node.output[0])


RULES: dict[str, Callable[[Writer, Any], None]] = {"Conv": _conv, "Pad": _pad, "Resize": _smaller}
