"""Means and sums of squares or sizes in fp16, for numbers of any size, with or without a root behind them.

    s = max or mean of |x|      over what the squares are added up
    i = 4 / s                   about: from the bits of s
    z = x * i
    v = mean(z * z) + e i^2
    r = 1 / sqrt(v)             a guess from the bits of v, and two steps of Newton: r (1.5 - 0.5 v r^2)

    x / sqrt(mean(x * x) + e) = z * r       sqrt(mean(x * x) + e) = v r / i       mean(x * x) = v / i / i

Where x is a difference from its own mean, z loses its mean once more before it is squared (`is_centred`). What is
divided by the mean of its sizes needs no squares:

    m = mean(|z|) + e i
    r = 1 / m                   a guess from the bits of m, and three steps: r (2 - m r)

    x / (mean(|x|) + e) = z * r

Squares of fp16 leave its range below 0.0002 and above 256; those of z do not, whatever x is. Norms over pixels and
channels (InstanceNormalization, GroupNormalization), lengths, deviations and variances are computed so. Norms over the
last dimension have a form of their own (`layer_norm`).
"""

from __future__ import annotations

import math

import numpy as np

from openrknn.compiler.forms import Binary, Estimate
from openrknn.compiler.ir import Array, Graph, Op
from openrknn.compiler.normalise.common import sole_reader
from openrknn.compiler.normalise.square_chains import Chain, added_number, find_chain, is_centred, quotients_by

NEWTON_STEPS = 2
"""The guess of a reciprocal root is 3.5 % off, one step leaves 0.2 %, two 5e-6: less than fp16 can tell."""
INVERSE_STEPS = 3
"""The guess of a reciprocal is up to 12.5 % off, one step leaves 1.6 %, two 0.02 %, three 6e-8."""
_SMALLEST_MEAN = 2.0**-11
"""Of sizes, the largest of which is 4. Zeros have the mean 0, and each step doubles the guess for it."""
_LARGEST_FACTOR = 2.0**10
"""What a reciprocal is divided by at once: beyond it fp16 has fewer digits."""
_SMALLEST_SIZE = 2.0**-13
"""Below that the estimate of a reciprocal is beyond fp16."""
_SMALLEST_GAIN = 2.0**-27
"""What two factors of fp16 make. A smaller epsilon would only matter beside numbers that fp16 does not have."""
_LARGEST = 2.0**15
_LARGEST_UNIT = 4.75
"""x * i, where x is s: the estimate is up to 12.5 % too large, and s is rounded."""


def least_size(eps: float, gain: float = 1.0) -> float:
    """The smallest size that numbers are divided by: then epsilon, times `gain`, is not too large for fp16 either."""
    return max(_SMALLEST_SIZE, math.sqrt(eps) * max(1 / 8, math.sqrt(gain / 1024)))


def epsilon_gain(eps: float, gain: float = 1 / 16) -> float:
    """epsilon over the square of a size, as a factor of the square of the estimate of 4 / size."""
    return eps * gain if eps * gain >= _SMALLEST_GAIN else 0.0


def square_gain(channels: int) -> float:
    """Numbers divided by the mean of their sizes are at most 1.2 times as large as they are many."""
    return _power_of_four(_LARGEST / (1.2 * channels) ** 2)


def _power_of_four(most: float) -> float:
    return 4.0 ** min(0, math.floor(math.log(most, 4)))


def scale_squares(graph: Graph, *, calibrated: bool = False) -> None:
    """Reductions of x * x and |x| that are there already as pooling, convolutions and changes of shape.

    Of the sums of |x| only those that x is divided by: the others are beyond fp16 where their result is.
    In an int8 model (`calibrated`) only what is divided by its own length, and in fp16: the reciprocal of a length is
    large where the length is small, and one scale of 8 bits for all of them would leave nothing of the others. Norms
    with a mean stay int8: their differences are, which costs as much (34 instead of 35 dB), and half as many tasks do.
    """
    for op in list(graph.ops):
        is_square = op.type == "Mul" and len(op.inputs) == 2 and op.inputs[0] == op.inputs[1]
        if not (is_square or op.type == "Abs") or op.inputs[0] in graph.constants:
            continue
        chain = find_chain(graph, op)
        if chain is not None:
            _Scaled(graph, chain, calibrated=calibrated).write()
    graph.prune()


class _Scaled:
    """The operators in the place of one chain and what follows it."""

    def __init__(self, graph: Graph, chain: Chain, *, calibrated: bool) -> None:
        self.graph, self.chain, self.calibrated = graph, chain, calibrated
        self.steps: list[Op] = []
        self.name = chain.square.name
        has_conv = any(op.type == "Conv" for op in chain.reductions)
        unit = _LARGEST_UNIT * chain.most
        self.gain = 4.0 ** math.floor(math.log(_LARGEST / unit**2, 4))
        """Of squares, as they are stored."""
        self.mean_gain = _power_of_four(_LARGEST / (_LARGEST_UNIT * unit)) if has_conv else self.gain
        """Of their mean."""

    def write(self) -> None:
        """Which of the three forms it is, and all operators of it."""
        graph, chain = self.graph, self.chain
        reader = sole_reader(graph, chain.end)
        eps = added_number(graph, reader)
        if chain.square.type == "Abs":
            total = reader.output if reader is not None and eps is not None else chain.end
            found = quotients_by(graph, chain.source, total)
            if found:
                self._put(found[0].output, self._share_of_sizes(eps or 0.0), *found)
            return
        root = sole_reader(graph, reader.output) if reader is not None and eps is not None else reader
        is_root = root is not None and root.type == "Sqrt"
        quotients = quotients_by(graph, chain.source, root.output) if root is not None and is_root else []
        if self.calibrated and (not quotients or is_centred(graph, chain)):
            return
        if root is not None and quotients:
            self._put(quotients[0].output, self._quotient(eps or 0.0), root, *quotients)
        elif root is not None and is_root:
            self._put(root.output, self._root(eps or 0.0), root)
        else:
            self._put(chain.end, self._mean(), self._last(chain.end))

    def _put(self, target: str, made: str, *replaced: Op) -> None:
        """The new operators before the last of those that they replace; the result goes to `target`."""
        graph = self.graph
        names = tuple(dict.fromkeys((self.name, *(name for op in replaced for name in (op.name, *op.fused)))))
        if self.calibrated:
            made = self._stored(made, target, names)
        self.steps.append(Op("Reshape", f"{self.name}_end", [made], [target], {}, names))
        at = min(graph.ops.index(op) for op in replaced)
        for op in replaced[1:]:
            graph.ops.remove(op)
            graph.replace_uses(op.output, target)
        if replaced[0] in graph.ops:
            graph.ops.remove(replaced[0])
        graph.ops[at:at] = self.steps

    def _stored(self, made: str, target: str, names: tuple[str, ...]) -> str:
        """int8 again, with the numbers of `target`; all that was written so far is fp16."""
        graph, shape = self.graph, self.graph.shape(made)
        graph.floats.update(name for op in self.steps for name in op.outputs)
        stored = graph.add_derived(f"{target}_stored", shape, target, lambda values: values.reshape(shape))
        self.steps.append(Op("Convert", stored, [made], [stored], {}, names))
        return stored

    def _last(self, name: str) -> Op:
        return next(op for op in self.graph.ops if name in op.outputs)

    # -- the three forms --------------------------------------------------------------------------------------

    def _quotient(self, eps: float) -> str:
        """x / sqrt(mean(x * x) + eps)."""
        unit, variance, _ = self._measured(eps, again=is_centred(self.graph, self.chain))
        return self._plain("Mul", unit, self._inverse_root(variance, math.sqrt(self.mean_gain / self.chain.factor)))

    def _root(self, eps: float) -> str:
        """sqrt(mean(x * x) + eps)."""
        _, variance, inverse = self._measured(eps)
        length = self._product(variance, self._inverse_root(variance, 1.0))
        return self._over(length, inverse, gain=math.sqrt(self.chain.factor / self.mean_gain))

    def _mean(self) -> str:
        """mean(x * x)."""
        _, variance, inverse = self._measured(0.0)
        gain = math.sqrt(self.chain.factor / self.mean_gain)
        return self._over(self._over(variance, inverse, gain=gain), inverse, gain=gain)

    def _share_of_sizes(self, eps: float) -> str:
        """x / (factor * mean(|x|) + eps)."""
        factor = self.chain.factor
        inverse = self._estimate("InverseEstimate", self._size(), least=_SMALLEST_SIZE)
        unit = self._plain("Mul", self._shaped(), inverse)
        mean = self._averaged("mean", self._sizes(unit))
        if eps / factor >= _SMALLEST_GAIN:
            mean = self._plain("Add", mean, self._times(inverse, eps / factor))
        at_once = min(factor, _LARGEST_FACTOR)
        now = self._estimate("InverseEstimate", mean, least=_SMALLEST_MEAN)
        for number in range(INVERSE_STEPS):
            gain = 0.25 / at_once if number == INVERSE_STEPS - 1 else 1.0
            now = self._product(self._product(mean, now, gain=-0.25), now, gain=gain, offset=2.0)
        made = self._plain("Mul", unit, now)
        return made if at_once == factor else self._times(made, at_once / factor)

    def _measured(self, eps: float, *, again: bool = False) -> tuple[str, str, str]:
        """z, v and i; `again`: z without its mean."""
        eps /= self.chain.factor
        inverse = self._estimate("InverseEstimate", self._size(), least=least_size(eps, self.mean_gain))
        unit = self._plain("Mul", self._shaped(), inverse)
        if again:
            unit = self._plain("Sub", unit, self._averaged("mean", unit))
        return unit, self._variance(unit, inverse, eps), inverse

    # -- their parts ------------------------------------------------------------------------------------------

    def _size(self) -> str:
        """The largest |x| of pixels, the mean of |x| of channels."""
        now = self._sizes(self._shaped())
        for op in self.chain.reductions:
            made = self._value("size", self.graph.shape(op.output))
            if op.type == "Conv":
                self._convolve(now, made, self._share(op))
            else:
                self._pool("Max", now, made, op)
            now = made
        return now

    def _sizes(self, source: str) -> str:
        """|x|."""
        made = self._value("size", self.graph.shape(source))
        self._binary(made, "max", source, source, gain=-1.0)
        return made

    def _times(self, source: str, factor: float) -> str:
        return self._plain("Mul", source, self.graph.add_constant(f"{source}_factor", np.array(factor)))

    def _shaped(self) -> str:
        if self.graph.shape(self.chain.source) == self.chain.cube:
            return self.chain.source
        made = self._value("cube", self.chain.cube)
        self.steps.append(Op("Reshape", made, [self.chain.source], [made], {}, (self.name,)))
        self.chain.source = made
        return made

    def _averaged(self, name: str, now: str, gain: float = 1.0) -> str:
        """The mean of a value, taken as the squares' is; `gain` on top, where a convolution can multiply."""
        for op in self.chain.reductions:
            made = self._value(name, self.graph.shape(op.output))
            if op.type == "Conv":
                self._convolve(now, made, self._share(op) * gain)
                gain = 1.0
            else:
                self._pool("Average", now, made, op)
            now = made
        return now

    def _variance(self, unit: str, inverse: str, eps: float) -> str:
        now = self._averaged("variance", self._product(unit, unit, gain=self.gain), self.mean_gain / self.gain)
        gain = epsilon_gain(eps, self.mean_gain)
        return self._plain("Add", now, self._product(inverse, inverse, gain=gain)) if gain else now

    def _inverse_root(self, variance: str, factor: float) -> str:
        """1 / sqrt(v), times a factor."""
        now = self._estimate("RootEstimate", variance)
        for number in range(NEWTON_STEPS):
            last = factor if number == NEWTON_STEPS - 1 else 1.0
            error = self._product(self._product(variance, now, gain=-0.5), now)
            now = self._product(error, now, gain=last, offset=1.5)
        return now

    def _share(self, op: Op) -> Array:
        weight = self.graph.constants[op.inputs[1]].astype(np.float64)
        share: Array = weight / weight.sum((1, 2, 3), keepdims=True)
        return share

    # -- operators --------------------------------------------------------------------------------------------

    def _value(self, name: str, shape: tuple[int, ...]) -> str:
        return self.graph.add_value(f"{self.chain.square.output}_{name}", shape)

    def _estimate(self, kind: str, source: str, least: float = 0.0) -> str:
        made = self._value(kind, self.graph.shape(source))
        self.steps.append(Op(kind, made, [source], [made], {}, (self.name,), Estimate(least)))
        return made

    def _product(self, left: str, right: str, *, gain: float = 1.0, offset: float = 0.0) -> str:
        made = self._value("product", self.graph.shape(left))
        self._binary(made, "mul", left, right, gain=gain, offset=offset)
        return made

    def _over(self, left: str, right: str, *, gain: float) -> str:
        made = self._value("quotient", self.graph.shape(left))
        self._binary(made, "div", left, right, gain=gain)
        return made

    def _binary(self, made: str, method: str, left: str, right: str, *, gain: float, offset: float = 0.0) -> None:
        form = Binary(method, "pixel", gain, offset)
        self.steps.append(Op("Binary", made, [left, right], [made], {}, (self.name,), form))

    def _plain(self, kind: str, left: str, right: str) -> str:
        """An operator of the model's kind: a later pass knows how to broadcast."""
        made = self._value(kind, np.broadcast_shapes(self.graph.shape(left), self.graph.shape(right)))
        self.steps.append(Op(kind, made, [left, right], [made], {}, (self.name,)))
        return made

    def _pool(self, kind: str, source: str, made: str, like: Op) -> None:
        """Over the same pixels as another one."""
        is_line = like.type == "AveragePool"
        given = {name: list(like.attributes[name]) for name in ("kernel_shape", "strides")} if is_line else {}
        name = f"{kind}Pool" if is_line else f"Global{kind}Pool"
        self.steps.append(Op(name, made, [source], [made], given, (self.name,)))

    def _convolve(self, source: str, made: str, weight: Array) -> None:
        kept = self.graph.add_constant(f"{made}_weight", weight)
        attributes = {"kernel_shape": [1, 1]}
        self.steps.append(Op("Conv", made, [source, kept], [made], attributes, (self.name,)))
