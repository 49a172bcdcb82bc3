"""What comes out of a generator."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

__all__ = ["Event", "FinishReason", "Statistics"]

FinishReason = Literal["stop", "length", "cancelled"]


@dataclass(slots=True)
class Statistics:
    """Numbers about one request."""

    prompt_tokens: int = 0
    reused_tokens: int = 0
    """Of the prompt, found in the cache of an earlier request."""
    generated_tokens: int = 0
    drafted_tokens: int = 0
    """Proposed by speculation."""
    accepted_tokens: int = 0
    """Of these, right."""
    shifts: int = 0
    """How often the oldest part of the context was dropped."""
    prompt_seconds: float = 0.0
    """Spent computing the prompt."""
    first_seconds: float = 0.0
    """From the request to its first token."""
    total_seconds: float = 0.0

    @property
    def prompt_rate(self) -> float:
        """Prompt tokens a second that were computed."""
        return _rate(self.prompt_tokens - self.reused_tokens, self.prompt_seconds)

    @property
    def generation_rate(self) -> float:
        """Tokens a second after the first one."""
        return _rate(self.generated_tokens - 1, self.total_seconds - self.first_seconds)


@dataclass(frozen=True, slots=True)
class Event:
    """One token, or the end. Text that may still become a stop string or a character comes with a later event."""

    text: str
    token: int | None = None
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()
    finish: FinishReason | None = None
    """Set on the last event, which has no token."""
    stop: str | None = None
    """The stop string that ended it."""
    statistics: Statistics = field(default_factory=Statistics, repr=False)


def _rate(count: int, seconds: float) -> float:
    return count / seconds if seconds > 0 and count > 0 else 0.0
