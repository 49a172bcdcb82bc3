"""Numbers about one language model. Written and read by the server's loop only."""

from __future__ import annotations

import time
from collections import Counter, deque
from dataclasses import dataclass, field

from openrknn.llm.generation.events import Statistics
from openrknn.serve.plane.stats import Histogram

__all__ = ["LanguageStats"]

_RECENT_SECONDS = 10.0


@dataclass(slots=True)
class LanguageStats:
    """How requests went."""

    successes: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    """By the code of the error."""
    prompt_tokens: int = 0
    reused_tokens: int = 0
    generated_tokens: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    first_seconds: Histogram = field(default_factory=Histogram)
    """From a request to its first token, waiting included."""
    token_seconds: Histogram = field(default_factory=Histogram)
    """Between two tokens of one request, on average over it."""
    _recent: deque[float] = field(default_factory=deque)

    def token(self) -> None:
        """One came."""
        now = time.monotonic()
        self._recent.append(now)
        self._forget(now)

    @property
    def tokens_per_second(self) -> float:
        """Of all requests together, over the last seconds."""
        now = time.monotonic()
        self._forget(now)
        return len(self._recent) / _RECENT_SECONDS

    def _forget(self, now: float) -> None:
        while self._recent and self._recent[0] < now - _RECENT_SECONDS:
            self._recent.popleft()

    def finished(self, numbers: Statistics) -> None:
        """One request was answered."""
        self.successes += 1
        self.prompt_tokens += numbers.prompt_tokens
        self.reused_tokens += numbers.reused_tokens
        self.generated_tokens += numbers.generated_tokens
        self.drafted_tokens += numbers.drafted_tokens
        self.accepted_tokens += numbers.accepted_tokens
        self.first_seconds.observe(numbers.first_seconds)
        if numbers.generated_tokens > 1:
            rest = numbers.total_seconds - numbers.first_seconds
            self.token_seconds.observe(max(0.0, rest) / (numbers.generated_tokens - 1))
