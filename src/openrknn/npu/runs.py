"""The words of many tasks, taken apart at once.

Most words only set a register of a block. Neighbours that set registers of the same block are a run: their offsets and
values go into the bank of the block together, and no code looks at them one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from openrknn.isa import RegisterMap
from openrknn.isa.words import Command, offset_of, place_of, target_of, value_of

__all__ = ["MANY_WORDS", "PlainPlaces", "Run", "runs_of"]

Words: TypeAlias = npt.NDArray[np.uint64]
_ALL_BITS = 0xFFFF_FFFF
MANY_WORDS = 16
"""From here on it pays to look for entries of lookup tables."""


class Run(NamedTuple):
    """Words of a task that lie together."""

    block: str | None
    """The block whose registers they set; None: each has to be looked at."""
    targets: Sequence[int]
    """Of those that have to be looked at."""
    offsets: Sequence[int]
    values: Sequence[int]
    words: Words | None = None
    """Many that have to be looked at."""


class PlainPlaces:
    """The registers whose values are only kept until a block starts (`is_plain`), for searches with many words."""

    def __init__(self, registers: RegisterMap, is_plain: Callable[[int, int], bool]) -> None:
        found = sorted(
            (Command(int(target), offset, 0).word, number, ~register.declared & _ALL_BITS)
            for number, (target, block) in enumerate(registers.by_target.items())
            if block.enable_bit is not None
            for offset, register in block.by_offset.items()
            if is_plain(int(target), offset)
        )
        self.blocks = [block.name for block in registers.by_target.values()]
        self._places = np.array([place for place, _, _ in found], np.uint64)
        self._numbers = np.array([number for _, number, _ in found], np.int64)
        self._undeclared = np.array([bits for _, _, bits in found], np.uint64)

    def numbers_of(self, words: Words, values: Words) -> npt.NDArray[np.int64]:
        """The number of the block of each word; -1 for words that are more than a value of a known register."""
        places = place_of(words)
        # Entries of a lookup table are many words for one place: it is searched for once.
        heads = np.flatnonzero(np.concatenate([[True], places[1:] != places[:-1]]))
        found = np.minimum(np.searchsorted(self._places, places[heads]), len(self._places) - 1)
        near = np.repeat(found, np.diff(heads, append=len(places)))
        is_known = (self._places[near] == places) & (values & self._undeclared[near] == 0)
        return np.where(is_known, self._numbers[near], -1)


def runs_of(tasks: Sequence[Words], places: PlainPlaces) -> Iterator[list[Run]]:
    """The runs of each task, in its order."""
    if not tasks:
        return
    words = np.concatenate(tasks)
    values = value_of(words)
    numbers = places.numbers_of(words, values)
    ends = np.cumsum([len(task) for task in tasks]).tolist()
    is_edge = np.zeros(len(words) + 1, np.bool_)
    is_edge[1:-1] = numbers[1:] != numbers[:-1]
    is_edge[ends] = True
    is_edge[0] = True
    edges = np.flatnonzero(is_edge).tolist()
    blocks = [places.blocks[number] if number >= 0 else None for number in numbers[edges[:-1]].tolist()]
    # Long runs that are not plain are entries of lookup tables, which are taken as arrays.
    lengths = np.diff(edges)
    is_long = (numbers[edges[:-1]] < 0) & (lengths >= MANY_WORDS)
    listed = words[~np.repeat(is_long, lengths)]
    offsets, written = offset_of(listed).tolist(), value_of(listed).tolist()
    targets = target_of(listed).tolist()
    runs: list[Run] = []
    remaining = iter(ends)
    task_end, at = next(remaining), 0
    for block, long, (start, end) in zip(blocks, is_long.tolist(), pairwise(edges), strict=True):
        if start == task_end:
            yield runs
            runs, task_end = [], next(remaining)
        if long:
            runs.append(Run(None, (), (), (), words[start:end]))
            continue
        behind = at + end - start
        runs.append(Run(block, targets[at:behind] if block is None else (), offsets[at:behind], written[at:behind]))
        at = behind
    yield runs
