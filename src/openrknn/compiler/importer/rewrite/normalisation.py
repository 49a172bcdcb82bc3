"""Normalisations over pixels, said with means and products."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from openrknn.compiler.importer.rewrite.writer import Writer, attribute, rectangle

__all__ = ["RULES"]


def _instance(writer: Writer, node: Any) -> None:
    """(x - mean) / sqrt(mean((x - mean)^2) + eps) * gamma + beta, the means over all pixels of a channel."""
    shape = writer.shape(node.input[0])
    gamma, beta = writer.operand(node, 1), writer.operand(node, 2)
    if shape is None or gamma is None or beta is None or len(shape) not in (3, 4) or shape[0] != 1:
        return
    full = (1, shape[1], *rectangle(shape[2])) if len(shape) == 3 else shape
    source = writer.reshape(node.input[0], full) if len(shape) == 3 else node.input[0]
    unit = _unit(writer, source, float(attribute(node, "epsilon", 1e-5)))
    scaled = writer.add("Mul", unit, writer.new(gamma.reshape(1, -1, 1, 1)))
    end = writer.add("Add", scaled, writer.new(beta.reshape(1, -1, 1, 1)), to="" if len(shape) == 3 else node.output[0])
    if len(shape) == 3:
        writer.reshape(end, shape, to=node.output[0])


def _group(writer: Writer, node: Any) -> None:
    """InstanceNormalization with one mean for several channels."""
    shape = writer.shape(node.input[0])
    gamma, beta = writer.operand(node, 1), writer.operand(node, 2)
    groups = int(attribute(node, "num_groups", 1))
    if shape is None or gamma is None or beta is None or len(shape) != 4 or gamma.size != shape[1]:
        return
    grouped = writer.reshape(node.input[0], (1, groups, *rectangle(prod(shape) // groups)))
    unit = writer.reshape(_unit(writer, grouped, float(attribute(node, "epsilon", 1e-5))), shape)
    scaled = writer.add("Mul", unit, writer.new(gamma.reshape(1, -1, 1, 1)))
    writer.add("Add", scaled, writer.new(beta.reshape(1, -1, 1, 1)), to=node.output[0])


def _mean_variance(writer: Writer, node: Any) -> None:
    """(x - mean) / (sqrt(mean((x - mean)^2)) + 1e-9), the means over its axes."""
    axes = list(attribute(node, "axes", [0, 2, 3]))
    difference = writer.add("Sub", node.input[0], writer.mean(node.input[0], axes))
    spread = writer.add("Sqrt", writer.mean(writer.add("Mul", difference, difference), axes))
    writer.add("Div", difference, writer.add("Add", spread, writer.new(_TINY)), to=node.output[0])


_TINY = 1e-6
"""ONNX says 1e-9, which fp16 does not have: it only keeps constant inputs from being divided by zero."""


def _unit(writer: Writer, source: str, epsilon: float) -> str:
    difference = writer.add("Sub", source, writer.add("GlobalAveragePool", source))
    variance = writer.add("GlobalAveragePool", writer.add("Mul", difference, difference))
    root = writer.add("Sqrt", writer.add("Add", variance, writer.new(epsilon)))
    return writer.add("Div", difference, root)


RULES: dict[str, Callable[[Writer, Any], None]] = {
    "GroupNormalization": _group,
    "InstanceNormalization": _instance,
    "MeanVarianceNormalization": _mean_variance,
}
