"""Operators over values of any rank: activations, arithmetic, joining, cutting, products."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .graph import MOST_ELEMENTS, Graph, Value

PLAIN = ("Relu", "Relu", "Sigmoid", "Tanh", "HardSwish", "Softplus", "Exp", "Abs", "Neg", "Sqrt", "Erf", "Log",
         "Sin", "Cos")  # fmt: skip
"""Sqrt and Log see Abs first."""


def activation(graph: Graph, value: Value) -> Value:
    """Every activation that the vendor's converter knows by name or by pattern."""
    makers: list[Callable[[Graph, Value], Value]] = [plain, plain, plain, bounded, sloped, gated, written]
    return graph.one_of(makers)(graph, value)


def plain(graph: Graph, value: Value) -> Value:
    """Operators without parameters."""
    kind = graph.one_of(PLAIN)
    if kind in ("Sqrt", "Log"):
        value = graph.add("Abs", [value], value.shape)
        if kind == "Log":
            value = graph.add("Add", [value, graph.constant(np.float32(0.5))], value.shape)
    return graph.add(kind, [value], value.shape)


def bounded(graph: Graph, value: Value) -> Value:
    """Clip, also as Relu6, and HardSigmoid."""
    if graph.often(0.3):
        return graph.add("HardSigmoid", [value], value.shape, alpha=graph.one_of([1 / 6, 0.2]), beta=0.5)
    low, high = graph.one_of([(0, 6), (0, 6), (-1, 1), (0, 1), (-0.5, 2)])
    return graph.add("Clip", [value, graph.constant(np.float32(low)), graph.constant(np.float32(high))], value.shape)


def sloped(graph: Graph, value: Value) -> Value:
    """LeakyRelu, PRelu, Elu."""
    kind = graph.one_of(["LeakyRelu", "LeakyRelu", "PRelu", "Elu"])
    if kind == "PRelu" and value.is_map:
        slopes = np.abs(graph.chance.normal(0, 0.3, (value.channels, 1, 1))).astype(np.float32)
        return graph.add(kind, [value, graph.constant(slopes)], value.shape)
    if kind == "Elu":
        return graph.add(kind, [value], value.shape, alpha=1.0)
    return graph.add("LeakyRelu", [value], value.shape, alpha=graph.one_of([0.1, 0.01, 0.2, 0.3]))


def gated(graph: Graph, value: Value) -> Value:
    """SiLU and Mish, as exporters write them."""
    if graph.often(0.6):
        gate = graph.add("Sigmoid", [value], value.shape)
    else:
        gate = graph.add("Tanh", [graph.add("Softplus", [value], value.shape)], value.shape)
    return graph.add("Mul", [value, gate], value.shape)


def written(graph: Graph, value: Value) -> Value:
    """GELU with Erf."""
    shape = value.shape
    inside = graph.add("Div", [value, graph.constant(np.float32(2**0.5))], shape)
    lifted = graph.add("Add", [graph.add("Erf", [inside], shape), graph.constant(np.float32(1))], shape)
    half = graph.add("Mul", [value, lifted], shape)
    return graph.add("Mul", [half, graph.constant(np.float32(0.5))], shape)


def arithmetic(graph: Graph, value: Value) -> Value:
    """Two operands: another value of the graph, or a constant, equal in shape or broadcast."""
    kind = graph.one_of(["Add", "Add", "Add", "Sub", "Mul", "Mul", "Div", "Max", "Min"])
    equal = [other for other in graph.values if other.shape == value.shape and other is not value]
    wide = [other for other in graph.values if other is not value and broadcasts(other, value)]
    if equal and graph.often(0.6):
        other: Value | str = graph.one_of(equal)
    elif wide and graph.often(0.6):
        other = graph.one_of(wide)
    else:
        other = constant_operand(graph, value, kind)
    if kind == "Div" and isinstance(other, Value):
        gate = graph.add("Sigmoid", [other], other.shape)
        other = graph.add("Add", [gate, graph.constant(np.float32(0.5))], other.shape)
    operands = [value, other]
    if kind not in ("Div", "Sub") and isinstance(other, Value) and graph.often(0.3):
        operands.reverse()
    return graph.add(kind, operands, value.shape)


def broadcasts(small: Value, large: Value) -> bool:
    """Same rank, each size equal or one, and not the same shape."""
    if len(small.shape) != len(large.shape) or small.shape == large.shape:
        return False
    return all(left in (1, right) for left, right in zip(small.shape, large.shape, strict=True))


def constant_operand(graph: Graph, value: Value, kind: str) -> str:
    """One number, one per channel, or one per element; away from zero for a divisor."""
    shape: tuple[int, ...] = graph.one_of([(), (), value.shape])
    if value.is_map and graph.often(0.5):
        shape = (1, value.channels, 1, 1)
    numbers = graph.chance.normal(0, 1, shape)
    if kind == "Div":
        numbers = np.abs(numbers) + 0.5
    return graph.constant(np.asarray(numbers, np.float32))


def join(graph: Graph, value: Value) -> Value:
    """Concat with values that differ in one axis at most."""
    axis = graph.one_of([1, 1, 1, len(value.shape) - 1])
    fitting = [other for other in graph.values if joins(value, other, axis)]
    parts = [value] + [graph.one_of(fitting) for _ in range(graph.integer(1, 2))]
    if graph.often(0.5):
        parts.reverse()
    total = sum(part.shape[axis] for part in parts)
    sizes = [total if number == axis else size for number, size in enumerate(value.shape)]
    if int(np.prod(sizes)) > MOST_ELEMENTS:
        return activation(graph, value)
    return graph.add("Concat", parts, sizes, axis=axis)


def joins(left: Value, right: Value, axis: int) -> bool:
    """Equal but for the axis."""
    if len(left.shape) != len(right.shape):
        return False
    return all(a == b for number, (a, b) in enumerate(zip(left.shape, right.shape, strict=True)) if number != axis)


def cut(graph: Graph, value: Value) -> Value:
    """Split or Slice, along one axis."""
    axis = graph.one_of([1, 1, len(value.shape) - 1, len(value.shape) - 2]) if len(value.shape) > 2 else 1
    size = value.shape[axis]
    if size < 2:
        return activation(graph, value)
    if graph.often(0.4):
        first = size // 2 if graph.often(0.5) else graph.integer(1, size - 1)
        shapes = [
            [part if number == axis else whole for number, whole in enumerate(value.shape)]
            for part in (first, size - first)
        ]
        parts = graph.several("Split", [value, graph.numbers(first, size - first)], shapes, axis=axis)
        return parts[graph.integer(0, 1)]
    start = graph.integer(0, size - 1)
    end = graph.integer(start + 1, size)
    step = graph.one_of([1, 1, 1, 2]) if end - start > 2 else 1
    kept = -(-(end - start) // step)
    sizes = [kept if number == axis else whole for number, whole in enumerate(value.shape)]
    bounds = [graph.numbers(start), graph.numbers(end), graph.numbers(axis), graph.numbers(step)]
    return graph.add("Slice", [value, *bounds], sizes)


def pad(graph: Graph, value: Value) -> Value:
    """Pad the map by a constant, by its edge or by reflection."""
    if not value.is_map:
        return activation(graph, value)
    mode = graph.one_of(["constant", "constant", "constant", "edge", "reflect"])
    most = [min(3, size - 1) if mode == "reflect" else 3 for size in value.shape[2:]]
    starts, ends = [graph.integer(0, size) for size in most], [graph.integer(0, size) for size in most]
    sizes = [1, value.channels, *(a + b + c for a, b, c in zip(starts, value.shape[2:], ends, strict=True))]
    inputs: list[Value | str] = [value, graph.numbers(0, 0, *starts, 0, 0, *ends)]
    if mode == "constant" and graph.often(0.5):
        inputs.append(graph.constant(np.float32(graph.one_of([0, 0, 0.5, -1]))))
    return graph.add("Pad", inputs, sizes, mode=mode)


def rearrange(graph: Graph, value: Value) -> Value:
    """Transpose, Reshape or Flatten. The batch stays where it is."""
    style = graph.chance.random()
    if style < 0.45 and len(value.shape) > 2:
        order = [0, *(int(axis) for axis in 1 + graph.chance.permutation(len(value.shape) - 1))]
        return graph.add("Transpose", [value], [value.shape[axis] for axis in order], perm=order)
    if style < 0.55 and len(value.shape) > 2:
        return graph.add("Flatten", [value], [1, value.size], axis=1)
    sizes = reshaped(graph, value)
    return graph.add("Reshape", [value, graph.numbers(*sizes)], sizes)


def reshaped(graph: Graph, value: Value) -> list[int]:
    """Another shape for as many elements."""
    total = value.size
    divisors = [number for number in range(1, 97) if total % number == 0]
    first = graph.one_of(divisors)
    rest = total // first
    if rest > 4096 or graph.often(0.6):
        second = graph.one_of([number for number in range(1, 65) if rest % number == 0])
        return [1, first, second, rest // second]
    return [1, first, rest]


def product(graph: Graph, value: Value) -> Value:
    """MatMul with a constant, with another value or with the own transpose; Gemm for rank 2."""
    inner = value.shape[-1]
    outside = graph.integer(1, 96)
    if len(value.shape) == 2:
        if inner > 2048:
            return activation(graph, value)
        weights = graph.normal(outside, inner, scale=inner**-0.5)
        return graph.add("Gemm", [value, weights, graph.normal(outside, scale=0.3)], [1, outside], transB=1)
    partners = [
        other
        for other in graph.values
        if other.shape[:-2] == value.shape[:-2]
        and other.shape[-2] == inner
        and len(other.shape) == len(value.shape)
        and other.shape[-1] <= 128
    ]
    if partners and graph.often(0.7):
        other = graph.one_of(partners)
        made = graph.add("MatMul", [value, other], [*value.shape[:-1], other.shape[-1]])
    elif value.shape[-2] <= 128 and graph.often(0.3):
        order = [*range(len(value.shape) - 2), len(value.shape) - 1, len(value.shape) - 2]
        turned = graph.add("Transpose", [value], [value.shape[axis] for axis in order], perm=order)
        made = graph.add("MatMul", [value, turned], [*value.shape[:-1], value.shape[-2]])
    else:
        weights = graph.normal(inner, outside, scale=inner**-0.5)
        return graph.add("MatMul", [value, weights], [*value.shape[:-1], outside])
    return graph.add("Mul", [made, graph.constant(np.float32(inner**-0.5))], made.shape)


def share(graph: Graph, value: Value) -> Value:
    """Softmax or LayerNormalization over one axis."""
    axis = graph.one_of([1, len(value.shape) - 1])
    if graph.often(0.6) or value.shape[-1] < 2:
        return graph.add("Softmax", [value], value.shape, axis=axis)
    scale, bias = graph.normal(value.shape[-1], scale=0.2, mean=1.0), graph.normal(value.shape[-1], scale=0.2)
    return graph.add("LayerNormalization", [value, scale, bias], value.shape, axis=-1, epsilon=1e-5)
