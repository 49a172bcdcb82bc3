"""The step of a language model as a graph of the compiler: T tokens, a cache, and nothing that the CPU has to do.

    x        [1, width, 1, T]                       rows of the embedding, looked up by the CPU
    cache    [1, numbers]                           keys and values of all layers, as the NPU takes weights
    mask     [1, capacity, 1, pixels]               what is added to scores of rows: 0 for one that is filled
    turn     [1, size * size]                       one token: the rotation of its position, as weights
             [1, 2 * size, 1, (heads + kv_heads) * T]   several: cosines, then sines
    fresh    [1, layers * 2 * kv_heads * size, 1, T]    new keys and values
    logits   [1, vocabulary, 1, 1]                  of one token only

Weights of norms are folded into the projections behind them. Channels of queries and keys are ordered as
`compiler.lower.cached` wants them; attention's result has that order, and the projection behind it takes it so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from math import sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.compiler.errors import OptionError
from openrknn.compiler.forms import (
    Activation,
    Binary,
    BlockTurn,
    CachedAttention,
    Concat,
    Conv,
    Estimate,
    Gate,
    Softmax,
    SquareSum,
)
from openrknn.compiler.ir import Graph, Op, Quantization
from openrknn.compiler.normalise.layer_norm import NormParts
from openrknn.compiler.targets import Target
from openrknn.llm.config import LanguageConfig
from openrknn.llm.integers import IntegerProducts, Integers, LazyStored
from openrknn.llm.quantise.hadamard import rotation
from openrknn.llm.ranges import DEFAULT_POWER
from openrknn.llm.weights import WeightSource

Array = npt.NDArray[Any]
_ATOM = 8
"""Numbers of fp16 that lie together."""
_MOST_COLUMNS = 8192
"""Of one product: more of them are silently wrong on a board."""
_NEWTON_STEPS = 2
_FUNCTIONS = {"silu": "silu", "gelu": "gelu"}


class LazyConstants(dict[str, Array]):
    """Arrays that are made when they are asked for: all weights of a model need not be in memory at once."""

    def __init__(self) -> None:
        super().__init__()
        self._makers: dict[str, Callable[[], Array]] = {}
        self._last: tuple[str, Array] | None = None

    def put(self, name: str, make: Callable[[], Array], shape: tuple[int, ...], *, is_packed: bool = False) -> str:
        """`is_packed`: another graph has packed it already, so that nobody looks at its numbers."""
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
        return self._last[1]


@dataclass
class StepGraph:
    """Builds the graph of T tokens."""

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
        self._fresh: list[str] = []

    def build(self) -> Graph:
        config, graph = self.config, self.graph
        check(config, self.target, self.capacity)
        width, numbers = config.width, cache_numbers(config, self.capacity)
        now = self._input("x", (1, width, 1, self.tokens))
        self._input("cache", (1, numbers))
        self._input("mask", (1, self.capacity, 1, mask_pixels(config, self.tokens)))
        size, both = config.head_size, config.heads + config.kv_heads
        self._input("turn", (1, size * size) if self.tokens == 1 else (1, 2 * size, 1, both * self.tokens))
        for layer in range(config.layers):
            now = self._layer(layer, now)
        self._concat("fresh", self._fresh)
        graph.outputs.append("fresh")
        if self.has_head:
            self._head(now)
            graph.outputs.append("logits")
        else:
            self._drop(now)
        return graph

    # -- a layer ---------------------------------------------------------------------------------------------------

    def _layer(self, layer: int, x: str) -> str:
        name, config = f"layers.{layer}", self.config
        heads, groups, size = config.heads, config.kv_heads, config.head_size
        h = self._norm(f"{name}.attention_norm", x)
        order, scale = head_order(heads + groups, size), np.ones((heads + groups) * size, np.float32)
        scale[: heads * size] = config.score_scale()
        gain = self._folded(f"{name}.attention_norm")

        def joined(kind: str = "") -> Array:
            parts = [self._get(f"{name}.{one}{kind}") for one in ("q", "k")]
            whole = np.concatenate([one if one is not None else np.zeros(0, np.float32) for one in parts])
            return (whole.T * scale).T[order] if whole.size else whole

        has_bias = f"{name}.q.bias" in self._names
        integers = self.products.of((f"{name}.q", f"{name}.k"), factors=scale, order=order)
        both = self._dense(f"{name}.qk", h, (heads + groups) * size, lambda: joined() * gain(),
                           (lambda: joined(".bias")) if has_bias else None, integers=integers)  # fmt: skip
        values = self._linear(f"{name}.v", h, groups * size, gain)
        each = self.capacity * groups * size * 2
        fresh = self.target.fp16.atom if self.tokens == 1 else self.tokens
        form = CachedAttention(heads, groups, size, self.tokens, self.capacity, fresh, 2 * layer * each)
        keys = self._value(f"{name}.keys", (1, groups * size, 1, self.tokens))
        scores = self._value(f"{name}.scores", (1, self.capacity + fresh, 1, heads * self.tokens))
        self._op("CachedScores", f"{name}.scores", [both, "cache", "mask", "turn"], [scores, keys], form)
        shares = self._value(f"{name}.shares", self.graph.shape(scores))
        self._op("Softmax", f"{name}.softmax", [scores], [shares], Softmax(1, self._shares_table))
        made = self._value(f"{name}.attention", (1, heads * size, 1, self.tokens))
        behind = CachedAttention(heads, groups, size, self.tokens, self.capacity, fresh, (2 * layer + 1) * each)
        self._op("CachedValues", f"{name}.values", [shares, "cache", values], [made], behind)
        self._fresh += [keys, values]
        columns = head_order(heads, size)
        scaled = np.array(config.residual_scale, np.float32)
        x = self._linear(f"{name}.o", made, config.width, lambda: scaled, columns=columns, addend=x)
        return self._feed_forward(name, x)

    @property
    def _shares_table(self) -> bool:
        """One table for all, so that a token is one job everywhere; many tokens need fewer passes with two of them."""
        return self.tokens == 1 and self.config.gated and self.config.activation == "silu"

    def _feed_forward(self, name: str, x: str) -> str:
        config, scaled = self.config, np.array(self.config.residual_scale, np.float32)
        h = self._norm(f"{name}.ffn_norm", x)
        gain = self._folded(f"{name}.ffn_norm")
        function = Activation(_FUNCTIONS[config.activation])
        up = self._linear(f"{name}.up", h, config.hidden, gain, activation=None if config.gated else function)
        if self._shares_table:
            gate = self._linear(f"{name}.gate", h, config.hidden, gain)
            made = self._value(f"{name}.gated", self.graph.shape(up))
            self._op("Gate", f"{name}.gated", [gate, up], [made], Gate())
            up = made
        elif config.gated:
            gate = self._linear(f"{name}.gate", h, config.hidden, gain, activation=function)
            up = self._binary(f"{name}.gated", "mul", gate, up)
        if "down" in self.products.online:
            up = self._turned(f"{name}.turned", up, self.products.online["down"])
        return self._linear(f"{name}.down", up, config.width, lambda: scaled, addend=x)

    def _head(self, x: str) -> None:
        config = self.config
        h = self._norm("final_norm", x)
        gain = self._folded("final_norm")
        name = "embedding" if "head" not in self._names else "head"
        parts = []
        for first in range(0, config.vocabulary, _MOST_COLUMNS):
            count = min(_MOST_COLUMNS, config.vocabulary - first)

            def rows(first: int = first, count: int = count) -> Array:
                return self.source.rows(name, first, count) * gain()

            def bias(first: int = first, count: int = count) -> Array:
                return self.source.get("head.bias")[first : first + count]

            has_bias = "head.bias" in self._names
            integers = self.products.of(("head",), rows=slice(first, first + count))
            made = self._dense(f"head.{first}", h, count, rows, bias if has_bias else None, integers=integers)
            parts.append(made)
        self._concat("logits", parts)

    def _drop(self, x: str) -> None:
        """Nothing reads what the last layer makes but its keys and values: its other operators are not needed."""
        graph, needed = self.graph, set(self.graph.outputs)
        kept = []
        for op in reversed(graph.ops):
            if needed.intersection(op.outputs):
                kept.append(op)
                needed.update(op.inputs)
        graph.ops = kept[::-1]
        made = {name for op in graph.ops for name in op.outputs}
        graph.values = {name: value for name, value in graph.values.items() if name in made or name in graph.inputs}

    # -- norms -----------------------------------------------------------------------------------------------------

    def _folded(self, name: str) -> Callable[[], Array]:
        """What columns of the projections behind a norm are multiplied by."""
        return lambda: self.source.get(name)

    def _norm(self, name: str, x: str) -> str:
        if self.tokens > 1 or self.config.width % 32:
            return self._row_norm(name, x)
        width, eps, power = self.config.width, self.config.norm_epsilon, self.powers.get(name, DEFAULT_POWER)
        total = self._value(f"{name}.squares", (1, 1, 1, 1))
        self._op("SquareSum", f"{name}.squares", [x], [total], SquareSum(eps * width, power))
        root = self._value(f"{name}.guess", (1, 1, 1, 1))
        self._op("RootEstimate", f"{name}.guess", [total], [root], Estimate())
        for number in range(_NEWTON_STEPS):
            half = self._binary(f"{name}.half{number}", "mul", total, root, gain=-0.5)
            error = self._binary(f"{name}.error{number}", "mul", half, root)
            root = self._binary(f"{name}.root{number}", "mul", error, root, offset=1.5)
        every = self._dense(f"{name}.every", root, width, lambda: np.ones((width, 1), np.float32))
        return self._binary(f"{name}.normal", "mul", every, x, gain=sqrt(width / 2**power))

    def _row_norm(self, name: str, x: str) -> str:
        width = self.config.width
        made = self._value(f"{name}.normal", (1, width, 1, self.tokens))
        fake = Op("LayerNormalization", name, [x], [made], {"centred": False})
        parts = NormParts(self.graph, fake, (width, 1, self.tokens))
        last = parts.compute(x, np.ones(width), np.zeros(width), self.config.norm_epsilon)
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
        activation: Activation | None = None, addend: str | None = None,
    ) -> str:  # fmt: skip
        def make() -> Array:
            matrix = self.source.get(name)
            return (matrix if columns is None else matrix[:, columns]) * gain()

        bias = f"{name}.bias"
        scaled = self.config.residual_scale if addend is not None else 1.0
        has_bias = bias in self._names
        made = (lambda: self.source.get(bias) * np.float32(scaled)) if has_bias else None
        integers = self.products.of((name,), factors=np.full(outputs, scaled), columns=columns)
        return self._dense(name, x, outputs, make, made, activation=activation, addend=addend, integers=integers)

    def _dense(
        self, name: str, x: str, outputs: int, make: Callable[[], Array], bias: Callable[[], Array] | None = None, *,
        activation: Activation | None = None, addend: str | None = None, integers: Integers | None = None,
    ) -> str:  # fmt: skip
        inner, is_packed = self.graph.shape(x)[1], name in self.packed
        shape = (outputs, inner, 1, 1)
        if integers is not None:
            x = self._rounded(x, integers.scale)
            weights = self.constants.put(f"{name}_matrix", integers.matrix, shape, is_packed=is_packed)
            self.stored.put(weights, integers.stored)
        else:
            weights = self.constants.put(
                f"{name}_matrix", lambda: make()[:, :, None, None], shape, is_packed=is_packed
            )
        if bias is not None:
            summand = self.constants.put(f"{name}_summand", bias, (outputs,), is_packed=is_packed)
        else:
            summand = self.graph.add_constant(f"{name}_summand", np.zeros(outputs, np.float32))
        made = self._value(name, (1, outputs, 1, self.tokens))
        joins = addend is not None and integers is None  # the pipe of integers adds nothing of fp16
        inputs = [x, weights, summand, *([addend] if joins and addend is not None else [])]
        self._op("Conv", name, inputs, [made], Conv((1, 1), activation=activation))
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


def head_order(heads: int, size: int) -> npt.NDArray[np.int64]:
    """Which number (head * size + at) each channel is: groups of a head's numbers lie `heads` groups apart."""
    return np.arange(heads * size).reshape(heads, size // _ATOM, _ATOM).transpose(1, 0, 2).reshape(-1)


def mask_pixels(config: LanguageConfig, tokens: int) -> int:
    """Of the heads that share keys; whole fours, which every chip reads in place."""
    return -(-config.heads // config.kv_heads * tokens // 4) * 4


def cache_numbers(config: LanguageConfig, capacity: int) -> int:
    """Numbers of fp16 in the cache of a sequence."""
    return 2 * config.layers * config.kv_heads * config.head_size * capacity


def refusals(config: LanguageConfig, capacity: int) -> Iterator[str]:
    """What the step cannot do yet."""
    if config.norm != "rms" or not config.norm_first or not config.causal:
        yield "layer norms, norms behind the addition and attention without an order (encoders)"
    if config.rope is None or config.rope.size != config.head_size:
        yield "learned positions, and a rotation of a part of each head"
    if config.query_key_norm:
        yield "norms of queries and keys"
    if config.post_norms:
        yield "norms on the results of attention and feed-forward parts"
    if config.attention_softcap is not None:
        yield "soft caps of attention scores"
    if config.rope is not None and config.rope.local_base is not None:
        yield "a base of its own for layers with a window"
    if config.window is not None and config.window < capacity:
        yield f"a sliding window that is shorter than the cache (choose a capacity up to {config.window})"
    if config.activation not in _FUNCTIONS:
        yield f"the function {config.activation}"


def check(config: LanguageConfig, target: Target, capacity: int) -> None:
    """Raises `OptionError` that says what cannot be compiled, and what can be done."""
    wrong = next(refusals(config, capacity), None)
    if wrong is not None:
        raise OptionError(f"{config.architecture}: {wrong} cannot be compiled yet; use the float engine")
    if not target.has_fp16 or not target.has_softmax or not target.turns_lanes:
        raise OptionError(f"{target.name}: no attention in fp16; there is rk3588, rk3576, rk3562 and rv1126b")
    if config.head_size % 32 or config.width % 16 or config.hidden % 16:
        raise OptionError(
            f"heads of {config.head_size}, a width of {config.width} and {config.hidden} between the products: heads "
            "have to be multiples of 32, the others of 16"
        )
    if capacity % 32 or not 32 <= capacity <= _MOST_COLUMNS:
        raise OptionError(f"a cache of {capacity} tokens: from 32 to {_MOST_COLUMNS} in steps of 32 can be")
