"""Rows of parameters in which every pair of values of two parameters occurs at least once."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

__all__ = ["covering"]

Row = dict[str, Any]
_CANDIDATES = 6
_ATTEMPTS = 12


def covering(
    space: Mapping[str, Sequence[Any]], rng: random.Random, is_allowed: Callable[[Row], bool]
) -> Iterator[Row]:
    """Rows until every pair has occurred in a row that `is_allowed`, or was given up: both values exclude each other.

    Greedy: a row begins with a pair that is missing; every other parameter gets the one of a few random values that
    brings the most new pairs.
    """
    names = list(space)
    missing = [(first, second, i, j) for second in range(len(names)) for first in range(second)
               for i in range(len(space[names[first]])) for j in range(len(space[names[second]]))]  # fmt: skip
    rng.shuffle(missing)
    uncovered = set(missing)
    while missing:
        pair = missing[-1]
        for _ in range(_ATTEMPTS if pair in uncovered else 0):
            places = _row(names, space, pair, uncovered, rng)
            row = {name: space[name][place] for name, place in zip(names, places, strict=True)}
            if is_allowed(row):
                uncovered.difference_update(_pairs(places))
                yield row
                break
        missing.pop()


def _row(
    names: list[str], space: Mapping[str, Sequence[Any]], pair: tuple[int, int, int, int],
    uncovered: set[tuple[int, int, int, int]], rng: random.Random,
) -> list[int]:  # fmt: skip
    fixed = {pair[0]: pair[2], pair[1]: pair[3]}
    others = [number for number in range(len(names)) if number not in fixed]
    rng.shuffle(others)
    for number in others:
        count = len(space[names[number]])
        best, most = 0, -1
        for value in {rng.randrange(count) for _ in range(min(_CANDIDATES, count))}:
            gained = sum(
                ((known, number, fixed[known], value) if known < number else (number, known, value, fixed[known]))
                in uncovered
                for known in fixed
            )
            if gained > most:
                best, most = value, gained
        fixed[number] = best
    return [fixed[number] for number in range(len(names))]


def _pairs(places: list[int]) -> Iterator[tuple[int, int, int, int]]:
    for second, j in enumerate(places):
        for first in range(second):
            yield first, second, places[first], j
