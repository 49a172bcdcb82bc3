"""`Prefixes`: caches of earlier requests, for prompts that begin as those did."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from openrknn.llm.engine import Cache, Engine

__all__ = ["Prefixes", "common_prefix"]

_COPY_TOKENS = 16
"""A shorter common beginning is computed again: a copy costs memory and time, too."""


def common_prefix(first: Sequence[int], second: Sequence[int]) -> int:
    """How many tokens two sequences begin with."""
    size = min(len(first), len(second))
    if tuple(first[:size]) == tuple(second[:size]):
        return size
    return next(number for number in range(size) if first[number] != second[number])


class Prefixes:
    """Keeps `most` caches whose sequences have ended; those that were used last stay longest."""

    def __init__(self, engine: Engine, most: int) -> None:
        self._engine, self._most = engine, most
        self._kept: list[tuple[tuple[int, ...], Cache]] = []
        """Oldest first."""

    def __len__(self) -> int:
        return len(self._kept)

    def take(self, prompt: Sequence[int], others: Iterable[tuple[Sequence[int], Cache]] = ()) -> tuple[Cache, int]:
        """A cache for a prompt, and how many of its tokens are computed already.

        `others` are caches of sequences that run: what they have in common with the prompt can be copied.
        """
        most = len(prompt) - 1  # the last token is always computed: its logits are wanted
        best, index = 0, -1
        for number, (tokens, _) in enumerate(self._kept):
            size = min(common_prefix(tokens, prompt), most)
            if size >= best:
                best, index = size, number
        running, running_cache = 0, None
        for theirs, cache in others:
            size = min(common_prefix(theirs, prompt), most)
            if size > running:
                running, running_cache = size, cache
        if running_cache is not None and running > best and running >= _COPY_TOKENS:
            return self._copied(running_cache, running), running
        if index < 0 or best == 0:
            return self._engine.new_cache(), 0
        tokens, cache = self._kept[index]
        if len(tokens) - best > _COPY_TOKENS and best >= _COPY_TOKENS and len(self._kept) < self._most:
            self._kept.append(self._kept.pop(index))  # used last
            return self._copied(cache, best), best
        del self._kept[index]
        cache.truncate(best)
        return cache, best

    def holding(self, prompt: Sequence[int]) -> Cache | None:
        """A copy of a cache that has all of a prompt, cut to it; None: there is none."""
        for tokens, cache in reversed(self._kept):
            if common_prefix(tokens, prompt) == len(prompt):
                return self._copied(cache, len(prompt))
        return None

    @staticmethod
    def _copied(cache: Cache, size: int) -> Cache:
        made = cache.copy()
        made.truncate(size)
        return made

    def give(self, tokens: Sequence[int], cache: Cache) -> None:
        """Keep the cache of a sequence that has ended; `tokens` is what is in it."""
        if not tokens or self._most < 1:
            cache.close()
            return
        for number, (kept, old) in enumerate(self._kept):
            if common_prefix(kept, tokens) == len(kept):  # the new one has all of it
                del self._kept[number]
                old.close()
                break
        self._kept.append((tuple(tokens), cache))
        while len(self._kept) > self._most:
            self._kept.pop(0)[1].close()

    def clear(self) -> None:
        """Forget all of them."""
        for _, cache in self._kept:
            cache.close()
        self._kept = []
