"""Convolutions with kernels and padding beyond the NPU's registers.

A kernel of K taps along an axis becomes one of T = ceil((K + F - s) / F) taps: F neighbours of the axis become
channels, and the F / s results that begin among them (stride s) become outputs. The products are the same, besides
zeros:

    y[m, r P + p] = sum over c, t, f of w[m, c, t F + f - p s] x[c, (r + t) F + f],   P = F / s
"""

from __future__ import annotations

from typing import Any

import numpy as np

from openrknn.compiler.budget import filled
from openrknn.compiler.importer.rewrite.writer import Writer, attribute
from openrknn.compiler.ir import Array

_LONGEST = 31
"""Taps along an axis that WEIGHT_SIZE2 holds."""
_LARGEST_PAD = 15
"""Zeros that PAD_CON0 holds."""
_MOST_STEPS = 4
_WIDEST_DILATION = 32


def shorten_kernels(writer: Writer, node: Any, weight: Array, shape: tuple[int, ...]) -> bool:
    """The first axis with too many taps; whether there was one. What is left over is the next round's."""
    long_ones = [at for at, taps in enumerate(weight.shape[2:]) if taps > _LONGEST]
    bias = writer.operand(node, 2)
    has_bias = len(node.input) > 2 and bool(node.input[2])
    plain = int(attribute(node, "group", 1)) == 1 and attribute(node, "auto_pad", "NOTSET") == "NOTSET"
    out = writer.shape(node.output[0])
    if not long_ones or not plain or out is None or shape[0] != 1 or (has_bias and bias is None):
        return False
    at, rank = long_ones[0], len(shape) - 2
    strides, dilations = attribute(node, "strides", [1] * rank), attribute(node, "dilations", [1] * rank)
    pads = list(attribute(node, "pads", [0] * (2 * rank)))
    if dilations[at] != 1:
        return False
    taps, stride = weight.shape[2 + at], strides[at]
    fold = next(size for size in range(stride, taps + stride, stride) if _taps(taps, size, stride) <= _LONGEST)
    phases, short = fold // stride, _taps(taps, fold, stride)
    rows = -(-out[2 + at] // phases)
    name = _folded(writer, node.input[0], shape, at, (rows + short - 1, fold), (pads[at], pads[rank + at]))
    pads[at] = pads[rank + at] = 0
    kernel = [short if axis == at else size for axis, size in enumerate(weight.shape[2:])]
    operands = [name, writer.new(_weights(weight, at, short, fold, stride))]
    if bias is not None:
        operands.append(writer.new(np.repeat(bias.reshape(-1), phases)))
    steps = [1 if axis == at else size for axis, size in enumerate(strides)]
    made = writer.add("Conv", *operands, kernel_shape=kernel, strides=steps, pads=pads, dilations=list(dilations))
    _unfolded(writer, made, out, at, (rows, phases), node.output[0])
    return True


def _taps(taps: int, fold: int, stride: int) -> int:
    return -(-(taps + fold - stride) // fold)


def _folded(
    writer: Writer, name: str, shape: tuple[int, ...], at: int, sizes: tuple[int, int], pads: tuple[int, int]
) -> str:
    """[1, C, .., N F, ..] as [1, C F, .., N, ..]."""
    axis, (steps, fold) = at + 2, sizes
    length = shape[axis] + pads[0]
    missing = max(0, steps * fold - length)
    if pads[0] or missing:
        before, after = [0] * len(shape), [0] * len(shape)
        before[axis], after[axis] = pads[0], missing
        name = writer.pad(name, before, after)
    if length + missing > steps * fold:
        name = writer.cut(name, axis, 0, steps * fold)
    apart = [*shape[:axis], steps, fold, *shape[axis + 1 :]]
    order = [0, 1, axis + 1, *(entry for entry in range(2, len(apart)) if entry != axis + 1)]
    turned = writer.transpose(writer.reshape(name, apart), order)
    whole = [1, shape[1] * fold, *(steps if entry == axis else shape[entry] for entry in range(2, len(shape)))]
    return writer.reshape(turned, whole)


def _weights(weight: Array, at: int, short: int, fold: int, stride: int) -> Array:
    """[M, C, ...] as [M P, C F, ...]: phase p begins p strides later."""
    outputs, channels = weight.shape[:2]
    phases, taps = fold // stride, weight.shape[2 + at]
    last = np.moveaxis(weight, 2 + at, -1)  # [M, C, others, K]
    full = filled((outputs, phases, *last.shape[1:-1], short * fold), "Conv")
    for phase in range(phases):
        full[:, phase, ..., phase * stride : phase * stride + taps] = last
    parted = full.reshape(*full.shape[:-1], short, fold)
    near = np.moveaxis(parted, -1, 3)  # [M, P, C, F, others, T]
    joined = near.reshape(outputs * phases, channels * fold, *near.shape[4:])
    return np.ascontiguousarray(np.moveaxis(joined, -1, 2 + at))


def _unfolded(writer: Writer, name: str, out: tuple[int, ...], at: int, sizes: tuple[int, int], target: str) -> None:
    """[1, M P, .., R, ..] as [1, M, .., R P, ..], without what is beyond the end."""
    axis, (rows, phases) = at + 2, sizes
    apart = [1, out[1], phases, *(rows if entry == axis else out[entry] for entry in range(2, len(out)))]
    order = [0, 1, *(entry for entry in range(3, len(apart)))]
    order.insert(order.index(axis + 1) + 1, 2)
    turned = writer.transpose(writer.reshape(name, apart), order)
    whole = [*out[:axis], rows * phases, *out[axis + 1 :]]
    if rows * phases == out[axis]:
        writer.reshape(turned, whole, to=target)
    else:
        writer.cut(writer.reshape(turned, whole), axis, 0, out[axis], to=target)


def split_padding(writer: Writer, node: Any, shape: tuple[int, ...]) -> bool:
    """Padding beyond what a task adds, in steps before the convolution; whether there was any."""
    rank = len(shape) - 2
    pads = list(attribute(node, "pads", [0] * (2 * rank)))
    if max(pads, default=0) <= _LARGEST_PAD or attribute(node, "auto_pad", "NOTSET") != "NOTSET":
        return False
    name, left = node.input[0], list(pads)
    steps = -(-max(pads) // _LARGEST_PAD)
    most = _LARGEST_PAD if steps <= _MOST_STEPS else max(pads)
    while any(left):
        now = [min(size, most) for size in left]
        left = [size - done for size, done in zip(left, now, strict=True)]
        name = writer.pad(name, [0, 0, *now[:rank]], [0, 0, *now[rank:]])
    given = {entry.name: attribute(node, entry.name) for entry in node.attribute if entry.name != "pads"}
    writer.add("Conv", name, *node.input[1:], to=node.output[0], **given)
    return True


def drop_taps(writer: Writer, node: Any, weight: Array, shape: tuple[int, ...]) -> bool:
    """Taps that never meet anything but padding (wide dilations over few numbers) are left out; whether there were any.

    Tap k of an axis reads i s + k d - p for the outputs i = 0 .. L - 1.
    """
    rank, out = len(shape) - 2, writer.shape(node.output[0])
    if out is None or attribute(node, "auto_pad", "NOTSET") != "NOTSET":
        return False
    strides, dilations = attribute(node, "strides", [1] * rank), attribute(node, "dilations", [1] * rank)
    pads = list(attribute(node, "pads", [0] * (2 * rank)))
    kept = weight
    for at in range(rank):
        taps, step = weight.shape[2 + at], dilations[at]
        last = (out[2 + at] - 1) * strides[at]
        first = next((tap for tap in range(taps) if tap * step - pads[at] + last >= 0), 0)
        end = next((tap + 1 for tap in reversed(range(taps)) if tap * step - pads[at] < shape[2 + at]), taps)
        if end <= first or (first == 0 and end == taps):
            continue
        kept = np.take(kept, range(first, end), axis=2 + at)
        pads[at] -= first * step
        pads[rank + at] -= (taps - end) * step
    if kept.shape == weight.shape:
        return False
    name = node.input[0]
    if min(pads) < 0:  # numbers at the ends that nothing reads any more
        for at in range(rank):
            before, after = max(0, -pads[at]), max(0, -pads[rank + at])
            if before or after:
                name = writer.cut(name, 2 + at, before, shape[2 + at] - after)
        pads = [max(0, size) for size in pads]
    given = {entry.name: attribute(node, entry.name) for entry in node.attribute}
    given |= {"pads": pads, "kernel_shape": list(kept.shape[2:])}
    writer.add("Conv", name, writer.new(kept), *node.input[2:], to=node.output[0], **given)
    return True


def fold_dilation(writer: Writer, node: Any, weight: Array, shape: tuple[int, ...]) -> bool:
    """A dilation d along one line as rows of d numbers: neighbours of a tap lie below each other then.

    y[a d + b] = sum over k of w[k] x[(a + k) d + b], the padding counted in; nothing is moved for it.
    """
    rank, out = len(shape) - 2, writer.shape(node.output[0])
    dilations = attribute(node, "dilations", [1] * rank)
    pads = attribute(node, "pads", [0] * (2 * rank))
    at = max(range(rank), key=lambda axis: dilations[axis])
    step, taps, length = dilations[at], weight.shape[2 + at], shape[2 + at]
    inner = shape[3] if rank == 2 and at == 0 else 1
    is_line = all(size == 1 for axis, size in enumerate(weight.shape[2:]) if axis != at) and (at == 0 or shape[2] == 1)
    others = any(pads[axis] or pads[rank + axis] for axis in range(rank) if axis != at)
    plain = max(attribute(node, "strides", [1])) == 1 and attribute(node, "auto_pad", "NOTSET") == "NOTSET"
    is_needed = step > _WIDEST_DILATION or (step > 1 and max(pads[at], pads[rank + at]) > _LARGEST_PAD)
    if not is_needed or not is_line or others or not plain or out is None or shape[0] != 1:
        return False
    rows = -(-(length + pads[at] + pads[rank + at]) // step)
    before, after = [0] * len(shape), [0] * len(shape)
    before[2 + at], after[2 + at] = pads[at], rows * step - length - pads[at]
    name = writer.pad(node.input[0], before, after)
    flat = writer.reshape(name, (1, shape[1], rows, step * inner))
    kernel = [taps, 1]
    made = writer.add("Conv", flat, writer.new(weight.reshape(*weight.shape[:2], *kernel)), *node.input[2:],
                      kernel_shape=kernel, group=int(attribute(node, "group", 1)))  # fmt: skip
    long = [*out[: 2 + at], (rows - taps + 1) * step, *out[3 + at :]]
    if long[2 + at] == out[2 + at]:
        writer.reshape(made, long, to=node.output[0])
    else:
        writer.cut(writer.reshape(made, long), 2 + at, 0, out[2 + at], to=node.output[0])
    return True
