"""Times of words: the decoder's cross attention looks at the sound of the word that it says.

Scores of some heads for every token and every 20 ms, made comparable and smoothed; the path through them that goes
forward only (dynamic time warping) says when each token was said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from openrknn.voice.results import Word
from openrknn.voice.whisper.vocabulary import STEP_SECONDS

Array = npt.NDArray[np.float32]
_MEDIAN = 7
"""Steps of 20 ms that are smoothed over."""
_BEFORE, _BEHIND = "\"'“¿([{-", "\"'.。,，!！?？:：”)]}、"
"""Marks that belong to the word behind them, and to the one before."""
_ENDS = ".。!！?？"
_LONGEST = 0.7
"""Seconds: a median word is not longer."""


@dataclass(slots=True)
class Timed:
    """A word while its time is being corrected."""

    text: str
    tokens: list[int]
    start: float
    end: float
    probability: float


def aligned(
    scores: Array, before: int, split: Sequence[tuple[str, list[int]]], chances: Sequence[float]
) -> list[Timed]:
    """Words of a window.

    `scores` is [heads, tokens, steps of 20 ms]; `before` of its tokens come before the text, one behind it. `split`
    are the words with their tokens, the last one being the end; `chances` the tokens' probabilities.
    """
    if len(split) <= 1:
        return []
    wide = scores.astype(np.float64)
    wide -= wide.max(axis=-1, keepdims=True)
    weights = np.exp(wide)
    weights /= weights.sum(axis=-1, keepdims=True)
    spread = weights.std(axis=1, keepdims=True)
    weights = (weights - weights.mean(axis=1, keepdims=True)) / np.where(spread > 0, spread, 1)
    matrix = _smoothed(weights).mean(axis=0)[before:-1]
    rows, columns = warped(-matrix)
    is_next = np.concatenate([[True], np.diff(rows) > 0])
    times = columns[is_next] * STEP_SECONDS
    edges = np.cumsum([0, *(len(own) for _, own in split[:-1])])
    return [
        Timed(text, list(own), float(times[first]), float(times[last]), float(np.mean(chances[first:last])))
        for (text, own), first, last in zip(split, edges[:-1], edges[1:], strict=False)
    ]


def _smoothed(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """A median over time, mirrored at the ends."""
    side = _MEDIAN // 2
    if values.shape[-1] <= side:
        return values
    filled = np.pad(values, ((0, 0), (0, 0), (side, side)), mode="reflect")
    return np.asarray(np.median(np.lib.stride_tricks.sliding_window_view(filled, _MEDIAN, axis=-1), axis=-1))


def warped(costs: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Rows and columns of the cheapest path from the first corner to the last."""
    count, width = costs.shape
    total = np.full((count + 1, width + 1), np.inf, np.float32)
    total[0, 0] = 0
    moves = np.zeros((count + 1, width + 1), np.int8)
    # Cells of one diagonal do not depend on each other.
    for diagonal in range(2, count + width + 1):
        row = np.arange(max(1, diagonal - width), min(count, diagonal - 1) + 1)
        column = diagonal - row
        both, down, right = total[row - 1, column - 1], total[row - 1, column], total[row, column - 1]
        move = np.where((both < down) & (both < right), 0, np.where((down < both) & (down < right), 1, 2))
        total[row, column] = costs[row - 1, column - 1] + np.choose(move, [both, down, right])
        moves[row, column] = move
    moves[0, :], moves[:, 0] = 2, 1
    at, to = count, width
    path = []
    while at > 0 or to > 0:
        path.append((at - 1, to - 1))
        step = int(moves[at, to])
        at -= step != 2
        to -= step != 1
    found = np.array(path[::-1], np.intp).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def typical(found: Sequence[Timed]) -> float:
    """The median time that a word takes."""
    lengths = [one.end - one.start for one in found if one.end != one.start]
    return min(_LONGEST, float(np.median(lengths))) if lengths else 0.0


def tidied(found: list[Timed]) -> None:
    """Marks join their words, in place, and words beside the end of a sentence are not longer than two typical ones."""
    longest = 2 * typical(found)
    if longest > 0:
        for before, one in pairwise(found):
            if one.end - one.start > longest:
                if one.text in _ENDS:
                    one.end = one.start + longest
                elif before.text in _ENDS:
                    one.start = one.end - longest
    behind = len(found) - 1
    for at in range(len(found) - 2, -1, -1):
        one, following = found[at], found[behind]
        if one.text.startswith(" ") and one.text.strip() in _BEFORE:
            following.text, following.tokens = one.text + following.text, one.tokens + following.tokens
            one.text, one.tokens = "", []
        else:
            behind = at
    before_at = 0
    for at in range(1, len(found)):
        one, following = found[before_at], found[at]
        if not one.text.endswith(" ") and following.text in _BEHIND:
            one.text, one.tokens = one.text + following.text, one.tokens + following.tokens
            following.text, following.tokens = "", []
        else:
            before_at = at


def placed(
    found: Sequence[Timed], parts: Sequence[tuple[float, float, int]], usual: float, last_end: float
) -> list[tuple[float, float, tuple[Word, ...]]]:
    """Words of each part (start, end, number of tokens): times in the window, corrected at pauses.

    `usual` is the typical length of a word, `last_end` where speech ended before. Gives (start, end, words).
    """
    made = []
    at = 0
    for start, end, count in parts:
        words: list[Timed] = []
        taken = 0
        while at < len(found) and taken < count:
            if found[at].text:
                words.append(found[at])
            taken += len(found[at].tokens)
            at += 1
        span = (start, end)
        if words:
            span = _corrected(words, span, usual, last_end)
            last_end = span[1]
        times = (Word(round(one.start, 2), round(one.end, 2), one.text, one.probability) for one in words)
        made.append((*span, tuple(times)))
    return made


def _corrected(words: list[Timed], span: tuple[float, float], usual: float, last_end: float) -> tuple[float, float]:
    (start, end), longest, first, last = span, 2 * usual, words[0], words[-1]
    is_long = first.end - first.start > longest
    is_pair = len(words) > 1 and words[1].end - first.start > 2 * longest
    if first.end - last_end > 4 * usual and (is_long or is_pair):
        if len(words) > 1 and words[1].end - words[1].start > longest:
            first.end = words[1].start = max(words[1].end / 2, words[1].end - longest)
        first.start = max(0.0, first.end - longest)
    if start < first.end and start - 0.5 > first.start:
        first.start = max(0.0, min(first.end - usual, start))
    else:
        start = first.start
    if end > last.start and end + 0.5 < last.end:
        last.end = max(last.start + usual, end)
    else:
        end = last.end
    return start, end
