"""Normalisations over pixels, said with means and products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from openrknn.compiler.budget import check_array
from openrknn.compiler.importer.rewrite.reductions import reduced_axes, squared
from openrknn.compiler.importer.rewrite.writer import Writer, attribute, rectangle
from openrknn.compiler.ir import Array


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
    check_array((groups * each, groups * each), writer.name)
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
    """(x - mean) / (sqrt(mean((x - mean)^2)) + 1e-9), the means over its axes.

    The 1e-9 only keeps constant inputs from being divided by zero: inside of the root a smaller number does the same.
    """
    axes = list(attribute(node, "axes", [0, 2, 3]))
    difference = writer.add("Sub", node.input[0], writer.mean(node.input[0], axes))
    variance = writer.mean(writer.add("Mul", difference, difference), axes)
    root = writer.add("Sqrt", writer.add("Add", variance, writer.new(_TINY)))
    writer.add("Div", difference, root, to=node.output[0])


_TINY = 1e-12


def cosine(writer: Writer, node: Any) -> None:
    """sum(a b) / (|a| |b|) as sum(a/|a| b/|b|): the sums of products of large or small numbers are beyond fp16."""
    makers = writer.facts.makers
    dot: Any = makers.get(node.input[0])
    if node.op_type != "Div" or dot is None or dot.op_type != "ReduceSum":
        return
    product, shape = makers.get(dot.input[0]), writer.shape(dot.input[0])
    if product is None or product.op_type != "Mul" or shape is None:
        return
    lengths = _lengths(writer, _unguarded(writer, node.input[1]))
    if set(lengths) != set(product.input) or any(writer.shape(name) != shape for name in lengths):
        return
    axes = reduced_axes(writer, dot, len(shape))
    if axes is None:
        return
    kept = [1 if at in axes else size for at, size in enumerate(shape)]
    units = []
    for name, (length, is_square) in lengths.items():
        root = writer.add("Sqrt", length) if is_square else length
        guarded = writer.add("Max", writer.reshape(root, kept), writer.new(_SHORTEST))
        units.append(writer.add("Div", name, guarded))
    given = {entry.name: attribute(dot, entry.name) for entry in dot.attribute}
    writer.add("ReduceSum", writer.add("Mul", *units), *dot.input[1:], to=node.output[0], **given)


_SHORTEST = 1e-6
"""It keeps zeros from being divided by zero."""


def _unguarded(writer: Writer, name: str) -> Any:
    """The operator that makes a value, without bounds and changes of shape."""
    found = writer.facts.makers.get(name)
    while found is not None and found.op_type in {"Max", "Clip", "Expand", "Reshape", "Unsqueeze", "Identity"}:
        found = writer.facts.makers.get(found.input[0])
    return found


def _lengths(writer: Writer, divisor: Any) -> dict[str, tuple[str, bool]]:
    """Of |a| |b|, or of the root of the product of their squares: a -> |a|, or its square and True."""
    is_square = divisor is not None and divisor.op_type == "Sqrt"
    both = _unguarded(writer, divisor.input[0]) if is_square else divisor
    found: dict[str, tuple[str, bool]] = {}
    for name in both.input if both is not None and both.op_type == "Mul" else ():
        length = _unguarded(writer, name)
        if length is not None and length.op_type == "Sqrt" and not is_square:
            length = writer.facts.makers.get(length.input[0])
        if length is None:
            continue
        if length.op_type in ({"ReduceSumSquare"} if is_square else {"ReduceL2", "ReduceSumSquare"}):
            found[length.input[0]] = (name, is_square)
        elif length.op_type == "ReduceSum":
            source = squared(writer, writer.facts.makers.get(length.input[0]))
            if source is not None:
                found[source] = (name, is_square)
    return found


RULES: dict[str, Callable[[Writer, Any], None]] = {
    "GroupNormalization": _group,
    "InstanceNormalization": _instance,
    "MeanVarianceNormalization": _mean_variance,
}
