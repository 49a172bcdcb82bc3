"""The graphs of a language model: T tokens and a cache, or T tokens of a whole text; nothing of them is the CPU's.

`ports` says what they take and give. Weights of norms are folded into the projections behind them, where only these
read the norm. Channels of queries and keys are ordered as `compiler.lower.cached` wants them; attention's result has
that order, and the projection behind it takes it so.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.compiler.forms import Activation, CachedAttention, Gate, Softmax
from openrknn.compiler.ir import Graph, Op
from openrknn.llm.graph_parts import GraphParts
from openrknn.llm.ports import MOST_COLUMNS, Ports, check, part_config
from openrknn.llm.quantise.hadamard import LANES

Array = npt.NDArray[Any]
Channels = npt.NDArray[np.int64]


@dataclass
class StepGraph(GraphParts):
    """Builds the graph of T tokens; with a capacity of 0 that of a whole text."""

    head_numbers: int = 0
    """Of a head, where it is padded; 0: as many as the configuration says."""
    stream: float = 1.0
    """A power of two that the residual stream is multiplied by, so that fp16 holds it."""
    span: tuple[int, int] | None = None
    """First layer of this part and the one behind its last; None: all of them."""
    sequences: int = 1
    """More than one: one token of each, with caches of their own."""
    others: int = 0
    """Of `Ports`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._first, end = self.span or (0, self.config.layers)
        part = part_config(self.config, self._first, end)
        self.ports = Ports(part, self.capacity, self.tokens, end < self.config.layers, self.sequences, self.others)
        self._fresh: list[str] = []

    def build(self) -> Graph:
        graph = self.graph
        check(self.config, self.target, self.capacity or self.tokens)
        for name, shape in self.ports.inputs().items():
            self._input(name, shape)
        now = "x"
        if "embedding_norm" in self._names and not self._first:
            now = self._layer_norm("embedding_norm", now)
        for layer in range(self._first, self._first + self.ports.config.layers):
            now = self._layer(layer, now)
        outputs = self.ports.outputs(logits=self.has_head)
        if "fresh" in outputs:
            self._concat("fresh", self._fresh)
        if "hidden" in outputs:
            self._rows(now)
        if "stream" in outputs:
            self._output("stream", now)
        if "logits" in outputs:
            self._head(now)
        graph.outputs += list(outputs)
        self._drop()
        return graph

    # -- a layer ---------------------------------------------------------------------------------------------------

    def _layer(self, layer: int, x: str) -> str:
        name, config = f"layers.{layer}", self.config
        if not config.norm_first:
            x = self._layer_norm(f"{name}.attention_norm", self._attention(layer, x, addend=x))
            return self._layer_norm(f"{name}.ffn_norm", self._feed_forward(name, x, addend=x))
        h = self._normal(f"{name}.attention_norm", x)
        x = self._joined(f"{name}.attention_post_norm", self._attention(layer, h, addend=x), x)
        h = self._normal(f"{name}.ffn_norm", x)
        return self._joined(f"{name}.ffn_post_norm", self._feed_forward(name, h, addend=x), x)

    def _joined(self, name: str, made: str, x: str) -> str:
        """The stream with what a part made: its last product has added it, or there is a norm between."""
        if not self.config.post_norms:
            return made
        factor = self.source.get(name) * np.float32(self.config.residual_scale * self.stream)
        return self._binary(f"{name}.sum", "add", self._norm(name, made, factor=factor), x)

    def _normal(self, norm: str, x: str) -> str:
        """The stream as products read it; the weights of the norm are in these, or have to be in the numbers."""
        weights = self.source.get(norm)
        is_separate = self.products.has_any and not np.all(weights == 1)
        return self._norm(norm, x, factor=weights if is_separate else None, stream=self.stream)

    def _gain(self, norm: str) -> Array:
        """What columns behind a norm are multiplied by. Integers were rounded with what is in them."""
        is_folded = self.config.norm_first and not self.products.has_any
        return self.source.get(norm) if is_folded else np.ones(1, np.float32)

    def _attention(self, layer: int, h: str, *, addend: str) -> str:
        name, config = f"layers.{layer}", self.config
        heads, groups, size, capacity = config.heads, config.kv_heads, config.head_size, self.capacity
        order, scale = (
            head_order(heads + groups, size, self.target.fp16.atom),
            np.ones((heads + groups) * size, np.float32),
        )
        cap = config.attention_softcap or 0.0
        factor = config.score_scale() / (cap or 1.0)
        scale[: heads * size] = 1.0 if config.query_key_norm else factor

        def joined(kind: str = "") -> Array:
            parts = [self._get(f"{name}.{one}{kind}") for one in ("q", "k")]
            whole = np.concatenate([one if one is not None else np.zeros(0, np.float32) for one in parts])
            return (whole.T * scale).T[order] if whole.size else whole

        def gain() -> Array:
            return self._gain(f"{name}.attention_norm")

        # Before queries and keys, whose product may be shared by cores that go on with their heads.
        values = self._linear(f"{name}.v", h, groups * size, gain)
        has_bias = f"{name}.q.bias" in self._names
        integers = self.products.of((f"{name}.q", f"{name}.k"), factors=scale, order=order)
        both = self._dense(f"{name}.qk", h, (heads + groups) * size, lambda: joined() * gain(),
                           (lambda: joined(".bias")) if has_bias else None, integers=integers)  # fmt: skip
        if config.query_key_norm:
            both = self._head_norm(name, both, self.head_numbers or size, factor)
        each = capacity * groups * size * 2
        fresh = self.target.fp16.atom if self.tokens == 1 else self.tokens
        turned = 0 if config.rope is None or config.rope.size == size else config.rope.size
        window = config.window_of(layer) or 0
        at = layer - self._first
        mask, turn = self.ports.mask_of(at), self.ports.turn_of(at)
        form = CachedAttention(heads, groups, size, self.tokens, capacity, fresh, 2 * at * each, turned, window, cap,
                               self.ports.masks)  # fmt: skip
        scores = self._value(f"{name}.scores", (1, capacity + fresh, 1, heads * self.tokens))
        rotation = [turn] if turn is not None else []
        caches = self.ports.caches
        if capacity:
            keys = self._value(f"{name}.keys", (1, groups * size, 1, self.tokens))
            self._op("CachedScores", f"{name}.scores", [both, caches[0], mask, *rotation, *caches[1:]],
                     [scores, keys], form)  # fmt: skip
            self._fresh += [keys, values]
        else:
            self._op("CachedScores", f"{name}.scores", [both, mask, *rotation], [scores], form)
        if cap:
            scores = self._capped(name, scores, mask, form)
        shares = self._value(f"{name}.shares", self.graph.shape(scores))
        self._softmax(f"{name}.softmax", scores, shares)
        made = self._value(f"{name}.attention", (1, heads * size, 1, self.tokens))
        behind = CachedAttention(heads, groups, size, self.tokens, capacity, fresh, (2 * at + 1) * each,
                                 masks=self.ports.masks)  # fmt: skip
        self._op("CachedValues", f"{name}.values", [shares, *caches, values], [made], behind)
        return self._last(f"{name}.o", made, addend, columns=head_order(heads, size, self.target.fp16.atom))

    def _capped(self, name: str, scores: str, mask: str, form: CachedAttention) -> str:
        capped = self._value(f"{name}.capped", self.graph.shape(scores))
        self._op("Activation", f"{name}.capped", [scores], [capped], Activation("tanh"))
        masked = self._value(f"{name}.masked", self.graph.shape(scores))
        self._op("MaskScores", f"{name}.masked", [capped, mask], [masked], form)
        return masked

    def _softmax(self, name: str, scores: str, shares: str) -> None:
        if self.target.has_softmax:
            form = Softmax(1, self._shared_function, self.config.kv_heads, is_bounded=True)
            self._op("Softmax", name, [scores], [shares], form)
        else:
            attributes = {"operator": "Softmax", "axis": 1, "reason": "this chip has no Softmax"}
            self.graph.ops.append(Op("Cpu", name, [scores], [shares], attributes))

    @property
    def _norms_at_once(self) -> bool:
        return self._is_step

    @property
    def _is_step(self) -> bool:
        """One token of each sequence: many starts of small tasks, in which the fewest tasks are the fastest."""
        return self.tokens == 1 or self.sequences > 1

    @property
    def _shared_function(self) -> str:
        """One table for all, so that a token is one job everywhere; many tokens need fewer passes with two of them."""
        is_shared = self._is_step and self.config.gated and self.target.has_softmax
        return self.config.activation if is_shared else ""

    def _feed_forward(self, name: str, h: str, *, addend: str) -> str:
        """In blocks of columns, where one product would have too many: each block adds to what those before it made."""
        made = addend
        blocks = hidden_blocks(self.config.hidden, self.products.online.get("down"))
        for number, block in enumerate(blocks):
            made = self._hidden_block(name, h, made, number, block)
        return made

    def _hidden_block(self, name: str, h: str, addend: str, number: int, block: Channels | None) -> str:
        config, at = self.config, f".{number}" if number else ""
        size = config.hidden if block is None else len(block)

        def gain() -> Array:
            return self._gain(f"{name}.ffn_norm")

        def product(kind: str, activation: Activation | None) -> str:
            return self._linear(f"{name}.{kind}", h, size, gain, activation=activation, rows=block, at=at)

        function = Activation(config.activation)
        up = product("up", None if config.gated else function)
        if self._shared_function:
            gate = product("gate", None)
            made = self._value(f"{name}.gated{at}", self.graph.shape(up))
            self._op("Gate", f"{name}.gated{at}", [gate, up], [made], Gate(self._shared_function))
            up = made
        elif config.gated:
            gate = product("gate", function)
            up = self._binary(f"{name}.gated{at}", "mul", gate, up)
        if "down" in self.products.online:
            up = self._turned(f"{name}.turned{at}", up, self.products.online["down"])
        return self._last(f"{name}.down", up, addend, columns=block, at=at)

    def _last(self, name: str, x: str, addend: str, *, columns: Channels | None = None, at: str = "") -> str:
        """The last product of a part, which adds the stream; where a norm follows, it is alone.

        `at`: of a product that adds to one before it, so that it has no bias.
        """
        config = self.config
        is_alone = config.norm_first and config.post_norms
        factor = config.residual_scale * self.stream if config.norm_first and not is_alone else 1.0
        scaled = np.array(factor, np.float32)
        return self._linear(name, x, config.width, lambda: scaled, columns=columns,
                            addend=None if is_alone and not at else addend, factor=factor, at=at,
                            adds_bias=not at)  # fmt: skip

    # -- ends ------------------------------------------------------------------------------------------------------

    def _rows(self, x: str) -> None:
        """What is pooled, as an output."""
        if self.config.norm_first:
            x = self._norm("final_norm", x, factor=self.source.get("final_norm"), stream=self.stream)
        self._output("hidden", x)

    def _output(self, name: str, x: str) -> None:
        """Another name for a value that nothing reads."""
        for op in self.graph.ops:
            op.outputs = [name if one == x else one for one in op.outputs]
        self._value(name, self.graph.shape(x))
        del self.graph.values[x]

    def _head(self, x: str) -> None:
        config = self.config
        h, gain = self._normal("final_norm", x), self._gain("final_norm")
        name = "embedding" if "head" not in self._names else "head"
        parts = []
        for first in range(0, config.vocabulary, MOST_COLUMNS):
            count = min(MOST_COLUMNS, config.vocabulary - first)

            def rows(first: int = first, count: int = count) -> Array:
                return self.source.rows(name, first, count) * gain

            def bias(first: int = first, count: int = count) -> Array:
                return self.source.get("head.bias")[first : first + count]

            has_bias = "head.bias" in self._names
            integers = self.products.of(("head",), rows=slice(first, first + count))
            made = self._dense(f"head.{first}", h, count, rows, bias if has_bias else None, integers=integers)
            parts.append(made)
        self._concat("logits", parts)

    def _drop(self) -> None:
        """Without logits nothing reads what the last layer makes but its keys and values: others are not needed."""
        graph, needed = self.graph, set(self.graph.outputs)
        kept = []
        for op in reversed(graph.ops):
            if needed.intersection(op.outputs):
                kept.append(op)
                needed.update(op.inputs)
        graph.ops = kept[::-1]
        made = {name for op in graph.ops for name in op.outputs}
        graph.values = {name: value for name, value in graph.values.items() if name in made or name in graph.inputs}


def hidden_blocks(hidden: int, order: int | None) -> list[Channels | None]:
    """Channels of the feed-forward that are computed together, [None]: all of them.

    `order`: of the rotations on the NPU. The channels of one (`compiler.lower.block_turn`) stay together.
    """
    if hidden <= MOST_COLUMNS:
        return [None]
    unit = order or next(one for one in (64, 32, 16) if hidden % one == 0)
    units, most = hidden // unit, MOST_COLUMNS // unit
    count = -(-units // most)
    ends = [-(-units * number // count) for number in range(count + 1)]
    every = np.arange(hidden)
    if order is None:
        return [every[first * unit : end * unit] for first, end in pairwise(ends)]
    surfaces = every.reshape(-1, units, LANES)
    return [surfaces[:, first:end].reshape(-1) for first, end in pairwise(ends)]


def head_order(heads: int, size: int, atom: int) -> npt.NDArray[np.int64]:
    """Which number (head * size + at) each channel is: groups of a head's numbers lie `heads` groups apart."""
    return np.arange(heads * size).reshape(heads, size // atom, atom).transpose(1, 0, 2).reshape(-1)
