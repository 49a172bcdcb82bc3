"""STRIDED_SLICE, with its five masks."""

from __future__ import annotations

import numpy as np

from openrknn.compiler.importer.formats.tflite.context import Context, Rule, channel_axis
from openrknn.compiler.importer.formats.tflite.schema import Operator


def _strided(context: Context, op: Operator) -> None:
    """Python's x[a:b:c, ..., None, i]: bounds for each dimension, then dimensions that come and go."""
    index = context.operand(op, 0)
    shape = context.shape(index)
    begin, end, steps = (context.numbers(op, number) for number in (1, 2, 3))
    masks = [op.options.number(slot) for slot in range(5)]
    if not len(begin) == len(end) == len(steps) or 0 in steps:
        raise context.unsupported(op, f"its bounds are {begin}, {end} and {steps}")

    def has(mask: int, place: int) -> bool:
        return bool(masks[mask] >> place & 1)

    real = [place for place in range(len(begin)) if not has(2, place) and not has(3, place)]
    left = len(shape) - len(real)
    if left < 0:
        raise context.unsupported(op, f"it has {len(real)} bounds for {len(shape)} dimensions")
    bounds: list[tuple[int, int, int, int]] = []
    shape_after: list[int] = []
    axis = 0
    for place in range(len(begin)):
        if has(2, place):
            shape_after += shape[axis : axis + left]
            axis, left = axis + left, 0
        elif has(3, place):
            shape_after.append(1)
        else:
            size, step = shape[axis], steps[place]
            if has(4, place):
                start = begin[place] + size if begin[place] < 0 else begin[place]
                if not 0 <= start < size:
                    raise context.unsupported(op, f"it takes number {begin[place]} of {size}")
                bounds.append((axis, start, start + 1, 1))
            else:
                last = begin[place] + end[place] if op.options.small(5) else end[place]
                picked = slice(None if has(0, place) else begin[place], None if has(1, place) else last, step)
                start, stop, _ = picked.indices(size)
                bounds.append((axis, start, stop if step > 0 or stop >= 0 else -size - 1, step))
                shape_after.append(len(range(start, stop, step)))
            axis += 1
    shape_after += shape[axis:]
    nchw = len(shape) == 4 and context.is_nchw(index) and not masks[3] and not masks[4]
    value = context.value(index, nchw=nchw)
    used = [entry for entry in bounds if entry[1:] != (0, shape[entry[0]], 1)]
    if used:
        columns = list(zip(*used, strict=True))
        axes = [channel_axis(entry) if nchw else entry for entry in columns[0]]
        bands = (columns[1], columns[2], axes, columns[3])
        operands = [context.new(np.array(entry, np.int64), "bounds") for entry in bands]
        value = context.node("Slice", [value, *operands])
    if masks[3] or masks[4]:
        value = context.reshape(value, shape_after)
    elif not used:
        value = context.node("Identity", [value])
    context.put(op, value, nchw=nchw)


RULES: dict[str, Rule] = {"STRIDED_SLICE": _strided}
