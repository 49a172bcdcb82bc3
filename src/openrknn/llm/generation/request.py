"""What is asked of a generator."""

from __future__ import annotations

from dataclasses import dataclass, field

from openrknn.llm.generation.constraint import Constraint
from openrknn.llm.generation.sampling import Sampling

__all__ = ["MOST_LOGPROBS", "Request"]

MOST_LOGPROBS = 100


@dataclass(frozen=True, slots=True)
class Request:
    """How to continue a prompt."""

    sampling: Sampling = field(default_factory=Sampling)
    max_tokens: int | None = None
    """None: until the model ends it or the context is full."""
    stop: tuple[str, ...] = ()
    """Strings that end the text; they are not part of it."""
    stop_tokens: frozenset[int] = frozenset()
    """Tokens that end it, beside those of the vocabulary."""
    ignore_end: bool = False
    """Go on after the tokens with which the vocabulary ends texts (for measurements)."""
    logprobs: int | None = None
    """How many alternatives to each token are returned; None: none."""
    constraint: Constraint | None = None
    shift: bool = False
    """When the context is full, drop the older half of it and go on; else the text ends with "length"."""
    keep: int = 0
    """Tokens at the beginning of the context that a shift never drops."""

    def __post_init__(self) -> None:
        if self.max_tokens is not None and self.max_tokens < 1:
            raise ValueError(f"max_tokens is 1 or more, not {self.max_tokens}")
        if self.logprobs is not None and not 0 <= self.logprobs <= MOST_LOGPROBS:
            raise ValueError(f"logprobs is from 0 to {MOST_LOGPROBS}, not {self.logprobs}")
        if any(not one for one in self.stop):
            raise ValueError("a stop string is not empty")
        if self.keep < 0:
            raise ValueError("keep is 0 or more")
