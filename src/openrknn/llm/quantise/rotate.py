"""Rotations folded into the weights: the same model in float, with activations that int8 can hold.

Three of them, each undone by the product behind it:

    residual   the stream between layers is x Q. The weights of the RMS norms move into the products behind them first,
               because a norm without weights does not see a rotation.
    heads      values of each head are v R; `o` takes R back. Queries and keys stay: rope does not commute with R.
    hidden     what `down` reads is h H. This one is not free: an activation stands before it, so H is computed at run
               time, in blocks (`hadamard.turn_blocks`). `RotatedSource.online` has their order.

Biases of the products that write into the stream turn with it. A tied head becomes a head of its own: the weights of
the final norm are in it, and not in the embedding.

A stream with norms behind its parts (Gemma 2 and 3) cannot be rotated, because these weight single channels. The other
two rotations stay. Norms keep their weights then: trained ones are small where the stream is large, so that what they
give has even channels, and products with these weights in them would not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from openrknn.errors import UnsupportedError
from openrknn.llm.config import LanguageConfig
from openrknn.llm.quantise.hadamard import block_order, rotation, turn_blocks
from openrknn.llm.weights import Floats, WeightSource

_FOLDED = {"q": "attention_norm", "k": "attention_norm", "v": "attention_norm", "gate": "ffn_norm", "up": "ffn_norm"}
_STREAM = {"embedding", "positions", "types"}
"""Tables whose rows are added up to the stream."""


def check_rotatable(config: LanguageConfig) -> None:
    """Raise `UnsupportedError` with the name of what a rotation of the stream would change."""
    reason = None
    if config.norm != "rms":
        reason = "layer norms subtract the mean of the channels, which a rotation moves"
    elif config.post_norms:
        reason = "norms behind attention and feed-forward (post norms) weight single channels of the stream"
    elif not config.norm_first:
        reason = "norms behind each addition weight single channels of the stream"
    if reason:
        raise UnsupportedError(
            f"the stream of {config.architecture!r} cannot be rotated: {reason}. Quantise it without rotation"
        )


class TurnedSource:
    """A source of the same model with values of heads and what `down` reads rotated, but not the stream."""

    def __init__(self, source: WeightSource, *, heads: bool = True, hidden: bool = False) -> None:
        self._source, self.config = source, source.config
        self._head = rotation(self.config.head_size).astype(np.float32) if heads else None
        self._hidden = block_order(self.config.hidden) if hidden else None
        if hidden and self._hidden is None:
            raise UnsupportedError(
                f"{self.config.hidden} channels before `down` have no blocks to rotate: multiples of 8 with a Hadamard "
                "matrix. Quantise without the rotation of hidden channels"
            )

    @property
    def online(self) -> dict[str, int]:
        """Products whose input is rotated at run time: kind -> order of the blocks."""
        return {} if self._hidden is None else {"down": self._hidden}

    def names(self) -> Iterable[str]:
        return self._source.names()

    def get(self, name: str) -> Floats:
        found = self._source.get(name)
        if name.endswith(".v"):
            return self._by_head(found)
        if name.endswith(".v.bias"):
            return self._by_head(found[:, None])[:, 0]
        if name.endswith(".o"):
            return self._by_head(found.T).T
        if name.endswith(".down") and self._hidden is not None:
            return turn_blocks(found, self._hidden)
        return found

    def rows(self, name: str, first: int, count: int) -> Floats:
        if name.startswith("layers."):
            return self.get(name)[first : first + count]
        return self._source.rows(name, first, count)

    def _by_head(self, columns: Floats) -> Floats:
        """R.T times each head of [heads * head_size, ...]."""
        if self._head is None:
            return columns
        parts = columns.reshape(-1, self.config.head_size, columns.shape[1])
        return np.asarray(self._head.T @ parts).reshape(columns.shape)


class RotatedSource:
    """A source of the same model with all rotations folded in; each tensor is made when it is asked for."""

    def __init__(self, source: WeightSource, *, heads: bool = True, hidden: bool = False) -> None:
        check_rotatable(source.config)
        self._source = TurnedSource(source, heads=heads, hidden=hidden)
        self._names = tuple(source.names())
        self._known = frozenset(self._names)
        self.config = replace(source.config, tied_head=False)
        self._stream = rotation(self.config.width).astype(np.float32)

    @property
    def online(self) -> dict[str, int]:
        """Products whose input is rotated at run time: kind -> order of the blocks."""
        return self._source.online

    def names(self) -> Iterable[str]:
        return self._names if "head" in self._known else (*self._names, "head")

    def get(self, name: str) -> Floats:
        if name == "head":
            return self.rows(name, 0, self.config.vocabulary)
        found = self._source.get(name)
        prefix, _, kind = name.rpartition(".")
        if name in _STREAM or name.endswith((".o.bias", ".down.bias")):
            return found @ self._stream
        if kind.endswith("_norm") and kind not in {"q_norm", "k_norm"}:
            return np.ones_like(found)
        if kind in _FOLDED:
            return _weighted(found, self._source.get(f"{prefix}.{_FOLDED[kind]}")) @ self._stream
        return self._stream.T @ found if kind in {"o", "down"} else found

    def rows(self, name: str, first: int, count: int) -> Floats:
        if name in _STREAM:
            return self._source.rows(name, first, count) @ self._stream
        if name == "head":
            stored = "head" if "head" in self._known else "embedding"
            return _weighted(self._source.rows(stored, first, count), self._source.get("final_norm")) @ self._stream
        return self.get(name)[first : first + count]


def _weighted(matrix: Floats, norm: Floats) -> Floats:
    """With the weights of the norm before it."""
    result: Floats = matrix * norm
    return result
