"""Float32 language models in NumPy: what the compiler, the quantiser and the generator are compared with.

Written to be read. Each step is a formula on [tokens, numbers]; the weights are those of a `WeightSource`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import numpy as np
import numpy.typing as npt

from openrknn.errors import UnsupportedError
from openrknn.llm.config import Activation, LanguageConfig
from openrknn.llm.engine import Cache
from openrknn.llm.errors import CacheFullError
from openrknn.llm.weights import Floats, WeightSource

Positions = npt.NDArray[np.intp]

_HALF = np.float32(0.5)
_GELU = math.sqrt(2 / math.pi)


class ReferenceCache:
    """Keys and values of one sequence, for each layer [kv_heads, tokens, head_size]; keys are rotated already."""

    def __init__(self, config: LanguageConfig) -> None:
        empty = np.zeros((config.kv_heads, 0, config.head_size), np.float32)
        self._tokens: tuple[int, ...] = ()
        self.keys: list[Floats] = [empty] * config.layers
        self.values: list[Floats] = [empty] * config.layers

    @property
    def tokens(self) -> tuple[int, ...]:
        return self._tokens

    def append(self, tokens: Sequence[int]) -> None:
        self._tokens += tuple(tokens)

    def truncate(self, length: int) -> None:
        if not 0 <= length <= len(self._tokens):
            raise ValueError(f"a cache of {len(self._tokens)} tokens cannot be cut to {length}")
        self._tokens = self._tokens[:length]
        self.keys = [keys[:, :length] for keys in self.keys]
        self.values = [values[:, :length] for values in self.values]

    def copy(self) -> ReferenceCache:
        # Arrays are replaced and never written to, so that copies can share them.
        other = ReferenceCache.__new__(ReferenceCache)
        other._tokens, other.keys, other.values = self._tokens, list(self.keys), list(self.values)
        return other

    def close(self) -> None:
        self._tokens, self.keys, self.values = (), [], []


class ReferenceEngine:
    """An `Engine` in float32. Weights stay in memory once they were used; with `keep=False` each is read again."""

    def __init__(self, source: WeightSource, *, capacity: int | None = None, keep: bool = True) -> None:
        self._model = Transformer(source, keep=keep)
        self._capacity = min(capacity or self.config.context, self.config.context)

    @property
    def config(self) -> LanguageConfig:
        return self._model.config

    @property
    def capacity(self) -> int:
        return self._capacity

    def new_cache(self) -> ReferenceCache:
        return ReferenceCache(self.config)

    def forward(self, cache: Cache, tokens: Sequence[int], *, all_logits: bool = False) -> Floats:
        if not tokens:
            raise ValueError("no tokens to compute")
        if not self.config.causal:
            raise UnsupportedError(f"a {self.config.architecture} model makes embeddings and no text: use `embed`")
        past = cast("ReferenceCache", cache)
        if len(past.tokens) + len(tokens) > self._capacity:
            raise CacheFullError(
                f"{len(past.tokens)} tokens and {len(tokens)} new ones are more than the {self._capacity} that fit"
            )
        x = self._model.hidden_states(past, tokens)
        return self._model.logits(x if all_logits else x[-1:])

    def forward_batch(self, caches: Sequence[Cache], tokens: Sequence[int]) -> Floats:
        return np.concatenate([self.forward(cache, [token]) for cache, token in zip(caches, tokens, strict=True)])

    def rows_of(self, cache: Cache) -> Floats:
        """A copy of a sequence's keys and values: [layers, 2, kv_heads, tokens, head_size]."""
        past = cast("ReferenceCache", cache)
        return np.stack([np.stack(pair) for pair in zip(past.keys, past.values, strict=True)])

    def restore(self, tokens: Sequence[int], rows: Floats) -> ReferenceCache:
        """A sequence with keys and values as `rows_of` gave them."""
        made = ReferenceCache(self.config)
        made.append(tokens)
        made.keys = [one[0].astype(np.float32) for one in rows]
        made.values = [one[1].astype(np.float32) for one in rows]
        return made

    def hidden(self, tokens: Sequence[int]) -> Floats:
        """Rows of the last layer of a text, after its norm, [tokens, width]: what embeddings are pooled from."""
        if not tokens:
            raise ValueError("no tokens to compute")
        rows = self._model.hidden_states(ReferenceCache(self.config), tokens)
        return self._model.norm("final_norm", rows) if self.config.norm_first else rows

    def close(self) -> None:
        self._model.forget()


def embed(source: WeightSource, tokens: Sequence[int], *, normalise: bool = True) -> Floats:
    """One vector [width] for a text, pooled as the model's file says ("none": the mean); of length 1 if normalised."""
    config = source.config
    if not tokens:
        raise ValueError("no tokens to compute")
    if len(tokens) > config.context:
        raise CacheFullError(f"{len(tokens)} tokens are more than the {config.context} that the model was trained for")
    model = Transformer(source, keep=False)
    x = model.hidden_states(ReferenceCache(config), tokens)
    if config.norm_first:
        x = model.norm("final_norm", x)
    return pool(config, x, normalise=normalise)


def pool(config: LanguageConfig, x: Floats, *, normalise: bool = True) -> Floats:
    """Rows [tokens, width] as one vector."""
    pooled: Floats = {"cls": x[0], "last": x[-1]}.get(config.pooling, x.mean(axis=0))
    return pooled / np.float32(max(float(np.linalg.norm(pooled)), 1e-12)) if normalise else pooled


class Transformer:
    """The formulas. Names of weights are canonical; biases may be missing."""

    def __init__(self, source: WeightSource, *, keep: bool) -> None:
        self.config = source.config
        self._source, self._keep = source, keep
        self._names = frozenset(source.names())
        self._kept: dict[str, Floats] = {}

    def weight(self, name: str) -> Floats:
        if name in self._kept:
            return self._kept[name]
        found = self._source.get(name)
        if self._keep:
            self._kept[name] = found
        return found

    def forget(self) -> None:
        self._kept.clear()

    def hidden_states(self, cache: ReferenceCache, tokens: Sequence[int]) -> Floats:
        """What the last layer gives for each token, [tokens, width], before the final norm; the cache grows."""
        config = self.config
        outside = [token for token in tokens if not 0 <= token < config.vocabulary]
        if outside:
            raise ValueError(f"token {outside[0]} is not in the vocabulary of {config.vocabulary}")
        first = len(cache.tokens)
        positions = np.arange(first, first + len(tokens))
        x = self.rows("embedding", tokens) * np.float32(config.embedding_scale)
        if "positions" in self._names:
            x = x + self.rows("positions", positions.tolist())
        if "types" in self._names:
            x = x + self.rows("types", [0])
        if "embedding_norm" in self._names:
            x = self.norm("embedding_norm", x)
        for layer in range(config.layers):
            x = self.layer(layer, x, cache, positions)
        cache.append(tokens)
        return x

    def layer(self, layer: int, x: Floats, cache: ReferenceCache, positions: Positions) -> Floats:
        name = f"layers.{layer}."
        if not self.config.norm_first:
            x = self.norm(name + "attention_norm", x + self.attention(layer, x, cache, positions))
            return self.norm(name + "ffn_norm", x + self.feed_forward(name, x))
        scale = np.float32(self.config.residual_scale)
        attended = self.attention(layer, self.norm(name + "attention_norm", x), cache, positions)
        if self.config.post_norms:
            attended = self.norm(name + "attention_post_norm", attended)
        x = x + scale * attended
        fed = self.feed_forward(name, self.norm(name + "ffn_norm", x))
        if self.config.post_norms:
            fed = self.norm(name + "ffn_post_norm", fed)
        return x + scale * fed

    def scores(self, x: Floats) -> Floats:
        """The head before its scale and soft cap: [rows, vocabulary]."""
        x = self.norm("final_norm", x)
        result = self.product("embedding" if self.config.tied_head else "head", x)
        return result + self.weight("head.bias") if "head.bias" in self._names else result

    def logits(self, x: Floats) -> Floats:
        """The head: [rows, vocabulary]."""
        result = self.scores(x)
        return softcap(result * np.float32(self.config.logit_scale), self.config.logit_softcap)

    def rows(self, name: str, rows: Sequence[int]) -> Floats:
        """A few rows of a table; the rest of it is not read."""
        if name in self._kept:
            return self._kept[name][list(rows)]
        return np.concatenate([self._source.rows(name, row, 1) for row in rows])

    def product(self, name: str, x: Floats) -> Floats:
        """What all products with weights are; those of a quantised model are others."""
        result: Floats = x @ self.weight(name).T
        return result

    def linear(self, name: str, x: Floats) -> Floats:
        result = self.product(name, x)
        return result + self.weight(f"{name}.bias") if f"{name}.bias" in self._names else result

    def norm(self, name: str, x: Floats) -> Floats:
        """Over the last axis: RMS norm, or layer norm with a bias."""
        if self.config.norm == "layer":
            x = x - x.mean(axis=-1, keepdims=True)
        variance = np.mean(np.square(x), axis=-1, keepdims=True, dtype=np.float64)
        normed = (x / np.sqrt(variance + self.config.norm_epsilon)).astype(np.float32) * self.weight(name)
        return normed + self.weight(f"{name}.bias") if f"{name}.bias" in self._names else normed

    def attention(self, layer: int, x: Floats, cache: ReferenceCache, positions: Positions) -> Floats:
        """Grouped heads: heads / kv_heads queries share the keys and values of one head."""
        config, name = self.config, f"layers.{layer}."
        count, size = len(x), config.head_size

        def heads_of(part: str, heads: int) -> Floats:
            return self.linear(name + part, x).reshape(count, heads, size).transpose(1, 0, 2)

        q, k, v = heads_of("q", config.heads), heads_of("k", config.kv_heads), heads_of("v", config.kv_heads)
        if config.query_key_norm:
            q, k = self.norm(name + "q_norm", q), self.norm(name + "k_norm", k)
        if config.rope is not None:
            q, k = rotate(config, layer, q, positions), rotate(config, layer, k, positions)
        cache.keys[layer] = keys = np.concatenate([cache.keys[layer], k], axis=1)
        cache.values[layer] = values = np.concatenate([cache.values[layer], v], axis=1)
        group = config.heads // config.kv_heads
        scores = q @ np.repeat(keys, group, axis=0).transpose(0, 2, 1) * np.float32(config.score_scale())
        scores = softcap(scores, config.attention_softcap)
        scores = np.where(visible(config, layer, positions, keys.shape[1]), scores, np.float32(-np.inf))
        mixed = softmax(scores) @ np.repeat(values, group, axis=0)
        return self.linear(name + "o", mixed.transpose(1, 0, 2).reshape(count, config.heads * size))

    def feed_forward(self, name: str, x: Floats) -> Floats:
        up = self.linear(name + "up", x)
        if self.config.gated:
            return self.linear(name + "down", activate(self.config.activation, self.linear(name + "gate", x)) * up)
        return self.linear(name + "down", activate(self.config.activation, up))


def visible(config: LanguageConfig, layer: int, positions: Positions, keys: int) -> npt.NDArray[np.bool_]:
    """Which key each token sees, [tokens, keys]."""
    distance = positions[:, None] - np.arange(keys)
    seen = distance >= 0 if config.causal else np.ones_like(distance, bool)
    window = config.window_of(layer)
    if window is not None:
        seen = seen & (np.abs(distance) < window)
    return seen


def rotate(config: LanguageConfig, layer: int, x: Floats, positions: Positions) -> Floats:
    """Number i of a head with number i + size / 2, by an angle that grows with the position."""
    rope = config.rope
    if rope is None:
        return x
    half = rope.size // 2
    angles = positions[:, None] * np.array(config.rope_frequencies(layer))
    cosine, sine = (np.cos(angles) * rope.scale).astype(np.float32), (np.sin(angles) * rope.scale).astype(np.float32)
    low, high, rest = x[..., :half], x[..., half : rope.size], x[..., rope.size :]
    return np.concatenate([low * cosine - high * sine, high * cosine + low * sine, rest], axis=-1)


def activate(kind: Activation, x: Floats) -> Floats:
    """The function between the two products of the feed-forward part."""
    share: Floats
    if kind == "silu":
        share = np.reciprocal(1 + np.exp(-np.clip(x, np.float32(-80), np.float32(80))))
    elif kind == "gelu_tanh":
        share = _HALF * (1 + np.tanh(np.float32(_GELU) * (x + np.float32(0.044715) * x**3)))
    else:
        share = _HALF * (1 + _erf(x * np.float32(math.sqrt(0.5))))
    return x * share


def _erf(x: Floats) -> Floats:
    # NumPy has none.
    return np.array([math.erf(value) for value in x.ravel().tolist()], np.float32).reshape(x.shape)


def softcap(x: Floats, cap: float | None) -> Floats:
    """Numbers far from 0 are brought below `cap`; None: as they are."""
    return x if cap is None else np.float32(cap) * np.tanh(x / np.float32(cap))


def softmax(x: Floats) -> Floats:
    """Over the last axis."""
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    result: Floats = e / e.sum(axis=-1, keepdims=True)
    return result
