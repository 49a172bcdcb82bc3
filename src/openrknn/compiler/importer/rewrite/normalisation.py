"""Normalisations over pixels, said with means and products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from openrknn.compiler.importer.rewrite.writer import Writer, attribute, rectangle
from openrknn.compiler.ir import Array

__all__ = ["RULES"]


def _instance(writer: Writer, node: Any) -> None:
    """(x - mean) / sqrt(mean((x - mean)^2) + eps) * gamma + beta, the means over all pixels of a channel.

    PyTorch writes the norm of groups of channels so, too: with a Reshape before that makes one channel of each group.
    """
    shape = writer.shape(node.input[0])
    gamma, beta = writer.operand(node, 1), writer.operand(node, 2)
    if shape is None or gamma is None or beta is None or len(shape) not in (3, 4) or shape[0] != 1:
        return
    epsilon = float(attribute(node, "epsilon", 1e-5))
    before: Any = writer.facts.makers.get(node.input[0])
    inner = writer.shape(before.input[0]) if before is not None and before.op_type == "Reshape" else None
    if inner is not None and len(inner) in (3, 4) and inner[0] == 1 and inner[1] > shape[1] and not inner[1] % shape[1]:
        each = inner[1] // shape[1]
        made = _grouped(writer, before.input[0], inner, shape[1], (gamma.repeat(each), beta.repeat(each)), epsilon)
    else:
        made = _grouped(writer, node.input[0], shape, shape[1], (gamma, beta), epsilon)
    writer.reshape(made, shape, to=node.output[0])


def _group(writer: Writer, node: Any) -> None:
    """InstanceNormalization with one mean for several channels."""
    shape = writer.shape(node.input[0])
    gamma, beta = writer.operand(node, 1), writer.operand(node, 2)
    groups = int(attribute(node, "num_groups", 1))
    if shape is None or gamma is None or beta is None or len(shape) not in (3, 4) or shape[0] != 1:
        return
    if gamma.size == shape[1]:
        epsilon = float(attribute(node, "epsilon", 1e-5))
        writer.reshape(_grouped(writer, node.input[0], shape, groups, (gamma, beta), epsilon), shape, to=node.output[0])


def _grouped(
    writer: Writer, source: str, shape: tuple[int, ...], groups: int, scale: tuple[Array, Array], epsilon: float
) -> str:
    """Channels stay channels: their means over pixels first, then the mean of each group, in all of its channels."""
    channels = shape[1]
    full = (1, channels, *rectangle(shape[2])) if len(shape) == 3 else shape
    source = writer.reshape(source, full) if len(shape) == 3 else source
    each = channels // groups
    square = np.kron(np.eye(groups), np.full((each, each), 1 / each))[:, :, None, None]
    weight = writer.new(square) if each > 1 else ""

    def mean(name: str) -> str:
        pooled = writer.add("GlobalAveragePool", name)
        return writer.add("Conv", pooled, weight, kernel_shape=[1, 1]) if weight else pooled

    difference = writer.add("Sub", source, mean(source))
    variance = mean(writer.add("Mul", difference, difference))
    root = writer.add("Sqrt", writer.add("Add", variance, writer.new(epsilon)))
    gamma, beta = (array.reshape(1, -1, 1, 1) for array in scale)
    scaled = writer.add("Mul", writer.add("Div", difference, root), writer.new(gamma))
    return writer.add("Add", scaled, writer.new(beta))


def _mean_variance(writer: Writer, node: Any) -> None:
    """(x - mean) / (sqrt(mean((x - mean)^2)) + 1e-9), the means over its axes."""
    axes = list(attribute(node, "axes", [0, 2, 3]))
    difference = writer.add("Sub", node.input[0], writer.mean(node.input[0], axes))
    spread = writer.add("Sqrt", writer.mean(writer.add("Mul", difference, difference), axes))
    writer.add("Div", difference, writer.add("Add", spread, writer.new(_TINY)), to=node.output[0])


_TINY = 1e-6
"""ONNX says 1e-9, which fp16 does not have: it only keeps constant inputs from being divided by zero."""


RULES: dict[str, Callable[[Writer, Any], None]] = {
    "GroupNormalization": _group,
    "InstanceNormalization": _instance,
    "MeanVarianceNormalization": _mean_variance,
}
