"""An engine without weights: logits are a hash of the last tokens, so every text can be computed again by hand."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np

from openrknn.llm.config import LanguageConfig
from openrknn.llm.engine import Cache
from openrknn.llm.weights import Floats

END = 256
PIECES = (b"", *(word.encode() for word in (" the", " cat", " sat", "STOP", "ST", "OP", "\u00e9", "{", '"}')))
SIZE = 256 + len(PIECES)
PADDED = SIZE + 7
"""Logits have more columns than the vocabulary has tokens, as files with padded embeddings do."""


class FakeVocabulary:
    size = SIZE
    end_tokens = frozenset({END})

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def piece(self, token: int) -> bytes:
        return bytes([token]) if token < 256 else PIECES[token - 256]


class FakeCache:
    def __init__(self, engine: FakeEngine, tokens: Sequence[int] = ()) -> None:
        self.engine, self.held = engine, list(tokens)
        self.is_closed = False
        engine.open_caches += 1

    @property
    def tokens(self) -> tuple[int, ...]:
        return tuple(self.held)

    def truncate(self, length: int) -> None:
        assert not self.is_closed
        assert length <= len(self.held)
        del self.held[length:]

    def copy(self) -> FakeCache:
        return FakeCache(self.engine, self.held)

    def close(self) -> None:
        assert not self.is_closed
        self.is_closed = True
        self.engine.open_caches -= 1


class FakeEngine:
    """`order`: how many of the last tokens decide; with 1 or 2 texts repeat themselves, which drafts can use."""

    def __init__(self, capacity: int = 512, *, order: int = 3, ends: bool = True, salt: int = 0) -> None:
        self.capacity, self._order, self._ends, self._salt = capacity, order, ends, salt
        self.config = LanguageConfig("fake", PADDED, 8, 1, 1, 1, 8, 8, capacity)
        self.open_caches = 0
        self.forwards: list[int] = []
        """Tokens of each call."""
        self.is_closed = False

    def new_cache(self) -> FakeCache:
        return FakeCache(self)

    def logits(self, tokens: Sequence[int]) -> Floats:
        tail = np.asarray(tokens[-self._order :], np.int64).tobytes()
        random = np.random.default_rng(zlib.crc32(tail, self._salt))
        row = random.normal(0, 2, PADDED).astype(np.float32)
        row[SIZE:] = 50  # columns of no token: nobody may choose them
        row[[*range(32), *range(127, 256)]] -= 6  # mostly readable
        row[END] += 0.5 if self._ends else -100
        return row

    def forward(self, cache: Cache, tokens: Sequence[int], *, all_logits: bool = False) -> Floats:
        assert isinstance(cache, FakeCache)
        assert not cache.is_closed
        assert 0 < len(tokens) <= self.capacity - len(cache.held)
        self.forwards.append(len(tokens))
        rows = []
        for token in tokens:
            cache.held.append(token)
            rows.append(self.logits(cache.held))
        return np.stack(rows if all_logits else rows[-1:])

    def forward_batch(self, caches: Sequence[Cache], tokens: Sequence[int]) -> Floats:
        assert len({id(cache) for cache in caches}) == len(caches)
        rows = [self.forward(cache, [token])[0] for cache, token in zip(caches, tokens, strict=True)]
        self.forwards[-len(rows) :] = [len(rows)]
        return np.stack(rows)

    def close(self) -> None:
        self.is_closed = True


def by_hand(engine: FakeEngine, prompt: Sequence[int], count: int) -> list[int]:
    """Greedy tokens, computed without any of the code under test."""
    tokens = list(prompt)
    for _ in range(count):
        best = int(np.argmax(engine.logits(tokens)[:SIZE]))
        if best == END:
            break
        tokens.append(best)
    return tokens[len(prompt) :]
