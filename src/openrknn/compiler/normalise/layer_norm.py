"""Layer normalisation over the last dimension, with channels where the NPU wants them.

    d = x - mean(x)            one 1x1 convolution with the weights I - 1/C
    v = mean(d * d) + eps      a product, and a 1x1 convolution with the weights 1/C, which also spreads it
    y = d / sqrt(v) * gamma + beta

int8 takes 1 / sqrt(v) from a table; fp16 has no calibration to say how far a table must reach, so the CPU takes the
root and the DPU divides.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from openrknn.compiler.ir import Array, Graph, Op
from openrknn.compiler.normalise.common import axes_of, replace_op

__all__ = ["find_layer_norms", "normalise_layer_norms"]


def normalise_layer_norms(graph: Graph, *, calibrated: bool) -> None:
    """LayerNormalization of [1, T, C] over C with constant gamma and beta."""
    for op in list(graph.ops):
        if op.type == "LayerNormalization":
            _one(graph, op, calibrated=calibrated)


def find_layer_norms(graph: Graph) -> None:
    """Normalisations that are spelled out in single operators become one; before anything else moves them."""
    for op in list(graph.ops):
        _recognise(graph, op)
    graph.prune()


def _recognise(graph: Graph, op: Op) -> None:
    """(x - mean) / sqrt(mean((x - mean) ** 2) + eps) * gamma + beta, as exporters before opset 17 write it."""
    makers = graph.producers()

    def maker(name: str, kind: str) -> Op | None:
        found = makers.get(name)
        return found if found is not None and found.type == kind else None

    def over_last(entry: Op | None) -> bool:
        rank = len(graph.shape(entry.inputs[0])) if entry is not None else 0
        return entry is not None and axes_of(graph, entry, rank) == (rank - 1,)

    def constant_of(entry: Op) -> tuple[str, str] | None:
        """(activation, constant) of an operator with one of each."""
        names = [name for name in entry.inputs if name in graph.constants]
        others = [name for name in entry.inputs if name not in graph.constants]
        return (others[0], names[0]) if len(names) == len(others) == 1 else None

    shifted = constant_of(op) if op.type == "Add" else None
    product = maker(shifted[0], "Mul") if shifted else None
    scaled = constant_of(product) if product is not None else None
    quotient = maker(scaled[0], "Div") if scaled else None
    difference = maker(quotient.inputs[0], "Sub") if quotient is not None else None
    root = maker(quotient.inputs[1], "Sqrt") if quotient is not None else None
    padded = maker(root.inputs[0], "Add") if root is not None else None
    eps = constant_of(padded) if padded is not None else None
    variance = maker(eps[0], "ReduceMean") if eps else None
    power = makers.get(variance.inputs[0]) if variance is not None else None
    if shifted is None or scaled is None or eps is None or difference is None or power is None:
        return
    mean = maker(difference.inputs[1], "ReduceMean")
    is_square = power.inputs[0] == difference.output and (
        (power.type == "Pow" and power.inputs[1] in graph.constants and graph.constants[power.inputs[1]].item() == 2)
        or (power.type == "Mul" and power.inputs[1] == difference.output)
    )
    if not is_square or not over_last(mean) or not over_last(variance) or mean is None:
        return
    if mean.inputs[0] != difference.inputs[0] or graph.constants[eps[1]].size != 1:
        return
    attributes = {"axis": -1, "epsilon": float(graph.constants[eps[1]].reshape(-1)[0])}
    made = Op("LayerNormalization", op.name, [difference.inputs[0], scaled[1], shifted[1]], [op.output], attributes,
              (op.name,))  # fmt: skip
    replace_op(graph, op, made)


def _one(graph: Graph, op: Op, *, calibrated: bool) -> None:
    shape = graph.shape(op.inputs[0])
    axis = int(op.attributes.get("axis", -1)) % len(shape)
    gamma = graph.constants.get(op.inputs[1])
    beta = graph.constants.get(op.inputs[2]) if len(op.inputs) > 2 and op.inputs[2] else np.zeros(shape[-1])
    op.attributes["reason"] = "it is there for [1, T, C] over the last dimension"
    if len(shape) != 3 or shape[0] != 1 or axis != 2 or gamma is None or beta is None or len(op.outputs) > 1:
        return
    _, length, channels = shape
    source, eps = op.inputs[0], float(op.attributes.get("epsilon", 1e-5))
    steps: list[Op] = []

    def value(name: str, size: tuple[int, ...], function: Callable[[Array], Array]) -> str:
        made = graph.add_value(f"{op.output}_{name}", size)
        graph.derived[made] = (source, function)
        return made

    def deviation(x: Array) -> Array:
        turned = x.transpose(0, 2, 1)[:, :, None, :]
        result: Array = turned - turned.mean(1, keepdims=True)
        return result

    def variance(x: Array) -> Array:
        result: Array = np.broadcast_to((deviation(x) ** 2).mean(1, keepdims=True) + eps, (1, channels, 1, length))
        return result

    cube = (1, channels, 1, length)
    flat = value("flat", (1, 1, length, channels), lambda x: x)
    turned = value("turned", cube, lambda x: x)
    difference = value("difference", cube, deviation)
    square = value("square", cube, lambda x: deviation(x) ** 2)
    spread = value("variance", cube, variance)
    root = value("root", cube, (lambda x: variance(x) ** -0.5) if calibrated else (lambda x: variance(x) ** 0.5))
    unit = value("unit", cube, lambda x: deviation(x) * variance(x) ** -0.5)
    scaled = graph.add_value(f"{op.output}_scaled", cube)
    graph.derived[scaled] = (op.output, lambda y: y)
    back = value("back", (1, 1, length, channels), lambda x: x)
    graph.derived[back] = (op.output, lambda y: y)
    steps += [
        Op("Reshape", flat, [source], [flat], {}, (op.name,)),
        Op("Transpose", turned, [flat], [turned], {"perm": [0, 3, 1, 2]}, (op.name,)),
        _dense(graph, turned, difference, np.eye(channels) - 1 / channels, 0.0),
        Op("Mul", square, [difference, difference], [square], {}, (op.name,)),
        _dense(graph, square, spread, np.full((channels, channels), 1 / channels), eps),
    ]
    if calibrated:
        steps.append(Op("Activation", root, [spread], [root], {"function": "rsqrt"}, (op.name,)))
        steps.append(Op("Mul", unit, [difference, root], [unit], {}, (op.name,)))
    else:
        steps.append(Op("Sqrt", root, [spread], [root], {}, (op.name,)))
        steps.append(Op("Div", unit, [difference, root], [unit], {}, (op.name,)))
    weight = graph.add_constant(f"{scaled}_gamma", gamma.astype(np.float64).reshape(channels, 1, 1, 1))
    bias = graph.add_constant(f"{scaled}_beta", beta.astype(np.float64).reshape(-1))
    steps += [
        Op("Conv", op.name, [unit, weight, bias], [scaled], {"group": channels, "kernel_shape": [1, 1]}, (op.name,)),
        Op("Transpose", back, [scaled], [back], {"perm": [0, 2, 3, 1]}, (op.name,)),
        Op("Reshape", f"{op.name}_end", [back], [op.output], {}, (op.name,)),
    ]
    replace_op(graph, op, *steps)


def _dense(graph: Graph, source: str, target: str, matrix: Array, bias: float) -> Op:
    weight = graph.add_constant(f"{target}_weight", matrix[:, :, None, None])
    summand = graph.add_constant(f"{target}_bias", np.full(len(matrix), bias))
    return Op("Conv", target, [source, weight, summand], [target], {"kernel_shape": [1, 1]}, ())
