"""Frames in pieces: networks of fixed size over a sentence of any length, exact where it is possible.

A convolutional network that looks `reach` frames to either side is right in the middle of its window, and at an edge of
the window that is an edge of the sentence: there it sees the zeros that the whole would see. So the first window begins
with the sentence, the last ends with it, and those between overlap by twice the reach.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush


@dataclass(frozen=True, slots=True, order=True)
class Window:
    """Frames start to start + size go in (those outside of the sentence are zeros); first to last are kept."""

    start: int
    size: int
    first: int
    last: int


def windows_of(frames: int, sizes: Sequence[int], reach: int, *, masked: bool = False) -> list[Window]:
    """The windows that cover a sentence with the least work.

    `masked`: the network gets the end of the sentence, so a window may be longer than it. Without that, a sentence
    shorter than all windows is taken from two of them, one at each of its ends; if it is shorter than twice the reach,
    too, the `reach` last frames are what the network makes of zeros behind them.
    """
    if frames < 1 or reach < 0 or not sizes:
        raise ValueError(f"{frames} frames, a reach of {reach} and {len(sizes)} sizes make no windows")
    usable = sorted({size for size in sizes if size > 2 * reach}, reverse=True)
    if not usable:
        raise ValueError(f"windows of {max(sizes)} frames are too small for a network that looks {reach} to each side")
    if frames < 2 * reach and not masked and frames not in usable:
        return [Window(0, usable[-1], 0, frames)]  # all that are usable are longer
    found: list[Window] = []
    done = 0
    while frames - done > _MANY * usable[0]:  # in the middle of a long sentence the largest is the cheapest
        found.append(_next(done, usable[0], reach))
        done = found[-1].last
    return found + _cheapest(done, frames, usable, reach, masked)


_MANY = 8


def _next(done: int, size: int, reach: int) -> Window:
    """The window behind what is done that reaches furthest and is not the last."""
    start = max(0, done - reach)
    return Window(start, size, done, start + size - reach)


def _last(done: int, frames: int, size: int, reach: int, masked: bool) -> Window | None:
    """The window that ends the sentence, if it is right from where we are."""
    start = frames - size
    if masked and start < 0:
        start = max(0, done - reach)  # zeros behind the end are told apart
        return Window(start, size, done, frames) if start + size >= frames else None
    right_from = 0 if start == 0 else max(0, start) + reach
    return Window(start, size, done, frames) if done >= right_from else None


def _cheapest(done: int, frames: int, sizes: Sequence[int], reach: int, masked: bool) -> list[Window]:
    """Least work first, until a way has reached the end."""
    ways: list[tuple[int, int, int, tuple[Window, ...]]] = [(0, 0, done, ())]
    seen: set[int] = set()
    while True:
        work, count, place, path = heappop(ways)
        if place == frames:
            return list(path)
        if place in seen:
            continue
        seen.add(place)
        for size in sizes:
            ending = _last(place, frames, size, reach, masked)
            inner = _next(place, size, reach)
            if inner.last >= frames or inner.start + size > frames:
                # Longer than what is left: right only where the network still sees the true frames.
                inner = Window(inner.start, size, place, frames - reach)
            for window in (ending, inner):
                if window is not None and window.last > place:
                    heappush(ways, (work + size, count + 1, window.last, (*path, window)))
