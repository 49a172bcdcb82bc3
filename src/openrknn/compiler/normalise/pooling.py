"""Pooling windows in one form; means over whole maps as depthwise convolutions."""

from __future__ import annotations

from functools import partial

import numpy as np

from openrknn.compiler.budget import filled
from openrknn.compiler.forms import Conv, Pool
from openrknn.compiler.ir import Array, Graph, Op
from openrknn.compiler.normalise.common import axes_of, pair, replace_op
from openrknn.compiler.normalise.linear import _pads

_LARGEST_STEP = 7
"""The vendor's converter never takes the mean of more than 7x7 pixels at once."""
_LARGEST_CASCADE = 16
_LARGEST_PAD = 7


def normalise_pools(graph: Graph, largest: int = 16, *, averages: bool = True, averages_floats: bool = True) -> None:
    """MaxPool and AveragePool become Pool, global means become depthwise convolutions.

    `largest` is the side of the largest window; larger maxima are taken in two steps. Means that are larger, or all of
    them if not `averages`, or those of fp16 in an int8 model if not `averages_floats`, are depthwise convolutions too.
    """
    for op in list(graph.ops):
        if op.type in {"MaxPool", "AveragePool"}:
            is_able = averages_floats if op.output in graph.floats else averages
            _window(graph, op, largest, averages=is_able)
        elif op.type == "GlobalAveragePool" or (op.type == "ReduceMean" and _over_pixels(graph, op)):
            _mean(graph, op)
        elif op.type == "GlobalMaxPool" or (op.type == "ReduceMax" and _over_pixels(graph, op)):
            _largest(graph, op, largest)


def _over_pixels(graph: Graph, op: Op) -> bool:
    shape = graph.shape(op.inputs[0])
    return len(shape) == 4 and shape[0] == 1 and axes_of(graph, op, 4) == (2, 3)


def _window(graph: Graph, op: Op, largest: int, *, averages: bool) -> None:
    kernel, strides = pair(op, "kernel_shape", 1), pair(op, "strides", 1)
    pads = _pads(graph, op, kernel, strides, (1, 1))
    _, height, width = graph.values[op.inputs[0]].cube
    _, out_height, out_width = graph.values[op.output].cube
    method = "max" if op.type == "MaxPool" else "average"
    reach = [
        (out - 1) * stride + size - pad - have
        for out, stride, size, pad, have in (
            (out_height, strides[0], kernel[0], pads[0], height),
            (out_width, strides[1], kernel[1], pads[1], width),
        )
    ]
    padded = any(pads) or max(reach) > 0
    hangs_over = max(reach[0] - pads[2], reach[1] - pads[3]) > 0  # ceil_mode: never counted, whatever is said of pads
    if method == "average" and padded and (hangs_over or not op.attributes.get("count_include_pad")):
        sides = list(pads) if len(graph.shape(op.inputs[0])) == 4 else [pads[1], pads[3]]
        op.attributes = {**op.attributes, "pads": sides, "reason": "padding is excluded from the mean"}
        return
    dilated = any(int(value) != 1 for value in op.attributes.get("dilations") or ())
    is_large = max(kernel) > (_LARGEST_CASCADE if method == "max" else largest)
    steps = strides
    if max(strides) > _LARGEST_STEP:  # beside one window there is no other
        steps = (strides[0] if out_height > 1 else 1, strides[1] if out_width > 1 else 1)
    as_convolution = method == "average" and (is_large or not averages) and max(steps) <= _LARGEST_STEP
    if as_convolution and not dilated and max(kernel) <= _LARGEST_CASCADE and max(*pads, *reach) <= _LARGEST_PAD:
        if kernel == (height, width) and not padded:
            _mean(graph, op)
            return
        channels = graph.values[op.inputs[0]].cube[0]
        taps = filled((channels, 1, *kernel), op.name, 1 / (kernel[0] * kernel[1]))
        ends = (pads[0], pads[1], max(reach[0], 0), max(reach[1], 0))
        replace_op(graph, op, _depthwise(graph, op, op.inputs[0], op.output, taps, ends, steps))
        return
    if is_large and method == "average" and kernel == strides and not padded and not dilated:
        _mean_of_blocks(graph, op, kernel)
        if op not in graph.ops:
            return
    if dilated or is_large or max(*pads, *reach) > _LARGEST_PAD or len(op.outputs) > 1:
        op.attributes["reason"] = f"window beyond the NPU's limits ({largest} pixels, padding 7; no dilation, indices)"
        return
    if method == "average" and (kernel == (height, width)) and not padded:
        _mean(graph, op)
        return
    op.become("Pool", Pool(method, kernel, strides, (pads[0], pads[1], max(reach[0], 0), max(reach[1], 0))))
    while max(op.get(Pool).kernel) > largest:
        _cascade(graph, op, largest)


def _cascade(graph: Graph, op: Op, largest: int) -> None:
    """A maximum of maxima: windows of `largest` first, and what is left of the window by this operator."""
    source, pool = op.inputs[0], op.get(Pool)
    channels, height, width = graph.values[source].cube
    first = min(pool.kernel[0], largest), min(pool.kernel[1], largest)
    rest = pool.kernel[0] - first[0] + 1, pool.kernel[1] - first[1] + 1
    # Padding that the second step adds must not hide a pixel that only windows in it would see.
    top, left, bottom, right = pads = tuple(
        max(min(pad, first[side % 2] // 2), pad - rest[side % 2] + 1) for side, pad in enumerate(pool.pads)
    )
    rows, columns = height + top + bottom - first[0] + 1, width + left + right - first[1] + 1
    inner = graph.add_derived(f"{op.output}_maxima", (1, channels, rows, columns), source)
    before = Op("Pool", inner, [source], [inner], {}, op.fused, Pool("max", first, (1, 1), (top, left, bottom, right)))
    graph.ops.insert(graph.ops.index(op), before)
    op.inputs[0] = inner
    top, left, bottom, right = (pad - used for pad, used in zip(pool.pads, pads, strict=True))
    op.form = Pool("max", rest, pool.strides, (top, left, bottom, right))


def _largest(graph: Graph, op: Op, largest: int) -> None:
    """The maximum of a whole map, in steps of windows that the PPU has; its padding never wins."""
    source, steps = op.inputs[0], []
    channels, height, width = graph.values[source].cube
    while True:
        kernel = _window_of(height, largest), _window_of(width, largest)
        rows, columns = -(-height // kernel[0]), -(-width // kernel[1])
        is_last = rows == columns == 1
        target = op.output if is_last else graph.add_value(f"{op.output}_part", (1, channels, rows, columns))
        if not is_last:
            graph.derived[target] = (op.inputs[0], lambda values: values)
        pads = (0, 0, rows * kernel[0] - height, columns * kernel[1] - width)
        form = Pool("max", kernel, kernel, pads)
        steps.append(Op("Pool", op.name if is_last else target, [source], [target], {}, op.fused, form))
        source, height, width = target, rows, columns
        if is_last:
            break
    replace_op(graph, op, *steps)


def _window_of(size: int, largest: int) -> int:
    """Of as few windows as can be, whose last one reaches no further beyond the map than the PPU pads."""
    windows = (-(-size // count) for count in range(-(-size // largest), size + 1))
    return next(window for window in windows if -size % window <= _LARGEST_PAD)


def _mean(graph: Graph, op: Op) -> None:
    """One depthwise convolution, or two with the kernel cut in factors, so that none is larger than 7x7."""
    channels, height, width = graph.values[op.inputs[0]].cube
    source = op.inputs[0]
    steps = []
    gain = 1.0
    while max(height, width) > _LARGEST_STEP:
        kernel = _step(height), _step(width)
        rows, columns = -(-height // kernel[0]), -(-width // kernel[1])
        name = graph.add_value(f"{op.output}_part", (1, channels, rows, columns))
        taps = filled((channels, 1, *kernel), op.name, 1 / (kernel[0] * kernel[1]))
        pads = (0, 0, rows * kernel[0] - height, columns * kernel[1] - width)
        steps.append(_depthwise(graph, op, source, name, taps, pads))
        graph.derived[name] = (source, partial(_block_mean, kernel=kernel))
        gain *= (kernel[0] * rows / height) * (kernel[1] * columns / width)
        source, height, width = name, rows, columns
    taps = filled((channels, 1, height, width), op.name, gain / (height * width))
    steps.append(_depthwise(graph, op, source, op.output, taps))
    replace_op(graph, op, *steps)


def _mean_of_blocks(graph: Graph, op: Op, kernel: tuple[int, int]) -> None:
    """A mean of means: blocks of at most 7x7 in blocks of at most 7x7, if the sides have such factors."""
    first = [next((step for step in range(_LARGEST_STEP, 0, -1) if not size % step), 1) for size in kernel]
    second = [size // step for size, step in zip(kernel, first, strict=True)]
    if max(second) > _LARGEST_STEP:
        return
    source = op.inputs[0]
    channels = graph.values[source].cube[0]
    _, rows, columns = graph.values[op.output].cube
    shape = (1, channels, rows * second[0], columns * second[1])
    blocks = partial(_block_mean, kernel=(first[0], first[1]))
    name = graph.add_derived(f"{op.output}_part", shape, source, blocks)
    steps = []
    for left, right, (high, wide) in ((source, name, first), (name, op.output, second)):
        taps = filled((channels, 1, high, wide), op.name, 1 / (high * wide))
        steps.append(_depthwise(graph, op, left, right, taps))
    replace_op(graph, op, *steps)


def _step(size: int) -> int:
    """The window of the first step: as few windows as possible, as equal as possible."""
    return -(-size // -(-size // _LARGEST_STEP)) if size > _LARGEST_STEP else size


def _depthwise(
    graph: Graph, op: Op, source: str, target: str, taps: Array, pads: tuple[int, int, int, int] = (0, 0, 0, 0),
    strides: tuple[int, int] | None = None,
) -> Op:  # fmt: skip
    """Block by block, if no strides are named."""
    channels, _, rows, columns = taps.shape
    form = Conv((rows, columns), strides or (rows, columns), pads=pads, group=channels)
    weight = graph.add_constant(f"{target}_taps", taps)
    bias = graph.add_constant(f"{target}_bias", np.zeros(channels))
    name = op.name if target == op.output else target
    return Op("Conv", name, [source, weight, bias], [target], {}, op.fused, form, "Mean")


def _block_mean(values: Array, kernel: tuple[int, int]) -> Array:
    """What the first step computes, in float: means of blocks, missing pixels count as 0."""
    _, channels, *sides = values.shape
    height, width = (1, *sides)[-2:]
    rows, columns = -(-height // kernel[0]), -(-width // kernel[1])
    full = np.zeros((channels, rows * kernel[0], columns * kernel[1]), values.dtype)
    full[:, :height, :width] = values.reshape(channels, height, width)
    blocks = full.reshape(channels, rows, kernel[0], columns, kernel[1])
    result: Array = blocks.mean((2, 4))[None]
    return result
