"""x / sqrt(v) in fp16, without a table and without the CPU: a guess from the bits of v, and Newton's method.

    r = 1 / sqrt(v)     r (1.5 - 0.5 v r^2), twice
    y = x * r

Norms over time or over a map (InstanceNormalization, GroupNormalization, masked sums) divide so. Where v is a mean of
squares, the squares of small numbers would drown in fp16: they are stored times 4^k, as far as what is squared allows,
and the root is multiplied by 2^k.
"""

from __future__ import annotations

import numpy as np

from openrknn.compiler.ir import Graph, Op
from openrknn.compiler.normalise.common import replace_op, sole_reader

__all__ = ["find_roots"]

_NEWTON_STEPS = 2
_BOUNDED = {"Tanh", "Sigmoid", "HardSigmoid", "Softsign", "Erf", "Sin", "Cos"}
_MEANS = {"GlobalAveragePool", "ReduceMean", "Conv", "Reshape"}
"""What a mean is made of: each of them may be scaled."""
_GAIN = 4.0**5
"""Of squares of differences of numbers between -1 and 1: at most 4 * 1024."""


def find_roots(graph: Graph) -> None:
    """Quotients whose divisor is a square root that nobody else reads."""
    makers = graph.producers()
    for op in list(graph.ops):
        if op.type != "Div" or op.inputs[0] in graph.constants:
            continue
        root = makers.get(op.inputs[1])
        if root is None or root.type != "Sqrt" or sole_reader(graph, root.output) is not op:
            continue
        if len(graph.shape(op.output)) <= 4 and root.inputs[0] not in graph.inputs:
            _one(graph, op, root)
    graph.prune()


def _one(graph: Graph, op: Op, root: Op) -> None:
    scale = _scale_squares(graph, root.inputs[0])
    variance, shape = root.inputs[0], graph.shape(root.inputs[0])
    steps: list[Op] = []

    def value(name: str) -> str:
        made = graph.add_value(f"{op.output}_{name}", shape)
        graph.derived[made] = (variance, lambda values: 1 / np.sqrt(np.maximum(values, 1e-6)))
        return made

    def product(name: str, left: str, right: str, *, gain: float = 1.0, offset: float = 0.0) -> str:
        made = value(name)
        attributes = {"method": "mul", "broadcast": "pixel", "gain": gain, "offset": offset}
        steps.append(Op("Binary", made, [left, right], [made], attributes, (op.name,)))
        return made

    now = value("guess")
    steps.append(Op("RootEstimate", now, [variance], [now], {}, (op.name,)))
    for number in range(_NEWTON_STEPS):
        half = product(f"half_{number}", variance, now, gain=-0.5)
        now = product(f"root_{number}", product(f"error_{number}", half, now), now, offset=1.5)
    if scale != 1:
        scaled = value("scaled")
        factor = graph.add_constant(f"{op.output}_scale", np.array(scale, np.float32))
        steps.append(Op("Mul", scaled, [now, factor], [scaled], {}, (op.name,)))
        now = scaled
    replace_op(graph, op, *steps, Op("Mul", op.name, [op.inputs[0], now], [op.output], {}, (*op.fused, root.name)))


def _scale_squares(graph: Graph, name: str) -> float:
    """Store squares of bounded numbers larger, if the root is of their mean; the root of how much larger."""
    makers = graph.producers()
    added = makers.get(name)
    if added is None or added.type != "Add" or len(graph.activations(added)) != 1:
        return 1.0
    small = next(entry for entry in added.inputs if entry in graph.constants)
    mean = makers.get(graph.activations(added)[0])
    while mean is not None and mean.type in _MEANS and _is_alone(graph, mean):
        if mean.type == "Conv" and len(mean.inputs) > 2 and mean.inputs[2]:
            return 1.0
        mean = makers.get(mean.inputs[0])
    square = mean
    if square is None or square.type != "Mul" or square.inputs[0] != square.inputs[1] or not _is_alone(graph, square):
        return 1.0
    if not _is_bounded(graph, square.inputs[0]):
        return 1.0
    shape = graph.shape(square.output)
    if len(shape) not in (3, 4) or shape[0] != 1:
        return 1.0
    square.type = "Binary"
    square.attributes = {"method": "mul", "broadcast": "pixel", "gain": _GAIN, "offset": 0.0}
    larger = graph.add_constant(f"{small}_larger", graph.constants[small] * np.float32(_GAIN))
    added.inputs = [larger if entry == small else entry for entry in added.inputs]
    return float(np.sqrt(_GAIN))


def _is_alone(graph: Graph, op: Op) -> bool:
    return sole_reader(graph, op.output) is not None and len(op.outputs) == 1


def _is_bounded(graph: Graph, name: str) -> bool:
    """Whether a value is the difference of numbers between -1 and 1 from their mean."""
    makers = graph.producers()
    now = makers.get(name)
    while now is not None and now.type in {"Sub", "Reshape"}:
        now = makers.get(now.inputs[0])
    return now is not None and now.type in _BOUNDED
