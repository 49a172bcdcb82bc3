"""Operators that move values: slices, splits, pads, concatenations and resizes, in the forms that `lower` has."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from openrknn.compiler.budget import filled
from openrknn.compiler.forms import Concat, Repeat, Slice
from openrknn.compiler.identity import identity_conv, selection_conv
from openrknn.compiler.ir import Array, Graph, Op
from openrknn.compiler.normalise.common import constant, refuse, replace_op
from openrknn.compiler.normalise.integers import as_cpu

_LARGEST_REPEAT = 8
_LARGEST_PAD = 15
_MOST_CHANNELS = 8192


def normalise_moves(graph: Graph, atom: int) -> None:
    """`atom` is the number of channels that lie together: 16 (int8) or 8 (fp16)."""
    for op in list(graph.ops):
        if op.type == "Split":
            _split(graph, op, atom)
        elif op.type == "Slice" and op.form is None:
            _slice(graph, op, atom)
        elif op.type == "Pad":
            _pad(graph, op)
        elif op.type == "Concat" and op.form is None:
            _concat(graph, op, atom)
        elif op.type in {"Resize", "Upsample"}:
            _resize(graph, op)
        elif op.type == "DepthToSpace":
            _depth_to_space(graph, op)
        elif op.type == "SpaceToDepth":
            _space_to_depth(graph, op)


# -- slices ------------------------------------------------------------------------------------------------------


def _split(graph: Graph, op: Op, atom: int) -> None:
    shape = graph.shape(op.inputs[0])
    if int(op.attributes.get("axis", 0)) % len(shape) != 1 or len(shape) not in (2, 3, 4) or shape[0] != 1:
        return
    start = 0
    parts = []
    for name in op.outputs:
        parts.append(_channels(graph, op, op.inputs[0], name, start, graph.shape(name)[1], atom))
        start += graph.shape(name)[1]
    replace_op(graph, op, *parts)


def _channels(graph: Graph, op: Op, source: str, target: str, start: int, count: int, atom: int) -> Op:
    if start % atom == 0:
        return Op("Slice", f"{op.name}:{target}", [source], [target], {}, (op.name,), Slice(start))
    return selection_conv(graph, source, target, f"{op.name}:{target}", np.arange(start, start + count), "Slice")


def _slice(graph: Graph, op: Op, atom: int) -> None:
    windows = windows_of(graph, op)
    shape = graph.shape(op.inputs[0])
    if windows is None or len(shape) not in (2, 3, 4) or shape[0] != 1:
        return
    source, steps = op.inputs[0], []
    spatial = [*[(0, 1, 1)] * (4 - len(shape)), *windows[2:]]
    wants_pixels = any(window != (0, size, 1) for window, size in zip(windows[2:], shape[2:], strict=True))
    start, stop, step = windows[1]
    wants_channels = (start, stop, step) != (0, shape[1], 1)
    if any(step < 1 for _, _, step in spatial):
        return
    if wants_channels and shape[1] > _MOST_CHANNELS:  # a long signal in one row: no surface of the NPU
        as_cpu(op)
        return
    if wants_channels:
        picks = np.arange(start, stop, step)
        target = op.output
        if wants_pixels:
            target = graph.add_derived(f"{op.output}_channels", (1, len(picks), *shape[2:]), source)
        if step == 1:
            steps.append(_channels(graph, op, source, target, start, len(picks), atom))
        else:
            steps.append(selection_conv(graph, source, target, op.name, picks, "Slice"))
        source = target
    if wants_pixels:
        pads = (-spatial[0][0], -spatial[1][0], 0, 0)
        strides = (spatial[0][2], spatial[1][2])
        steps.append(identity_conv(graph, source, op.output, op.name, pads=pads, strides=strides, why="Slice"))
    if steps:
        replace_op(graph, op, *steps)


def windows_of(graph: Graph, op: Op) -> list[tuple[int, int, int]] | None:
    """(start, stop, step) of every dimension, resolved; None where they are not constant."""
    shape = graph.shape(op.inputs[0])
    if "starts" in op.attributes:
        starts, ends = op.attributes["starts"], op.attributes["ends"]
        axes: Sequence[int] = op.attributes.get("axes") or range(len(starts))
        steps: Sequence[int] = [1] * len(starts)
    else:
        arrays = [constant(graph, op, index) for index in range(1, 5)]
        if arrays[0] is None or arrays[1] is None:
            return None
        starts, ends = arrays[0].reshape(-1).tolist(), arrays[1].reshape(-1).tolist()
        axes = range(len(starts)) if arrays[2] is None else arrays[2].reshape(-1).tolist()
        steps = [1] * len(starts) if arrays[3] is None else arrays[3].reshape(-1).tolist()
    windows = [(0, size, 1) for size in shape]
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        at = int(axis) % len(shape)
        first, stop, stride = slice(int(start), int(end), int(step)).indices(shape[at])
        windows[at] = (first, stop, stride)
    return windows


# -- pads --------------------------------------------------------------------------------------------------------


def _pad(graph: Graph, op: Op) -> None:
    shape = graph.shape(op.inputs[0])
    given = op.attributes.get("pads")
    array = constant(graph, op, 1)
    if given is None and array is not None:
        given = array.reshape(-1).tolist()
    is_plain = op.attributes.get("mode", "constant") == "constant" and len(op.inputs) <= 3
    if given is None or not is_plain or len(shape) not in (3, 4):
        return
    before, after = [int(v) for v in given[: len(shape)]], [int(v) for v in given[len(shape) :]]
    fill = constant(graph, op, 2)
    value = float(fill.reshape(-1)[0]) if fill is not None and fill.size else float(op.attributes.get("value", 0.0))
    if any((*before[:2], *after[:2])):
        return
    if max(before) > _LARGEST_PAD:
        _border(graph, op, before, after, value)
        return
    if len(shape) == 3:
        before, after = [*before[:2], 0, before[2]], [*after[:2], 0, after[2]]
    pads = (before[2], before[3], after[2], after[3])
    replace_op(graph, op, identity_conv(graph, op.inputs[0], op.output, op.name, pads=pads, pad_value=value, why="Pad"))


def _border(graph: Graph, op: Op, before: list[int], after: list[int], value: float) -> None:
    """Borders of a line that are wider than a register counts lie beside it: who makes it, writes between them."""
    channels, height, width = graph.values[op.inputs[0]].cube
    if height != 1 or any((*before[2:-1], *after[2:-1])) or min(before[-1], after[-1]) < 0:
        return
    parts: list[str] = []
    starts: list[int] = []
    at = 0
    for size, name in ((before[-1], ""), (width, op.inputs[0]), (after[-1], "")):
        if size:
            border = np.full((1, channels, 1, size), value)
            parts.append(name or graph.add_constant(f"{op.output}_border", border))
            starts.append(at)
        at += size
    form = Concat(tuple(starts), along_pixels=True)
    replace_op(graph, op, Op("Concat", op.name, parts, [op.output], {}, op.fused, form))


# -- concatenations ----------------------------------------------------------------------------------------------


def _concat(graph: Graph, op: Op, atom: int) -> None:
    shape = graph.shape(op.output)
    axis = int(op.attributes.get("axis", 1)) % len(shape)
    if axis != 1 or len(shape) not in (2, 3, 4) or shape[0] != 1:
        _rows(graph, op, axis)
        return
    counts = [graph.shape(name)[1] for name in op.inputs]
    op.form, op.attributes = Concat(tuple(int(start) for start in np.cumsum([0, *counts[:-1]]))), {}
    if all(count % atom == 0 for count in counts[:-1]):
        return
    # Parts that are not whole atoms get room of their own; one selection picks the channels together.
    rooms = [-(-count // atom) * atom for count in counts]
    starts = [int(start) for start in np.cumsum([0, *rooms[:-1]])]
    padded = graph.add_derived(f"{op.output}_padded", (1, sum(rooms[:-1]) + counts[-1], *shape[2:]), op.output)
    picks = np.concatenate([np.arange(start, start + count) for start, count in zip(starts, counts, strict=True)])
    form = Concat(tuple(starts), atom=atom)
    joined = Op("Concat", f"{op.name}_padded", list(op.inputs), [padded], {}, (op.name,), form)
    replace_op(graph, op, joined, selection_conv(graph, padded, op.output, op.name, picks, "Concat"))


def _rows(graph: Graph, op: Op, axis: int) -> None:
    """Any other dimension is the rows of [1, before, size, behind], unless these are too many channels for a task."""
    if prod(graph.shape(op.output)[:axis]) > _MOST_CHANNELS:
        return
    parts, starts, steps = [], [], []
    at = 0
    for name in op.inputs:
        shape = graph.shape(name)
        cube = (1, prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :]))
        if name in graph.constants:
            parts.append(graph.add_constant(f"{name}_rows", graph.constants[name].reshape(cube)))
        else:
            parts.append(graph.add_derived(f"{name}_rows", cube, name))
            steps.append(Op("Reshape", parts[-1], [name], [parts[-1]], {}, (op.name,)))
        starts.append(at * cube[3])
        at += cube[2]
    shape = graph.shape(op.output)
    made = graph.add_derived(f"{op.output}_rows", (1, prod(shape[:axis]), at, prod(shape[axis + 1 :])), op.output)
    form = Concat(tuple(starts), along_pixels=True)
    steps.append(Op("Concat", op.name, parts, [made], {}, op.fused or (op.name,), form))
    replace_op(graph, op, *steps, Op("Reshape", f"{op.name}_end", [made], [op.output], {}, (op.name,)))


# -- resizes -----------------------------------------------------------------------------------------------------


def _resize(graph: Graph, op: Op) -> None:
    shape, target = graph.shape(op.inputs[0]), graph.shape(op.output)
    if len(shape) != 4 or shape[:2] != target[:2] or shape[0] != 1 or op.attributes.get("mode", "nearest") != "nearest":
        return
    factors = target[2] // shape[2], target[3] // shape[3]
    if (shape[2] * factors[0], shape[3] * factors[1]) != target[2:] or max(factors) > _LARGEST_REPEAT:
        return
    if op.type == "Resize" and not all(
        np.array_equal(_nearest(op, size, factor), np.arange(size * factor) // factor)
        for size, factor in zip(shape[2:], factors, strict=True)
    ):
        return
    op.become("Repeat", Repeat(factors), op.inputs[:1])


def _nearest(op: Op, size: int, factor: int) -> Array:
    """Which input pixel each output pixel takes."""
    at = np.arange(size * factor, dtype=np.float64)
    mode = op.attributes.get("coordinate_transformation_mode", "half_pixel")
    if mode == "asymmetric":
        at = at / factor
    elif mode == "align_corners":
        at = at * (size - 1) / max(size * factor - 1, 1)
    else:
        at = (at + 0.5) / factor - 0.5
    rounding: dict[str, Any] = {
        "floor": np.floor, "ceil": np.ceil,
        "round_prefer_floor": lambda v: np.ceil(v - 0.5), "round_prefer_ceil": lambda v: np.floor(v + 0.5),
    }  # fmt: skip
    chosen: Array = rounding[op.attributes.get("nearest_mode", "round_prefer_floor")](at)
    return np.clip(chosen, 0, size - 1).astype(np.int64)


# -- depth and space ---------------------------------------------------------------------------------------------


def _depth_to_space(graph: Graph, op: Op) -> None:
    """A transposed convolution with 0/1 weights: each input channel lands on one pixel of its block."""
    block = int(op.attributes["blocksize"])
    channels = graph.shape(op.inputs[0])[1]
    outputs, rest = divmod(channels, block**2)
    if rest:
        refuse(op, f"{channels} channels are not whole blocks of {block}x{block} pixels")
    weight = filled((channels, outputs, block, block), op.name)
    for channel in range(channels):
        if op.attributes.get("mode", "DCR") == "DCR":
            place, output = divmod(channel, outputs)
        else:
            output, place = divmod(channel, block**2)
        weight[channel, output, place // block, place % block] = 1
    op.type, op.attributes = "ConvTranspose", {"strides": [block, block], "kernel_shape": [block, block]}
    op.inputs = [op.inputs[0], graph.add_constant(f"{op.output}_weight", weight)]


def _space_to_depth(graph: Graph, op: Op) -> None:
    """A strided convolution with 0/1 weights."""
    block = int(op.attributes["blocksize"])
    channels = graph.shape(op.inputs[0])[1]
    weight = filled((channels * block**2, channels, block, block), op.name)
    for place in range(block**2):
        each = np.arange(channels)
        rows = place * channels + each if op.attributes.get("mode", "DCR") == "DCR" else each * block**2 + place
        weight[rows, np.arange(channels), place // block, place % block] = 1
    op.type, op.attributes = "Conv", {"strides": [block, block], "kernel_shape": [block, block]}
    op.inputs = [op.inputs[0], graph.add_constant(f"{op.output}_weight", weight)]
