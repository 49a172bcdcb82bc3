"""Layer normalisation over the last dimension, with channels where the NPU wants them; always in fp16.

    m = mean(x)                a 1x1 convolution with the weights 1/C
    d = x - m                  a 1x1 convolution that spreads -m over the channels, x as its residual
    v = s^2 (mean(d * d) + e)  a product (times q), and a 1x1 convolution with the weights 1/(qC)
    r = 1 / sqrt(v)            a guess from the bits of v, and two steps of Newton: r (1.5 - 0.5 v r^2)
    y = d * (r s gamma) + beta

In int8 the small differences that all this is about would drown, so int8 models compute it in fp16 too, as the vendor's
do; nothing is left to the CPU. `s` is a power of two that keeps the variance inside of fp16: `quantise` sets it
when ranges are known. Trained networks have single channels that are far larger than the others, so single squares are
far larger than their mean: they are stored times `q`.
"""

from __future__ import annotations

import numpy as np

from openrknn.compiler.ir import Array, Graph, Op
from openrknn.compiler.normalise.common import axes_of, replace_op

__all__ = ["find_layer_norms", "normalise_layer_norms"]

_NEWTON_STEPS = 2
"""The guess is 3.5 % off, one step leaves 0.2 %, two 5e-6: less than fp16 can tell."""
_UNKNOWN_SCALE = 0.25
"""Without calibration: standard deviations from 0.03 to 1000 are exact."""
_SQUARES = 1 / 16
"""Differences up to 4000 are safe. Small squares lose digits, each by chance, and only their mean counts."""
_MARK = "norm"


def normalise_layer_norms(graph: Graph, *, calibrated: bool, can_mix: bool = True) -> None:
    """LayerNormalization of [1, T, C] or [1, H, W, C] over C with constant gamma and beta."""
    for op in list(graph.ops):
        if op.type == "LayerNormalization" and calibrated and not can_mix:
            op.attributes["reason"] = "int8 models compute it in fp16, and this chip cannot mix the two; choose fp16"
        elif op.type == "LayerNormalization":
            _one(graph, op, calibrated=calibrated)


def _one(graph: Graph, op: Op, *, calibrated: bool) -> None:
    shape = graph.shape(op.inputs[0])
    axis = int(op.attributes.get("axis", -1)) % len(shape)
    gamma = graph.constants.get(op.inputs[1])
    beta = graph.constants.get(op.inputs[2]) if len(op.inputs) > 2 and op.inputs[2] else np.zeros(shape[-1])
    op.attributes["reason"] = "supported for [1, T, C] and [1, H, W, C] over the last dimension"
    if len(shape) not in {3, 4} or shape[0] != 1 or axis != len(shape) - 1 or len(op.outputs) > 1:
        return
    if gamma is None or beta is None:
        return
    if gamma.size != shape[-1] or beta.size != shape[-1]:
        op.attributes["reason"] = f"its scale and bias do not have one number for each of {shape[-1]} channels"
        return
    channels, rows, columns = shape[-1], shape[1] if len(shape) == 4 else 1, shape[-2]
    parts = _Parts(graph, op, (channels, rows, columns))
    flat = parts.moved("flat", (1, rows, columns, channels), op.inputs[0], turn=False)
    turned = parts.moved("turned", (1, channels, rows, columns), op.inputs[0], turn=True)
    parts.steps += [
        Op("Reshape", flat, [op.inputs[0]], [flat], {}, (op.name,)),
        Op("Transpose", turned, [flat], [turned], {"perm": [0, 3, 1, 2]}, (op.name,)),
    ]
    result = parts.compute(turned, gamma, beta, float(op.attributes.get("epsilon", 1e-5)))
    if calibrated:
        graph.floats.update(parts.made)
        stored = parts.moved("stored", (1, channels, rows, columns), op.output, turn=True)
        parts.steps.append(Op("Convert", stored, [result], [stored], {}, (op.name,)))
        result = stored
    back = parts.moved("back", (1, rows, columns, channels), op.output, turn=False)
    parts.steps += [
        Op("Transpose", back, [result], [back], {"perm": [0, 2, 3, 1]}, (op.name,)),
        Op("Reshape", f"{op.name}_end", [back], [op.output], {}, (op.name,)),
    ]
    replace_op(graph, op, *parts.steps)


class _Parts:
    """The operators of one normalisation."""

    def __init__(self, graph: Graph, op: Op, cube: tuple[int, int, int]) -> None:
        self.graph, self.op, self.cube = graph, op, cube
        self.steps: list[Op] = []
        self.made: list[str] = []

    def moved(self, name: str, shape: tuple[int, ...], source: str, *, turn: bool) -> str:
        made = self.graph.add_value(f"{self.op.output}_{name}", shape)
        self.graph.derived[made] = (source, lambda x: np.moveaxis(x.reshape(1, *self._rows), 3, 1) if turn else x)
        return made

    @property
    def _rows(self) -> tuple[int, int, int]:
        channels, rows, columns = self.cube
        return rows, columns, channels

    def compute(self, turned: str, gamma: Array, beta: Array, eps: float) -> str:
        """From [1, C, H, W] to the same, all in fp16."""
        channels = self.cube[0]
        share = np.full((1, channels), 1 / channels)
        mean = self._dense("mean", turned, share, np.zeros(1))
        spread_mean = self._dense("spread_mean", mean, np.full((channels, 1), -1.0), np.zeros(channels))
        difference = self._value("difference", channels)
        self.steps.append(Op("Add", difference, [spread_mean, turned], [difference], {}, (self.op.name,)))
        self.graph.derived[difference] = (self.op.inputs[0], lambda x: x - x.mean(-1, keepdims=True))
        scale = _UNKNOWN_SCALE
        square = self._binary("square", "mul", difference, difference, channels, gain=scale**2 * _SQUARES)
        variance = self._dense("variance", square, share / _SQUARES, np.full(1, eps * scale**2))
        root = self._value("guess", 1)
        self.steps.append(Op("RootEstimate", root, [variance], [root], {}, (self.op.name,)))
        for number in range(_NEWTON_STEPS):
            half = self._binary(f"half_{number}", "mul", variance, root, 1, gain=-0.5)
            error = self._binary(f"error_{number}", "mul", half, root, 1)
            root = self._binary(f"root_{number}", "mul", error, root, 1, offset=1.5)
        weights = gamma.astype(np.float64).reshape(channels, 1)
        factor = self._dense("factor", root, weights * scale, np.zeros(channels))
        result = self._binary("scaled", "mul", factor, difference, channels)
        product = next(step for step in self.steps if step.output == square)
        product.attributes[_MARK] = {"scale": scale, "squares": _SQUARES, "variance": variance, "factor": factor}
        if np.any(beta):
            summand = self.graph.add_constant(f"{result}_beta", beta.astype(np.float64).reshape(1, channels, 1, 1))
            result = self._binary("shifted", "add", result, summand, channels, broadcast="channel")
        return result

    def _value(self, name: str, channels: int) -> str:
        made = self.graph.add_value(f"{self.op.output}_{name}", (1, channels, *self.cube[1:]))
        self.made.append(made)
        return made

    def _dense(self, name: str, source: str, matrix: Array, bias: Array) -> str:
        target = self._value(name, len(matrix))
        weight = self.graph.add_constant(f"{target}_weight", matrix[:, :, None, None])
        summand = self.graph.add_constant(f"{target}_bias", bias)
        self.steps.append(Op("Conv", target, [source, weight, summand], [target], {"kernel_shape": [1, 1]},
                             (self.op.name,)))  # fmt: skip
        return target

    def _binary(self, name: str, method: str, left: str, right: str, channels: int, *, broadcast: str = "pixel",
                gain: float = 1.0, offset: float = 0.0) -> str:  # fmt: skip
        target = self._value(name, channels)
        attributes = {"method": method, "broadcast": broadcast, "gain": gain, "offset": offset}
        self.steps.append(Op("Binary", target, [left, right], [target], attributes, (self.op.name,)))
        return target


def find_layer_norms(graph: Graph) -> None:
    """They become one operator each, before anything else moves their parts."""
    for kind in ("Add", "Div", "Mul"):  # with scale and bias first, then those that have none
        for op in list(graph.ops):
            if op.type == kind:
                _recognise(graph, op)
    graph.prune()


def _recognise(graph: Graph, op: Op) -> None:
    """(x - mean) / sqrt(mean((x - mean) ** 2) + eps) [* gamma + beta], as exporters before opset 17 write it.

    TensorFlow Lite has a product with the power of -0.5, which is a reciprocal root here.
    """
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
    quotient = op if op.type != "Add" else makers.get(scaled[0]) if scaled else None
    difference: Op | None = None
    root: Op | None = None
    if quotient is not None and quotient.type == "Div":
        difference, root = maker(quotient.inputs[0], "Sub"), maker(quotient.inputs[1], "Sqrt")
    elif quotient is not None and quotient.type == "Mul":
        for one, other in (quotient.inputs, quotient.inputs[::-1]):
            inverse = maker(other, "Reciprocal")
            if inverse is not None and difference is None:
                difference, root = maker(one, "Sub"), maker(inverse.inputs[0], "Sqrt")
    padded = maker(root.inputs[0], "Add") if root is not None else None
    eps = constant_of(padded) if padded is not None else None
    variance = maker(eps[0], "ReduceMean") if eps else None
    power = makers.get(variance.inputs[0]) if variance is not None else None
    if eps is None or difference is None or power is None:
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
    channels = graph.shape(op.output)[-1]
    if shifted is not None and scaled is not None:
        gamma, beta = scaled[1], shifted[1]
    else:
        gamma = graph.add_constant(f"{op.output}_ones", np.ones(channels))
        beta = graph.add_constant(f"{op.output}_zeros", np.zeros(channels))
    attributes = {"axis": -1, "epsilon": float(graph.constants[eps[1]].reshape(-1)[0])}
    made = Op("LayerNormalization", op.name, [difference.inputs[0], gamma, beta], [op.output], attributes, (op.name,))
    replace_op(graph, op, made)
