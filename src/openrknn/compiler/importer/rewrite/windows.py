"""Padding, strides and sizes beyond what a task can do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from openrknn.compiler.budget import filled
from openrknn.compiler.errors import ModelError
from openrknn.compiler.float_model import onnx_package
from openrknn.compiler.identity import choice
from openrknn.compiler.importer.rewrite.kernels import drop_taps, fold_dilation, shorten_kernels, split_padding
from openrknn.compiler.importer.rewrite.moves import select
from openrknn.compiler.importer.rewrite.writer import Writer, attribute
from openrknn.compiler.ir import Array

_LARGEST_STRIDE = 7
_LARGEST_SPREAD = 8
"""Pixels that a transposed convolution can put between two."""
_LARGEST_CHOICE = 1 << 20
"""Weights of a convolution that only moves: two megabytes."""


def _conv(writer: Writer, node: Any) -> None:
    """Patches of 8 to 49 pixels in two steps, long strides of 1-D signals by phases."""
    weight, shape = writer.operand(node, 1), writer.shape(node.input[0])
    if weight is None or shape is None or weight.ndim != len(shape):
        return
    if len(shape) in {3, 4} and (
        drop_taps(writer, node, weight, shape)
        or fold_dilation(writer, node, weight, shape)
        or shorten_kernels(writer, node, weight, shape)
        or split_padding(writer, node, shape)
    ):
        return
    if len(shape) == 3:
        _phases(writer, node, weight, shape)
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
    full = filled((outputs, channels, taps * stride), writer.name)
    full[:, :, :kernel] = weight
    grid = full.reshape(outputs, channels, taps, stride)
    inner = grid.transpose(0, 1, 3, 2).reshape(outputs, channels * stride, taps)
    flat = writer.reshape(rows, (1, channels * stride, steps))
    writer.add("Conv", flat, writer.new(inner), *node.input[2:3], to=node.output[0], kernel_shape=[taps])


def _transposed(writer: Writer, node: Any) -> None:
    """Upsampling of signals by more than a task can: each phase, y[s1 u + p], by s / s1; then they interlace.

    The second one only moves numbers: channel (p, o) becomes channel o at place p.
    """
    weight, shape, out = writer.operand(node, 1), writer.shape(node.input[0]), writer.shape(node.output[0])
    if weight is None or weight.ndim != 3 or shape is None or out is None or shape[0] != 1:
        return
    (stride,) = attribute(node, "strides", [1])
    plain = int(attribute(node, "group", 1)) == 1 and max(attribute(node, "dilations", [1])) == 1
    phases = next((count for count in range(2, _LARGEST_SPREAD + 1) if not stride % count), 0)
    while phases and stride // phases > _LARGEST_SPREAD:
        more = range(phases + 1, _LARGEST_SPREAD + 1)
        phases = next((count for count in more if not stride % count), 0)
    if stride <= _LARGEST_SPREAD or not phases or not plain or attribute(node, "auto_pad", "NOTSET") != "NOTSET":
        return
    inputs, outputs, kernel = weight.shape
    before, step = int(attribute(node, "pads", [0, 0])[0]), stride // phases
    taps = -(-kernel // phases)
    taps += max(0, -(-(before + out[2]) // phases) - (shape[2] - 1) * step - taps)  # what output_padding adds is 0
    full = filled((inputs, outputs, taps * phases), writer.name, 0, np.float32)
    full[:, :, :kernel] = weight
    parted = full.reshape(inputs, outputs, taps, phases).transpose(0, 3, 1, 2).reshape(inputs, phases * outputs, taps)
    ahead, rows = before // phases, -(-(before + out[2]) // phases)
    behind = (shape[2] - 1) * step + taps - rows
    made = writer.add("ConvTranspose", node.input[0], writer.new(parted), kernel_shape=[taps], strides=[step],
                      pads=[ahead, behind])  # fmt: skip
    places = filled((phases, outputs, outputs, phases), writer.name, 0, np.float32)
    for phase in range(phases):
        places[phase, np.arange(outputs), np.arange(outputs), phase] = 1
    moves = places.reshape(phases * outputs, outputs, phases)
    writer.add("ConvTranspose", made, writer.new(moves), *node.input[2:3], to=node.output[0], kernel_shape=[phases],
               strides=[phases], pads=[before % phases, rows * phases - before - out[2]])  # fmt: skip


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
    taps = filled((channels * block, channels, *first), writer.name)
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
    if any(value < 0 for value in given) or before[0] or after[0] or shape[0] != 1:
        return
    is_beyond = mode == "reflect" and any(
        max(ahead, behind) >= size for size, ahead, behind in zip(shape, before, after, strict=True) if ahead or behind
    )
    if is_beyond:
        raise ModelError(
            f"Pad {node.name or node.output[0]!r} reflects more than there is of {list(shape)}: pads {list(given)}; "
            "export the model again",
            operators=(node.name, *node.output),
        )
    if mode in {"reflect", "edge", "wrap"}:
        _edges(writer, node, shape, before, after, mode)
    elif mode == "constant" and (before[1] or after[1]) and not any((*before[2:], *after[2:])):
        fill = writer.operand(node, 2)
        value = float(fill.reshape(-1)[0]) if fill is not None and fill.size else float(attribute(node, "value", 0.0))
        total = before[1] + shape[1] + after[1]
        weight, bias = choice(total, shape[1], "Pad", writer.name), np.full(total, value)
        weight[np.arange(before[1], before[1] + shape[1]), np.arange(shape[1])] = 1
        bias[before[1] : before[1] + shape[1]] = 0
        cube = shape if len(shape) == 4 else (1, shape[1], 1, int(np.prod(shape[2:])))
        source = node.input[0] if len(shape) == 4 else writer.reshape(node.input[0], cube)
        made = writer.add("Conv", source, writer.new(weight), writer.new(bias), kernel_shape=[1, 1])
        writer.reshape(made, (1, total, *shape[2:]), to=node.output[0])


def _edges(
    writer: Writer, node: Any, shape: tuple[int, ...], before: list[int], after: list[int], mode: str
) -> None:
    """Along each axis a choice of what is there, by a 1x1 convolution with 0 and 1; large ones are the CPU's."""
    sides = zip(shape, before, after, strict=True)
    if any(size * (size + ahead + behind) > _LARGEST_CHOICE for size, ahead, behind in sides if ahead or behind):
        return
    name, current = node.input[0], list(shape)
    for axis in range(1, len(shape)):
        size = current[axis]
        if not before[axis] and not after[axis]:
            continue
        weight = choice(size + before[axis] + after[axis], size, "Pad", writer.name)
        if mode == "reflect":
            ahead, behind = range(before[axis], 0, -1), range(size - 2, size - 2 - after[axis], -1)
            picks = [*ahead, *range(size), *behind]
        elif mode == "wrap":
            picks = [at % size for at in range(-before[axis], size + after[axis])]
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


def _pool(writer: Writer, node: Any) -> None:
    """ceil_mode makes no window that begins behind the last pixel: required by ONNX, missing in its shape inference."""
    shape = writer.shape(node.input[0])
    kernel = attribute(node, "kernel_shape", [])
    given = attribute(node, "auto_pad", "NOTSET") in {"NOTSET", ""}
    if not attribute(node, "ceil_mode", 0) or not given or shape is None or len(shape) != len(kernel) + 2:
        return
    ones, ends = [1] * len(kernel), [0] * (2 * len(kernel))
    strides, dilations = (attribute(node, name, ones) for name in ("strides", "dilations"))
    pads = list(attribute(node, "pads", ends))
    name, changed = node.input[0], False
    for axis, (size, taps, stride, gap) in enumerate(zip(shape[2:], kernel, strides, dilations, strict=True)):
        before, after = pads[axis], pads[axis + len(kernel)]
        reach = (taps - 1) * gap + 1
        room = size + before + after - reach
        if room % stride == 0 or -(-room // stride) * stride < size + before:
            continue
        used = room // stride * stride + reach - before
        pads[axis + len(kernel)] = max(used - size, 0)
        if used < size:
            name = writer.cut(name, axis + 2, 0, used)
        changed = True
    if not changed:
        return
    made = type(node)()
    made.CopyFrom(node)
    made.input[0] = name
    kept = [entry for entry in made.attribute if entry.name != "pads"]
    del made.attribute[:]
    made.attribute.extend([*kept, onnx_package().helper.make_attribute("pads", pads)])
    writer.put(made)
    for entry in writer.facts.model.graph.output:  # declared with the size of the window that is not there
        entry.type.tensor_type.ClearField("shape")


RULES: dict[str, Callable[[Writer, Any], None]] = {
    "AveragePool": _pool, "Conv": _conv, "ConvTranspose": _transposed, "LpPool": _pool, "MaxPool": _pool, "Pad": _pad,
}  # fmt: skip
