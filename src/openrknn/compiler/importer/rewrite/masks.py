"""Masks of attention that are constants: sums that fp16 holds, and nothing for the CPU to choose."""

from __future__ import annotations

from typing import Any

import numpy as np

from openrknn.compiler.importer.rewrite.writer import Writer, attribute
from openrknn.compiler.ir import Array

_FORBIDDEN = -3.0e4
"""What a mask adds to a score that must not count: far below any score, and fp16 holds it with the score added."""
_LOWEST_FP16 = -65504.0
_FINITE = {"Conv", "Div", "Gemm", "MatMul", "Mul"}
"""What makes scores; numbers that are finite stay so."""


def added_mask(writer: Writer, node: Any) -> bool:
    """The lowest float or minus infinity, added to what a Softmax reads: a number that fp16 has."""
    at = next((at for at, name in enumerate(node.input) if writer.constant(name) is not None), None)
    if at is None or _softmax_axis(writer, node) is None:
        return False
    array = writer.facts.constants[node.input[at]]
    is_mask = array.dtype.kind == "f" and bool((array < _LOWEST_FP16).any()) and not bool((array > 0).any())
    if not is_mask:
        return False
    operands = list(node.input)
    operands[at] = writer.of([node.input[at]], "mask", np.maximum(array, _FORBIDDEN))
    writer.add("Add", *operands, to=node.output[0])
    return True


def _softmax_axis(writer: Writer, node: Any) -> int | None:
    """The axis of the Softmax that reads the result, from behind (-1: the last), if nothing else does."""
    readers = writer.facts.readers.get(node.output[0], [])
    shape = writer.shape(node.output[0])
    if not readers or shape is None or node.output[0] in writer.facts.outputs:
        return None
    if any(reader.op_type != "Softmax" for reader in readers):
        return None
    axes = {int(attribute(reader, "axis", -1)) % len(shape) for reader in readers}
    return axes.pop() - len(shape) if len(axes) == 1 else None


def chosen_mask(writer: Writer, node: Any) -> None:
    """where(mask, scores, lowest), before a Softmax: scores + (0 or far below), if something is left in every row."""
    mask = writer.constant(node.input[0])
    axis = _softmax_axis(writer, node)
    if mask is None or axis is None or writer.facts.opset < 13:
        return
    sides = [writer.constant(name) for name in node.input[1:3]]
    for at, (scores, low) in enumerate((sides, sides[::-1])):
        if scores is not None or low is None or low.dtype.kind != "f" or not bool((low < _LOWEST_FP16).all()):
            continue
        kept = mask if at == 0 else ~mask
        source = node.input[1 + at]
        if writer.shape(source) == writer.shape(node.output[0]) and _has_rest(kept, axis):
            what = "kept" if at == 0 else "left out"
            added = writer.of([node.input[0]], what, np.where(kept, 0.0, _FORBIDDEN))
            writer.add("Add", source, added, to=node.output[0])


def _has_rest(kept: Array, axis: int) -> bool:
    """Whether every row has something that counts."""
    return bool(kept.any(axis).all()) if kept.ndim >= -axis else bool(kept.all())


def no_nan(writer: Writer, node: Any) -> None:
    """where(isnan(p), 0, p) of a Softmax: exporters fear rows of minus infinity only. Without a mask there are none."""
    makers = writer.facts.makers
    asked = makers.get(node.input[0])
    softmax = makers.get(node.input[2])
    if asked is None or softmax is None or asked.op_type != "IsNaN" or softmax.op_type != "Softmax":
        return
    if asked.input[0] != node.input[2] or writer.constant(node.input[1]) is None:
        return
    scores = makers.get(softmax.input[0])
    shape = writer.shape(softmax.input[0])
    if scores is None or shape is None:
        return
    axis = int(attribute(softmax, "axis", -1)) % len(shape) - len(shape)
    if scores.op_type in _FINITE or (scores.op_type == "Add" and _adds_finite(writer, scores, axis)):
        writer.add("Identity", node.input[2], to=node.output[0])


def _adds_finite(writer: Writer, node: Any, axis: int) -> bool:
    """Scores and a constant that leaves something in every row."""
    arrays = [writer.constant(name) for name in node.input]
    others = [writer.facts.makers.get(name) for name, array in zip(node.input, arrays, strict=True) if array is None]
    known = [array for array in arrays if array is not None]
    if len(known) != 1 or others[0] is None or others[0].op_type not in _FINITE:
        return False
    return _has_rest(known[0] > _FORBIDDEN, axis)
