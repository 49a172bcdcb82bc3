"""Numbers about one voice. Written and read by the server's loop only."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

__all__ = ["VoiceStats"]


@dataclass(slots=True)
class VoiceStats:
    """How requests went."""

    successes: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    """By the code of the error."""
    audio_seconds: float = 0.0
    """Heard or spoken."""
    busy_seconds: float = 0.0
    """Spent on it by the voice."""

    @property
    def real_time_factor(self) -> float | None:
        """Seconds of work a second of sound: below 1 it keeps up. None before the first."""
        return self.busy_seconds / self.audio_seconds if self.audio_seconds else None
