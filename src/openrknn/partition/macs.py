"""Products of an operator of ONNX, from its shapes."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from openrknn.compiler.operators import RECURRENT

__all__ = ["macs_of"]


def macs_of(onnx: Any, node: Any, shapes: Mapping[str, tuple[int, ...]]) -> int:
    """0 for what has none, and for what has unknown shapes."""
    if node.domain not in {"", "ai.onnx"}:
        return 0
    read = [shapes.get(name) for name in node.input]
    made = shapes.get(node.output[0]) if node.output else None
    kind = node.op_type
    if kind in {"Conv", "ConvInteger", "QLinearConv"}:
        weight = read[3 if kind == "QLinearConv" else 1] if len(read) > 1 else None
        return prod(made) * prod(weight[1:]) if made and weight else 0
    if kind == "ConvTranspose" and len(read) > 1:
        return prod(read[0]) * prod(read[1][1:]) if read[0] and read[1] else 0
    if kind in {"MatMul", "MatMulInteger", "QLinearMatMul"}:
        return prod(made or (1,)) * read[0][-1] if made is not None and read[0] else 0
    if kind == "Gemm" and read[0] and made:
        turned = any(entry.name == "transA" and entry.i for entry in node.attribute)
        return prod(made) * read[0][0 if turned else -1]
    if kind in RECURRENT and len(read) > 2 and read[0] and read[1] and read[2]:
        return prod(read[0][:2]) * (prod(read[1]) + prod(read[2]))
    if kind == "Einsum":
        return _einsum(onnx, node, read)
    return 0


def _einsum(onnx: Any, node: Any, read: list[tuple[int, ...] | None]) -> int:
    equation = next((onnx.helper.get_attribute_value(entry).decode() for entry in node.attribute), "")
    terms = equation.replace(" ", "").partition("->")[0].split(",")
    if "." in equation or len(terms) != len(read) or len(terms) < 2:
        return 0
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, read, strict=True):
        if shape is None or len(term) != len(shape):
            return 0
        sizes.update(zip(term, shape, strict=True))
    return prod(sizes.values())
