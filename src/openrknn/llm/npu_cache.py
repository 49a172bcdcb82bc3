"""`NpuCache`: a sequence of `NpuEngine`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from openrknn.llm.resident import Half, Parked
from openrknn.runtime.errors import ClosedError

__all__ = ["NpuCache"]


class Holder(Protocol):
    """The engine of a cache."""

    def parked_of(self, cache: NpuCache) -> Parked | None:
        """A copy of what it holds, in the layout of the device."""

    def forget(self, cache: NpuCache) -> None:
        """Its place is free."""


class NpuCache:
    """Keys and values of one sequence: in the memory of the NPU, or here until it is used again."""

    def __init__(
        self, engine: Holder, tokens: Sequence[int] = (), rows: Half | None = None, parked: Parked | None = None,
        behind: Sequence[NpuCache] = (),
    ) -> None:  # fmt: skip
        self._engine: Holder | None = engine
        self._behind = tuple(behind)
        """Of the same sequence, in further parts of the model."""
        self._tokens = list(tokens)
        self._rows = rows
        """[layers, 2, kv_heads, tokens, size], of a cache that was restored."""
        self._parked = parked
        """In the layout of the device. Neither: they are on the device, or there are none."""

    @property
    def tokens(self) -> tuple[int, ...]:
        return tuple(self._tokens)

    def truncate(self, length: int) -> None:
        """Forget what is behind `length` tokens; nothing is copied."""
        if not 0 <= length <= len(self._tokens):
            raise ValueError(f"{length} tokens of {len(self._tokens)} cannot be kept")
        del self._tokens[length:]
        if self._rows is not None:
            self._rows = self._rows[:, :, :, :length]
        for one in self._behind:
            one.truncate(length)

    def copy(self) -> NpuCache:
        engine = self._engine
        if engine is None:
            raise ClosedError("this cache is closed; ask the engine for another one")
        behind = [one.copy() for one in self._behind]
        return NpuCache(engine, self._tokens, self._rows, engine.parked_of(self), behind)

    def close(self) -> None:
        if self._engine is not None:
            self._engine.forget(self)
        self._engine, self._rows, self._parked = None, None, None
        self._tokens.clear()
        for one in self._behind:
            one.close()
