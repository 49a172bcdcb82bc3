"""What computes logits: the float reference, or the NPU. Generation and servers depend on this interface alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from openrknn.llm.config import LanguageConfig
from openrknn.llm.weights import Floats


class Cache(Protocol):
    """The keys and values of one sequence. It belongs to the engine that made it."""

    @property
    def tokens(self) -> tuple[int, ...]:
        """What was computed so far, in order."""
        ...

    def truncate(self, length: int) -> None:
        """Forget all tokens from position `length` on: a rejected draft, or another continuation of a prefix."""
        ...

    def copy(self) -> Cache:
        """A second sequence with the same past."""
        ...

    def close(self) -> None: ...


class Engine(Protocol):
    """One model that is ready to run. One thread at a time."""

    @property
    def config(self) -> LanguageConfig: ...

    @property
    def capacity(self) -> int:
        """Tokens that a cache can hold."""
        ...

    def new_cache(self) -> Cache: ...

    def forward(self, cache: Cache, tokens: Sequence[int], *, all_logits: bool = False) -> Floats:
        """Append `tokens` to the sequence; return the logits after the last one, [1, vocabulary], or after each.

        Raises `CacheFullError` before anything is computed if they do not fit.
        """
        ...

    def forward_batch(self, caches: Sequence[Cache], tokens: Sequence[int]) -> Floats:
        """One token for each of several sequences; the logits after each, [len(caches), vocabulary]."""
        ...

    def close(self) -> None: ...
