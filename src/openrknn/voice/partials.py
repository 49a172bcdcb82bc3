"""When a partial result may be computed: early, often where it costs little, and never for more than was allowed.

A model that hears whole pieces hears a segment again for each partial result, so results at a fixed distance cost with
the square of its length. Here the first one of a segment is always made; others are made while all of them together
cost at most a `share` of the final ones. A pause is the best moment: if it ends the segment, the final text is there.
"""

from __future__ import annotations

import math

SHARE = 0.4
"""Of the cost of final results: what people speak in a minute costs at most 1.5 times as much as without them."""
_CREDIT = 4.0
"""Seconds of final results that are taken for granted at the beginning of a stream."""
_GROWTH = 1.5
"""A result of a piece that is hardly longer than the last one tells nothing new."""
_LEAST = 1.0
"""Seconds. Models have a shortest window: a shorter piece costs as much."""


class PartialBudget:
    """Counts sound that was heard, in seconds."""

    def __init__(self, share: float, rate: int) -> None:
        self._share, self._rate = share, rate
        self.partial = self.final = 0.0
        """Seconds heard for results that were replaced, and for those that stayed."""
        self._last = 0

    def begin(self) -> None:
        """Another segment."""
        self._last = 0

    def allows(self, samples: int, *, is_pause: bool = False) -> bool:
        """Whether a partial result of so much sound may be computed; `is_pause`: it may become the final one."""
        if self._last == 0 or self._share == math.inf:
            return True
        cost = self._cost(samples)
        if is_pause:  # about every second one is the end of the segment, and costs nothing then
            return self.partial + cost / 2 <= self._share * (self.final + _CREDIT + cost)
        return samples >= _GROWTH * self._last and self.partial + cost <= self._share * (self.final + _CREDIT)

    def spend(self, samples: int) -> None:
        """A partial result was computed."""
        self.partial += self._cost(samples)
        self._last = samples

    def settle(self, samples: int, *, is_ready: bool) -> None:
        """A final result was computed, or was ready: the last partial one is it."""
        cost = self._cost(samples)
        self.final += cost
        if is_ready:
            self.partial -= cost

    def _cost(self, samples: int) -> float:
        return max(samples / self._rate, _LEAST)
