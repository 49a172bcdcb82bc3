"""Slices of the first dimension: that is the batch for everything that follows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from openrknn.compiler.importer.rewrite.writer import Writer, attribute

_MOST_DIMENSIONS = 3


def _first(writer: Writer, node: Any) -> None:
    """One of the second dimension of [1, ...]: states of recurrent layers lie that way; all of it is nothing."""
    shape, out = writer.shape(node.input[0]), writer.shape(node.output[0])
    if shape is None or out is None or writer.constant(node.input[0]) is not None:
        return
    bounds = _bounds(writer, node, len(shape))
    if bounds is None:
        return
    starts, ends, axes, steps = bounds
    if shape == out and all(step == 1 or shape[axis] == 1 for axis, step in zip(axes, steps, strict=True)):
        writer.add("Identity", node.input[0], to=node.output[0])
        return
    if 0 not in axes or shape[0] == 1 or len(shape) > _MOST_DIMENSIONS:
        return
    moved = [axis + 1 for axis in axes]
    lifted = writer.reshape(node.input[0], (1, *shape))
    if writer.facts.opset < 10:
        part = writer.add("Slice", lifted, starts=starts, ends=ends, axes=moved)
    else:
        part = writer.add("Slice", lifted, *(writer.new(values, np.int64) for values in (starts, ends, moved, steps)))
    writer.reshape(part, out, to=node.output[0])


def _bounds(writer: Writer, node: Any, rank: int) -> tuple[list[int], list[int], list[int], list[int]] | None:
    """(starts, ends, axes, steps), from attributes or from constants."""
    starts, ends, axes = (attribute(node, name) for name in ("starts", "ends", "axes"))
    steps = None
    if starts is None:
        arrays = [writer.operand(node, index) for index in range(1, 5)]
        if arrays[0] is None or arrays[1] is None:
            return None
        starts, ends = arrays[0].reshape(-1).tolist(), arrays[1].reshape(-1).tolist()
        axes = None if arrays[2] is None else arrays[2].reshape(-1).tolist()
        steps = None if arrays[3] is None else arrays[3].reshape(-1).tolist()
    axes = [int(axis) % rank for axis in (range(len(starts)) if axes is None else axes)]
    return list(starts), list(ends), axes, list(steps or [1] * len(starts))


RULES: dict[str, Callable[[Writer, Any], None]] = {"Slice": _first}
