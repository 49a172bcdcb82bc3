"""Frames in pieces: networks of fixed size over a sentence of any length, exact where it is possible.

A convolutional network that looks `reach` frames to either side is right in the middle of its window, and at an edge of
the window that is an edge of the sentence: there it sees the zeros that the whole would see. So the first window begins
with the sentence, the last ends with it, and those between overlap by twice the reach.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

__all__ = ["Window", "windows_of"]


@dataclass(frozen=True, slots=True)
class Window:
    """Frames start to start + size go in (those outside of the sentence are zeros); first to last are kept."""

    start: int
    size: int
    first: int
    last: int


def windows_of(frames: int, sizes: Sequence[int], reach: int, *, masked: bool = False) -> list[Window]:
    """The cheapest windows of one size that cover a sentence.

    `masked`: the network is told where the sentence ends, so a window may be longer than it. Without that, a sentence
    shorter than all windows is taken from two of them, one at each of its ends; if it is shorter than twice the reach,
    too, the `reach` last frames are what the network makes of zeros behind them.
    """
    if frames < 1 or reach < 0 or not sizes:
        raise ValueError(f"{frames} frames, a reach of {reach} and {len(sizes)} sizes make no windows")
    usable = [size for size in sizes if size > 2 * reach]
    if not usable:
        raise ValueError(f"windows of {max(sizes)} frames are too small for a network that looks {reach} to each side")
    return min((_chain(frames, size, reach, masked) for size in sorted(usable, reverse=True)), key=_cost)


def _cost(windows: list[Window]) -> int:
    return sum(window.size for window in windows)


def _chain(frames: int, size: int, reach: int, masked: bool) -> list[Window]:
    if frames == size or (frames < size and (masked or frames < 2 * reach)):
        return [Window(0, size, 0, frames)]
    if frames < size:
        middle = frames // 2
        return [Window(0, size, 0, middle), Window(frames - size, size, middle, frames)]
    step = size - 2 * reach
    count = 2 + max(0, ceil((frames - 2 * (size - reach)) / step))
    found, done = [], 0
    for number in range(count - 1):
        start = number * step
        found.append(Window(start, size, done, start + size - reach))
        done = start + size - reach
    return [*found, Window(frames - size, size, done, frames)]
