"""Layer normalisation over the last dimension, with channels where the NPU wants them; always in fp16.

    d = x - mean(x)             1x1 convolutions: the weights 1/C, then -1 with x as residual; not in an RMS norm
    d = d - mean(d)             what the first mean lost when it was rounded to fp16: much where it is large
    i = 4 / max(mean(|d|), t)   about: from the bits of the divisor
    z = d * i / 4
    v = mean(z * z) + e i^2/16  a product (times q), and a 1x1 convolution with the weights 1/(qC)
    r = 1 / sqrt(v)             a guess from the bits of v, and two steps of Newton: r (1.5 - 0.5 v r^2)
    y = z * (r gamma) + beta

Squares of fp16 leave its range below 0.0002 and above 256. Each row is divided by a number of about its own size first,
so that rows of any size are equally exact: v is at least 1 and at most C, however large x is. `i` need not be exact,
because it is the same number everywhere. `t` keeps rows of zeros from being divided by zero, and is so small beside
sqrt(e) that it does not matter elsewhere. `q` keeps the square of a single large channel inside of fp16.

In int8 the small differences that all this is about would drown, so int8 models compute it in fp16 too, as the vendor's
do; nothing is left to the CPU.
"""

from __future__ import annotations

import numpy as np

from openrknn.compiler.forms import Binary, Estimate
from openrknn.compiler.ir import Array, Graph, Op
from openrknn.compiler.normalise.common import replace_op
from openrknn.compiler.normalise.squares import NEWTON_STEPS, epsilon_gain, least_size, square_gain


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
    parts = NormParts(graph, op, (channels, rows, columns))
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


class NormParts:
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

    def compute(self, turned: str, gamma: Array, beta: Array, eps: float, *, picks: str | None = None) -> str:
        """From [1, C, H, W] to the same, all in fp16.

        gamma [C, kinds]: each kind of pixels has its own, and `picks` [1, kinds, H, W] has 1 for the kind of a pixel.
        """
        channels, kinds = self.cube[0], gamma.shape[1] if gamma.ndim > 1 else 1
        share = np.full((1, channels), 1 / channels)
        now = turned
        if self.op.attributes.get("centred", True):
            now = self._centre("", now, share)
            now = self._centre("rest_", now, share)
        shares = np.repeat(share, kinds, axis=0)
        first = np.zeros((channels, kinds))
        first[:, 0] = 1
        size = self._binary("size", "max", now, now, channels, gain=-1.0)
        mean_size = self._dense("mean_size", size, shares, np.zeros(kinds))
        inverse = self._estimate("InverseEstimate", "inverse", mean_size, kinds, least=least_size(eps))
        every = self._dense("inverses", inverse, first, np.zeros(channels))
        now = self._binary("unit", "mul", every, now, channels, gain=0.25)
        gain = square_gain(channels)
        square = self._binary("square", "mul", now, now, channels, gain=gain)
        variance = self._dense("variance", square, shares / gain, np.zeros(kinds))
        if epsilon_gain(eps):
            small = self._binary("epsilon", "mul", inverse, inverse, kinds, gain=epsilon_gain(eps))
            variance = self._add("variance_epsilon", variance, small, kinds)
        root = self._estimate("RootEstimate", "guess", variance, kinds)
        for number in range(NEWTON_STEPS):
            half = self._binary(f"half_{number}", "mul", variance, root, kinds, gain=-0.5)
            error = self._binary(f"error_{number}", "mul", half, root, kinds)
            root = self._binary(f"root_{number}", "mul", error, root, kinds, offset=1.5)
        if picks is not None:
            root = self._binary("picked", "mul", root, picks, kinds)
        factor = self._dense("factor", root, gamma.astype(np.float64).reshape(channels, kinds), np.zeros(channels))
        result = self._binary("scaled", "mul", factor, now, channels)
        if np.any(beta):
            summand = self.graph.add_constant(f"{result}_beta", beta.astype(np.float64).reshape(1, channels, 1, 1))
            result = self._binary("shifted", "add", result, summand, channels, broadcast="channel")
        return result

    def _centre(self, name: str, source: str, share: Array) -> str:
        channels = share.size
        mean = self._dense(f"{name}mean", source, share, np.zeros(1))
        spread_mean = self._dense(f"{name}spread_mean", mean, np.full((channels, 1), -1.0), np.zeros(channels))
        return self._add(f"{name}difference", spread_mean, source, channels)

    def _add(self, name: str, left: str, right: str, channels: int) -> str:
        target = self._value(name, channels)
        self.steps.append(Op("Add", target, [left, right], [target], {}, (self.op.name,)))
        return target

    def _estimate(self, kind: str, name: str, source: str, channels: int, least: float = 0.0) -> str:
        target = self._value(name, channels)
        self.steps.append(Op(kind, target, [source], [target], {}, (self.op.name,), Estimate(least)))
        return target

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
        form = Binary(method, broadcast, gain, offset)
        self.steps.append(Op("Binary", target, [left, right], [target], {}, (self.op.name,), form))
        return target
