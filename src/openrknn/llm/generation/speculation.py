"""Drafts: tokens that probably come next, which one forward of the model verifies together.

The model itself chooses every token, with the noise of its position, and a draft is right as far as it proposed the
same. So text and distribution are those without speculation, greedy or sampled; only the number of forwards changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from openrknn.llm.engine import Cache, Engine
from openrknn.llm.generation.prefixes import common_prefix
from openrknn.llm.weights import Floats

__all__ = ["Drafter", "ModelDrafter", "NgramDrafter", "Speculation"]

Pick = Callable[[Floats, int], int]
"""The token that the sampler of the sequence takes after these logits, so many tokens ahead."""


class Drafter(Protocol):
    """Proposes for one sequence."""

    def propose(self, tokens: Sequence[int], most: int, pick: Pick) -> list[int]:
        """Up to `most` tokens that may follow; none where it has no idea."""
        ...

    def close(self) -> None: ...


class NgramDrafter:
    """What followed the last few tokens where they stood before: quotations, code, repeated names."""

    def __init__(self, longest: int = 4, shortest: int = 2) -> None:
        if not 1 <= shortest <= longest:
            raise ValueError("n-grams have 1 token or more")
        self._longest, self._shortest = longest, shortest
        self._places: dict[tuple[int, ...], int] = {}
        """An n-gram -> where it ended last, before the end of the sequence."""
        self._known = 0
        """Tokens of the sequence that were looked at."""

    def propose(self, tokens: Sequence[int], most: int, pick: Pick) -> list[int]:
        del pick
        self._learn(tokens)
        for size in range(min(self._longest, len(tokens) - 1), self._shortest - 1, -1):
            end = self._places.get(tuple(tokens[-size:]))
            if end is not None:
                return list(tokens[end : end + most])
        return []

    def _learn(self, tokens: Sequence[int]) -> None:
        """N-grams that end before the last token; each token is looked at once."""
        if self._known > len(tokens):  # the context was shifted
            self._places, self._known = {}, 0
        for end in range(max(self._known, 1), len(tokens)):
            for size in range(self._shortest, min(self._longest, end) + 1):
                self._places[tuple(tokens[end - size : end])] = end
        self._known = len(tokens)

    def close(self) -> None:
        self._places, self._known = {}, 0


class ModelDrafter:
    """A smaller model with the same vocabulary. It chooses with the noise of the sequence's own sampler."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._cache: Cache | None = None
        self._tokens: list[int] = []

    def propose(self, tokens: Sequence[int], most: int, pick: Pick) -> list[int]:
        room = self._engine.capacity - len(tokens)
        most = min(most, room)
        if most < 1:
            return []
        if self._cache is None:
            self._cache = self._engine.new_cache()
        same = common_prefix(self._tokens, tokens[:-1])
        self._cache.truncate(same)
        logits = self._engine.forward(self._cache, list(tokens[same:]))
        self._tokens = list(tokens)
        found: list[int] = []
        while True:
            found.append(pick(logits[-1], len(found)))
            if len(found) == most:
                return found
            logits = self._engine.forward(self._cache, found[-1:])
            self._tokens.append(found[-1])

    def close(self) -> None:
        if self._cache is not None:
            self._cache.close()
        self._cache, self._tokens = None, []


class Speculation:
    """How drafts are made: a drafter for each sequence, and how many tokens it proposes at a time."""

    def __init__(self, make: Callable[[], Drafter], most: int = 4) -> None:
        if most < 1:
            raise ValueError("a draft has 1 token or more")
        self.make, self.most = make, most

    @classmethod
    def ngrams(cls, most: int = 4) -> Speculation:
        """Without another model."""
        return cls(NgramDrafter, most)

    @classmethod
    def model(cls, engine: Engine, vocabulary: int, most: int = 4) -> Speculation:
        """With a smaller one, whose tokens have to be the same."""
        if engine.config.vocabulary != vocabulary:
            raise ValueError(
                f"the draft model has {engine.config.vocabulary} tokens and the model has {vocabulary}; "
                "speculation needs the same vocabulary"
            )
        return cls(lambda: ModelDrafter(engine), most)
