"""`Scheduler`: several sequences through one engine, a step at a time."""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Sequence

import numpy as np

from openrknn.errors import RknnError
from openrknn.llm.engine import Engine
from openrknn.llm.errors import NumberRangeError
from openrknn.llm.generation.constraint import Constraints
from openrknn.llm.generation.errors import ContextFullError, PromptError
from openrknn.llm.generation.events import Event
from openrknn.llm.generation.prefixes import Prefixes, common_prefix
from openrknn.llm.generation.request import Request
from openrknn.llm.generation.running import Running
from openrknn.llm.generation.speculation import Speculation
from openrknn.llm.generation.vocabulary import Vocabulary
from openrknn.llm.weights import Floats

__all__ = ["Scheduler"]

Outcome = Event | RknnError


class Scheduler:
    """A step computes one piece of one prompt and one token of every sequence that is past its prompt.

    Requests do not wait for each other to end: a request is admitted as soon as one of `most_sequences` places is free.
    One thread at a time.
    """

    def __init__(
        self,
        engine: Engine,
        vocabulary: Vocabulary,
        *,
        most_sequences: int = 8,
        kept_prefixes: int = 4,
        chunk: int = 128,
        speculation: Speculation | None = None,
    ) -> None:
        if most_sequences < 1 or chunk < 1 or kept_prefixes < 0:
            raise ValueError("most_sequences and chunk are 1 or more, kept_prefixes 0 or more")
        self.engine, self.vocabulary = engine, vocabulary
        self.prefixes = Prefixes(engine, kept_prefixes)
        self._constraints = Constraints(vocabulary)
        self._most, self._chunk, self._speculation = most_sequences, chunk, speculation
        self._waiting: deque[Running] = deque()
        self._running: list[Running] = []
        self._numbers = itertools.count(1)

    # -- requests ------------------------------------------------------------------------------------------------

    def add(self, prompt: Sequence[int], request: Request) -> int:
        """Queue a request; its number. What cannot be done is said here, before anything is computed."""
        self._check(prompt, request)
        follower = self._constraints.follow(request.constraint) if request.constraint is not None else None
        one = Running(next(self._numbers), prompt, request, self.vocabulary, follower)
        self._waiting.append(one)
        return one.number

    def cancel(self, number: int) -> list[tuple[int, Outcome]]:
        """End a request before its next token; its last event, or nothing if it has ended."""
        for one in (*self._running, *self._waiting):
            if one.number == number:
                events = one.end("cancelled")
                self._remove(one)
                return [(number, event) for event in events]
        return []

    @property
    def waiting(self) -> int:
        """Requests without a place."""
        return len(self._waiting)

    @property
    def running(self) -> int:
        """Requests that have one."""
        return len(self._running)

    @property
    def is_idle(self) -> bool:
        """There is nothing to do."""
        return not self._running and not self._waiting

    def _check(self, prompt: Sequence[int], request: Request) -> None:
        if not prompt:
            raise PromptError("the prompt is empty; give at least one token")
        size = self.engine.config.vocabulary
        wrong = next((token for token in prompt if not 0 <= token < size), None)
        if wrong is not None:
            raise PromptError(f"token {wrong} is not in the vocabulary of {size} tokens")
        capacity = self.engine.capacity
        if len(prompt) > capacity:
            raise ContextFullError(
                f"the prompt has {len(prompt)} tokens and the context holds {capacity}; shorten the prompt"
            )
        if request.shift and request.keep >= capacity:
            raise ContextFullError(f"keep is {request.keep} tokens and the context holds {capacity}")

    # -- a step --------------------------------------------------------------------------------------------------

    def step(self) -> list[tuple[int, Outcome]]:
        """Compute a little of everything; what came of it, by the number of the request."""
        self._admit()
        ready = [one for one in self._running if not one.is_prefilling]
        found = self._prefill()
        found += self._decode(ready)
        for one in [one for one in self._running if one.finish is not None]:
            self._remove(one)
        return found

    def _admit(self) -> None:
        while self._waiting and len(self._running) < self._most:
            one = self._waiting[0]
            # A prompt that is being computed right now: its cache can be copied in a moment.
            if any(
                other.is_prefilling and common_prefix(other.context, one.context) >= other.cached + self._chunk
                for other in self._running
            ):
                return
            self._waiting.popleft()
            others = [
                (other.context[: other.cached], other.cache) for other in self._running if other.cache is not None
            ]
            one.cache, one.cached = self.prefixes.take(one.context, others)
            one.statistics.reused_tokens = one.cached
            one.drafter = self._speculation.make() if self._speculation is not None else None
            self._running.append(one)

    def _prefill(self) -> list[tuple[int, Outcome]]:
        """A piece of the oldest prompt that is not computed yet."""
        one = next((one for one in self._running if one.is_prefilling), None)
        if one is None:
            return []
        assert one.cache is not None
        started = time.perf_counter()
        piece = one.context[one.cached : one.cached + self._chunk]
        try:
            logits = self.engine.forward(one.cache, piece)
        except NumberRangeError as error:
            return self._failed(one, one.cached, error)
        one.cached += len(piece)
        one.statistics.prompt_seconds += time.perf_counter() - started
        if one.cached < len(one.context):
            return []
        return self._taken(one, logits[-1:], [])

    def _decode(self, ready: list[Running]) -> list[tuple[int, Outcome]]:
        """One token of each, or more where a draft is right. Drafts are for a sequence alone: others fill a batch."""
        if not ready:
            return []
        if len(ready) == 1:
            one = ready[0]
            assert one.cache is not None
            drafts = self._drafts(one)
            try:
                logits = self.engine.forward(one.cache, [one.context[-1], *drafts], all_logits=bool(drafts))
            except NumberRangeError as error:
                return self._failed(one, len(one.context) - 1, error)
            return self._taken(one, np.atleast_2d(logits), drafts)
        caches = [one.cache for one in ready if one.cache is not None]
        rows = self.engine.forward_batch(caches, [one.context[-1] for one in ready])
        return [found for one, row in zip(ready, rows, strict=True) for found in self._taken(one, row[None], [])]

    def _drafts(self, one: Running) -> list[int]:
        if self._speculation is None or one.drafter is None:
            return []
        most = min(self._speculation.most, self.engine.capacity - len(one.context))
        if one.tokens_left is not None:
            most = min(most, one.tokens_left - 1)
        if most < 1:
            return []
        drafts = one.drafter.propose(one.context, most, one.pick)[:most]
        one.statistics.drafted_tokens += len(drafts)
        return drafts

    def _taken(self, one: Running, logits: Floats, drafts: list[int]) -> list[tuple[int, Outcome]]:
        """Choose, and let the cache hold what was chosen."""
        assert one.cache is not None
        before = len(one.context)
        try:
            events = one.take(logits, drafts)
        except (RknnError, ValueError) as error:
            one.context = one.context[:before]
            return self._failed(one, before, error if isinstance(error, RknnError) else PromptError(str(error)))
        # All but the newest token, which is computed next; after the end, all of them if they were.
        one.cached = min(before + len(drafts), len(one.context) - (len(one.context) > before))
        if one.cached < before + len(drafts):
            one.cache.truncate(one.cached)
        if one.finish is None and len(one.context) > self.engine.capacity:
            if one.request.shift:
                one.shift(self.engine.capacity)
                one.cache.truncate(0)
            else:
                events += one.end("length")
        return [(one.number, event) for event in events]

    def _failed(self, one: Running, good: int, error: RknnError) -> list[tuple[int, Outcome]]:
        """This request ends; the others go on. `good`: tokens that its cache keeps."""
        assert one.cache is not None
        one.finish = "stop"
        one.cache.truncate(good)
        one.cached = good
        return [(one.number, error)]

    def _remove(self, one: Running) -> None:
        if one in self._running:
            self._running.remove(one)
        else:
            self._waiting.remove(one)
        if one.drafter is not None:
            one.drafter.close()
        if one.cache is not None:
            self.prefixes.give(one.context[: one.cached], one.cache)
            one.cache = None

    def close(self) -> None:
        """Give back everything that requests hold. The engine stays open."""
        for one in (*self._running, *self._waiting):
            if one.drafter is not None:
                one.drafter.close()
            if one.cache is not None:
                one.cache.close()
        self._running, self._waiting = [], deque()
        self.prefixes.clear()
