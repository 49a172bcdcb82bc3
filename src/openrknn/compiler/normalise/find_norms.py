"""Layer and RMS normalisations that exporters write out become one operator each.

    d / sqrt(mean(d * d) + eps) * gamma + beta      d = x - mean(x), or x itself in an RMS norm

Exporters before opset 17 write it so. Others multiply by a reciprocal root, and TensorFlow Lite by the power of -0.5,
which is a reciprocal root here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from openrknn.compiler.ir import Array, Graph, Op
from openrknn.compiler.normalise.common import axes_of, replace_op


class _Norm(NamedTuple):
    source: str
    eps: float
    centred: bool


def find_layer_norms(graph: Graph) -> None:
    """Before anything else moves their parts."""
    for kind in ("Add", "Mul", "Div"):  # with scale and bias first, then with a scale, then those that have none
        for op in list(graph.ops):
            if op.type == kind:
                _recognise(graph, op, graph.producers())
    graph.prune()


def _recognise(graph: Graph, op: Op, makers: dict[str, Op]) -> None:
    channels = graph.shape(op.output)[-1] if graph.shape(op.output) else 0
    gamma, beta, inner = np.ones(channels), np.zeros(channels), op
    if op.type == "Add":
        shift, product = _row(graph, op, channels), makers.get(_activation(graph, op))
        if shift is None or product is None or product.type != "Mul":
            return
        beta, inner = shift, product
    scale = _row(graph, inner, channels)
    before = makers.get(_activation(graph, inner))
    if inner.type == "Mul" and scale is not None and before is not None:
        gamma, inner = scale, before
    elif op.type == "Add":
        return
    found = _normalised(graph, inner, makers)
    if found is None or graph.shape(found.source) != graph.shape(op.output):
        return
    inputs = [found.source, graph.add_constant(f"{op.output}_gamma", gamma)]
    inputs.append(graph.add_constant(f"{op.output}_beta", beta))
    attributes = {"axis": -1, "epsilon": found.eps, "centred": found.centred}
    replace_op(graph, op, Op("LayerNormalization", op.name, inputs, [op.output], attributes, (op.name,)))


def _activation(graph: Graph, op: Op) -> str:
    """The only operand that is no constant."""
    names = graph.activations(op)
    return names[0] if len(names) == 1 else ""


def _row(graph: Graph, op: Op, channels: int) -> Array | None:
    """The constant operand, where it has one number for all, or one for each of the last dimension."""
    arrays = [graph.constants[name] for name in op.inputs if name in graph.constants]
    if len(op.inputs) != 2 or len(arrays) != 1 or arrays[0].size not in {1, channels}:
        return None
    is_row = arrays[0].size == 1 or arrays[0].shape[-1:] == (channels,)
    return np.broadcast_to(arrays[0].reshape(-1), (channels,)).astype(np.float64) if is_row else None


def _normalised(graph: Graph, op: Op, makers: dict[str, Op]) -> _Norm | None:
    """What an operator normalises, if it is a quotient by a root or a product with a reciprocal root."""
    pairs: list[tuple[str, str]] = []
    if op.type == "Div" and len(op.inputs) == 2:
        pairs = [(op.inputs[0], op.inputs[1])]
    elif op.type == "Mul" and len(op.inputs) == 2:
        for one, other in (op.inputs, op.inputs[::-1]):
            inverse = makers.get(other)
            if inverse is not None and inverse.type == "Reciprocal":
                pairs.append((one, inverse.inputs[0]))
            elif inverse is not None and inverse.type == "Div" and _number(graph, inverse.inputs[0]) == 1:
                pairs.append((one, inverse.inputs[1]))
    for numerator, divisor in pairs:
        root = makers.get(divisor)
        eps = _squared_mean(graph, root.inputs[0], numerator, makers) if root and root.type == "Sqrt" else None
        if eps is not None:
            return _of(graph, numerator, eps, makers)
    return None


def _of(graph: Graph, numerator: str, eps: float, makers: dict[str, Op]) -> _Norm:
    difference = makers.get(numerator)
    if difference is not None and difference.type == "Sub":
        mean = makers.get(difference.inputs[1])
        if mean is not None and mean.inputs[0] == difference.inputs[0] and _is_mean_of_last(graph, mean):
            return _Norm(difference.inputs[0], eps, centred=True)
    return _Norm(numerator, eps, centred=False)


def _squared_mean(graph: Graph, name: str, numerator: str, makers: dict[str, Op]) -> float | None:
    """The epsilon, if a value is mean(numerator^2) + epsilon over the last dimension."""
    eps, mean = 0.0, makers.get(name)
    if mean is not None and mean.type == "Add":
        numbers = [_number(graph, entry) for entry in mean.inputs if entry in graph.constants]
        eps = numbers[0] if len(numbers) == 1 else float("nan")
        mean = makers.get(_activation(graph, mean))
    square = makers.get(mean.inputs[0]) if mean is not None and _is_mean_of_last(graph, mean) else None
    if square is None or square.inputs[0] != numerator or not eps >= 0:
        return None
    is_power = square.type == "Pow" and _number(graph, square.inputs[1]) == 2
    return eps if is_power or (square.type == "Mul" and square.inputs[1] == numerator) else None


def _is_mean_of_last(graph: Graph, op: Op) -> bool:
    rank = len(graph.shape(op.inputs[0]))
    if op.type != "ReduceMean" or axes_of(graph, op, rank) != (rank - 1,):
        return False
    return graph.shape(op.output) == (*graph.shape(op.inputs[0])[:-1], 1)


def _number(graph: Graph, name: str) -> float:
    """A constant of one number; NaN for everything else."""
    array = graph.constants.get(name)
    return float(array.reshape(-1)[0]) if array is not None and array.size == 1 else float("nan")
