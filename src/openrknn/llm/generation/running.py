"""`Running`: one sequence while it is generated."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

from openrknn.llm.engine import Cache
from openrknn.llm.generation.constraint import Follower
from openrknn.llm.generation.events import Event, FinishReason, Statistics
from openrknn.llm.generation.request import Request
from openrknn.llm.generation.sampling import Choice, Sampler
from openrknn.llm.generation.speculation import Drafter
from openrknn.llm.generation.textstream import TextStream
from openrknn.llm.generation.vocabulary import Vocabulary
from openrknn.llm.weights import Floats

__all__ = ["Running"]


class Running:
    """What is known of it. The scheduler computes; this decides what the logits mean."""

    def __init__(
        self, number: int, prompt: Sequence[int], request: Request, vocabulary: Vocabulary, follower: Follower | None
    ) -> None:
        self.number, self.request = number, request
        self.context = list(prompt)
        """What the model sees, the newest token last."""
        self.cache: Cache | None = None
        self.cached = 0
        """Tokens of the context that are in the cache."""
        self.drafter: Drafter | None = None
        self.statistics = Statistics(prompt_tokens=len(prompt))
        self.finish: FinishReason | None = None
        self._vocabulary, self._follower = vocabulary, follower
        self._text = TextStream(request.stop)
        self._sampler = Sampler(request.sampling)
        self._generated: Counter[int] = Counter()
        self._ends = request.stop_tokens | (frozenset() if request.ignore_end else vocabulary.end_tokens)
        self._started = time.perf_counter()

    @property
    def is_prefilling(self) -> bool:
        """More than the newest token has to be computed."""
        return len(self.context) - self.cached > 1 or not self.statistics.generated_tokens

    @property
    def tokens_left(self) -> int | None:
        """That may still be generated; None: no limit."""
        most = self.request.max_tokens
        return None if most is None else most - self.statistics.generated_tokens

    def pick(self, logits: Floats, ahead: int) -> int:
        """What a draft would take so many tokens ahead: this sequence's own noise, without penalties and grammar."""
        return self._sampler.choose(logits[: self._vocabulary.size], self.statistics.generated_tokens + ahead).token

    def take(self, logits: Floats, drafts: Sequence[int]) -> list[Event]:
        """Choose after each row of logits for as long as the drafts were right. Row 0 belongs to the newest token."""
        events: list[Event] = []
        for row, draft in zip(logits, (*drafts, None), strict=True):
            choice = self._choose(row)
            events += self._append(choice)
            if self.finish is not None or draft is None:
                break
            if choice.token != draft:
                break
            self.statistics.accepted_tokens += 1
        return events

    def _choose(self, logits: Floats) -> Choice:
        row = logits[: self._vocabulary.size]
        mask = self._follower.mask(len(row)) if self._follower is not None else None
        return self._sampler.choose(
            row, self.statistics.generated_tokens, context=self.context, generated=self._generated, mask=mask,
            logprobs=self.request.logprobs,
        )  # fmt: skip

    def _append(self, choice: Choice) -> list[Event]:
        numbers, token = self.statistics, choice.token
        numbers.generated_tokens += 1
        if numbers.generated_tokens == 1:
            numbers.first_seconds = time.perf_counter() - self._started
        if token in self._ends:
            return self.end("stop")
        self.context.append(token)
        self._generated[token] += 1
        if self._follower is not None:
            self._follower.accept(token)
        text = self._text.feed(self._vocabulary.piece(token))
        events = [Event(text, token, choice.logprob, choice.top, statistics=numbers)]
        if self._text.stopped is not None or (self._follower is not None and self._follower.is_done):
            return events + self.end("stop")
        if self.tokens_left == 0:
            return events + self.end("length")
        return events

    def end(self, reason: FinishReason) -> list[Event]:
        """The last event, with text that was kept back."""
        self.finish = reason
        self.statistics.total_seconds = time.perf_counter() - self._started
        return [Event(self._text.finish(), finish=reason, stop=self._text.stopped, statistics=self.statistics)]

    def shift(self, capacity: int) -> None:
        """Drop the older half of what is not kept. What is left is computed again: positions have changed."""
        keep = min(self.request.keep, capacity // 2)
        rest = self.context[keep:]
        self.context = self.context[:keep] + rest[len(rest) - max(1, (capacity - keep) // 2) :]
        self.cached = 0
        self.statistics.shifts += 1
