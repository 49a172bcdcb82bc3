"""What graphs of language models are made of: products with weights, norms, element-wise operators."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from math import log2
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.compiler.forms import (
    Activation,
    Binary,
    BlockTurn,
    Concat,
    Conv,
    Fold,
    NarrowProduct,
    UnitNorm,
)
from openrknn.compiler.ir import Graph, Op, Quantization
from openrknn.compiler.normalise.layer_norm import NormParts
from openrknn.compiler.targets import Target
from openrknn.llm.integers import IntegerProducts, Integers, LazyStored
from openrknn.llm.quantise.hadamard import rotation
from openrknn.llm.ranges import DEFAULT_POWER
from openrknn.llm.weights import WeightSource

Array = npt.NDArray[Any]


class LazyConstants(dict[str, Array]):
    """Arrays that are made when they are asked for: all weights of a model need not be in memory at once."""

    def __init__(self) -> None:
        super().__init__()
        self._makers: dict[str, Callable[[], Array]] = {}
        self._last: tuple[str, Array] | None = None
        self._seen: set[str] = set()
        self.watch: Callable[[float], None] | None = None
        """Called with the share of all arrays that were made."""

    def put(self, name: str, make: Callable[[], Array], shape: tuple[int, ...], *, is_packed: bool = False) -> str:
        """`is_packed`: another graph has packed it already, so its numbers are not used."""
        zeros = np.broadcast_to(np.float32(0), shape)
        self._makers[name] = (lambda: zeros) if is_packed else make
        super().__setitem__(name, np.zeros(0))
        return name

    def __getitem__(self, name: str) -> Array:
        make = self._makers.get(name)
        if make is None:
            return super().__getitem__(name)
        if self._last is None or self._last[0] != name:
            self._last = (name, make())
            self._seen.add(name)
            if self.watch is not None:
                self.watch(len(self._seen) / len(self._makers))
        return self._last[1]


@dataclass
class GraphParts:
    """A graph of T tokens that grows."""

    source: WeightSource
    target: Target
    capacity: int
    tokens: int
    has_head: bool = True
    powers: Mapping[str, int] = field(default_factory=dict)
    """Norm -> the power of two that its sums of squares are divided by."""
    products: IntegerProducts = field(default_factory=lambda: IntegerProducts(None))
    """Those that are computed in int8; everything between them is fp16."""
    packed: Collection[str] = ()
    """Convolutions whose weights another graph has packed."""
    graph: Graph = field(init=False)

    def __post_init__(self) -> None:
        self.config = self.source.config
        self._names = frozenset(self.source.names())
        self.constants = LazyConstants()
        self.stored = LazyStored()
        self.graph = Graph(f"step{self.tokens}", [], [], constants=self.constants, stored=self.stored)

    @property
    def _norms_at_once(self) -> bool:
        """Whether sums of squares are divided by what was measured, in a few tasks; else each row by its own size."""
        return self.tokens == 1

    # -- norms -----------------------------------------------------------------------------------------------------

    def _norm(self, name: str, x: str, *, factor: Array | None = None, stream: float = 1.0) -> str:
        """An RMS norm times `factor`, or one whose weights are folded into what reads it.

        `stream`: what x was multiplied by.
        """
        config = self.config
        epsilon = config.norm_epsilon * stream**2
        if not self._norms_at_once or config.width % 32:
            gamma = np.ones(config.width, np.float32) if factor is None else factor
            return self._row_norm(name, x, config.width, gamma, epsilon)
        power = max(0, self.powers.get(name, DEFAULT_POWER) + round(2 * log2(stream)))
        made = self._value(f"{name}.normal", self.graph.shape(x))
        self._op("UnitNorm", f"{name}.normal", [x], [made], UnitNorm(epsilon * config.width, power))
        if factor is None:
            return made
        factors = self.graph.add_constant(f"{name}_factors", factor.reshape(1, config.width, 1, 1))
        scaled = self._value(f"{name}.scaled", self.graph.shape(x))
        self._op("Binary", scaled, [made, factors], [scaled], Binary("mul", "channel"))
        return scaled

    def _layer_norm(self, name: str, x: str) -> str:
        """With its weights: RMS norm or layer norm."""
        config, bias = self.config, f"{name}.bias"
        beta = self.source.get(bias) if bias in self._names else None
        gamma, centred = self.source.get(name), config.norm == "layer"
        return self._row_norm(name, x, config.width, gamma, config.norm_epsilon, beta=beta, centred=centred)

    def _head_norm(self, name: str, both: str, numbers: int, query_gain: float) -> str:
        """RMS norms over each head of queries and keys: [1, heads * size, 1, T] -> [1, size, 1, heads * T].

        `numbers`: of a head; the others pad it.
        """
        config = self.config
        size, heads = config.head_size, (config.heads + config.kv_heads) * self.tokens
        folded = self._value(f"{name}.heads", (1, size, 1, heads))
        self._op("Fold", f"{name}.heads", [both], [folded], Fold(config.heads + config.kv_heads))
        share = numbers / size  # means are those of the padded head
        gamma = np.stack([self.source.get(f"{name}.{one}_norm") for one in "qk"], axis=1) * np.sqrt(share)
        gamma[:, 0] *= query_gain
        is_query = np.arange(heads) < config.heads * self.tokens
        picks = self.graph.add_constant(
            f"head_picks{self.tokens}", np.stack([is_query, ~is_query]).astype(np.float32).reshape(1, 2, 1, heads)
        )
        return self._row_norm(f"{name}.head_norm", folded, size, gamma, config.norm_epsilon * share, picks=picks)

    def _row_norm(
        self, name: str, x: str, channels: int, gamma: Array, epsilon: float, *, beta: Array | None = None,
        centred: bool = False, picks: str | None = None,
    ) -> str:  # fmt: skip
        shape = self.graph.shape(x)
        made = self._value(f"{name}.normal", shape)
        fake = Op("LayerNormalization", name, [x], [made], {"centred": centred})
        parts = NormParts(self.graph, fake, (channels, 1, shape[3]))
        last = parts.compute(x, gamma, np.zeros(channels) if beta is None else beta, epsilon, picks=picks)
        for op in parts.steps:
            if op.type == "Conv":
                op.form, op.attributes = Conv((1, 1)), {}
            elif op.type == "Add":
                op.become("Binary", Binary("add", "pixel"))
            op.outputs = [made if one == last else one for one in op.outputs]
        del self.graph.values[last]
        self.graph.ops += parts.steps
        return made

    # -- operators -------------------------------------------------------------------------------------------------

    def _get(self, name: str) -> Array | None:
        return self.source.get(name) if name in self._names else None

    def _linear(
        self, name: str, x: str, outputs: int, gain: Callable[[], Array], *, columns: Array | None = None,
        activation: Activation | None = None, addend: str | None = None, factor: float = 1.0, rows: Array | None = None,
        at: str = "", adds_bias: bool = True,
    ) -> str:  # fmt: skip
        """`gain`: of the columns, or of all numbers; `factor`: the same, of the bias and of integers.

        `rows`, `columns`: which ones of the matrix; `at`: what such a part has behind its name.
        """

        def make() -> Array:
            matrix = self.source.get(name)
            matrix = matrix if rows is None else matrix[rows]
            return (matrix if columns is None else matrix[:, columns]) * gain()

        def bias() -> Array:
            found = self.source.get(f"{name}.bias")
            return (found if rows is None else found[rows]) * np.float32(factor)

        has_bias = adds_bias and f"{name}.bias" in self._names
        integers = self.products.of((name,), factors=np.full(outputs, factor), columns=columns,
                                    rows=slice(None) if rows is None else rows)  # fmt: skip
        return self._dense(f"{name}{at}", x, outputs, make, bias if has_bias else None, activation=activation,
                           addend=addend, integers=integers)  # fmt: skip

    def _dense(
        self, name: str, x: str, outputs: int, make: Callable[[], Array], bias: Callable[[], Array] | None = None, *,
        activation: Activation | None = None, addend: str | None = None, integers: Integers | None = None,
    ) -> str:  # fmt: skip
        if integers is not None and integers.scale is None:
            return self._narrow(name, x, outputs, integers, bias=bias, activation=activation, addend=addend)
        inner, is_packed = self.graph.shape(x)[1], name in self.packed
        shape = (outputs, inner, 1, 1)
        if integers is not None:
            x = self._rounded(x, integers.scale or 1.0)
            weights = self.constants.put(f"{name}_matrix", integers.matrix, shape, is_packed=is_packed)
            self.stored.put(weights, integers.stored)
        else:
            weights = self.constants.put(f"{name}_matrix", lambda: make()[:, :, None, None], shape, is_packed=is_packed)
        if bias is not None:
            summand = self.constants.put(f"{name}_summand", bias, (outputs,), is_packed=is_packed)
        else:
            summand = self.graph.add_constant(f"{name}_summand", np.zeros(outputs, np.float32))
        made = self._value(name, (1, outputs, 1, self.tokens))
        joins = addend is not None and integers is None  # the pipe of integers adds nothing of fp16
        inputs = [x, weights, summand, *([addend] if joins and addend is not None else [])]
        self._op("Conv", name, inputs, [made], Conv((1, 1), activation=activation))
        return made if addend is None or joins else self._binary(f"{name}.sum", "add", made, addend)

    def _narrow(
        self, name: str, x: str, outputs: int, integers: Integers, *, bias: Callable[[], Array] | None,
        activation: Activation | None, addend: str | None,
    ) -> str:  # fmt: skip
        """A product with weights of int4; a bias and a function are operators of their own behind it."""
        is_plain = bias is None and activation is None
        shape = outputs, self.graph.shape(x)[1]
        weights = self.constants.put(f"{name}_int4", lambda: integers.make()[0], shape)
        scales = self.constants.put(f"{name}_scales", lambda: integers.make()[1], (outputs, integers.groups))
        made = self._value(name, (1, outputs, 1, self.tokens))
        joins = [addend] if addend is not None and is_plain else []
        self._op("NarrowProduct", name, [x, weights, scales, *joins], [made], NarrowProduct(integers.heads))
        if bias is not None:
            summand = self.graph.add_constant(f"{name}_summand", bias().reshape(1, outputs, 1, 1))
            summed = self._value(f"{name}.biased", self.graph.shape(made))
            self._op("Binary", summed, [made, summand], [summed], Binary("add", "channel"))
            made = summed
        if activation is not None:
            active = self._value(f"{name}.active", self.graph.shape(made))
            self._op("Activation", active, [made], [active], activation)
            made = active
        return made if addend is None or joins else self._binary(f"{name}.sum", "add", made, addend)

    def _rounded(self, x: str, scale: float) -> str:
        """The value in int8; products that read the same numbers share it."""
        name = f"{x}_int8"
        if name not in self.graph.values:
            made = self._value(name, self.graph.shape(x))
            self.graph.values[made].quantization = Quantization(scale, 0)
            self.graph.ops.append(Op("Convert", made, [x], [made]))
        return name

    def _turned(self, name: str, x: str, order: int) -> str:
        matrix = self.graph.add_constant(f"{name}_matrix", rotation(order).T)
        made = self._value(name, self.graph.shape(x))
        self._op("BlockTurn", name, [x, matrix], [made], BlockTurn(order))
        return made

    def _binary(self, name: str, method: str, left: str, right: str, *, gain: float = 1.0, offset: float = 0.0) -> str:
        made = self._value(name, self.graph.shape(left))
        self._op("Binary", name, [left, right], [made], Binary(method, "pixel", gain, offset))
        return made

    def _concat(self, name: str, parts: list[str]) -> None:
        sizes = [self.graph.shape(part)[1] for part in parts]
        starts = tuple(int(start) for start in np.cumsum([0, *sizes[:-1]]))
        made = self._value(name, (1, sum(sizes), 1, self.tokens))
        self._op("Concat", name, list(parts), [made], Concat(starts))

    def _input(self, name: str, shape: tuple[int, ...]) -> str:
        self.graph.inputs.append(name)
        return self._value(name, shape)

    def _value(self, name: str, shape: tuple[int, ...]) -> str:
        return self.graph.add_value(name, shape)

    def _op(self, kind: str, name: str, inputs: list[str], outputs: list[str], form: Any) -> None:
        self.graph.ops.append(Op(kind, name, inputs, outputs, {}, (), form))
