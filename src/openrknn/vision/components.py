"""Groups of pixels that touch each other.

Row by row, runs of set pixels; runs of neighbouring rows that touch, also at a corner, belong together (union-find).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from openrknn.vision.heads import Array


def components(mask: npt.NDArray[np.bool_]) -> Iterator[tuple[Array, Array]]:
    """Rows and columns of the pixels of each group, from the topmost group down."""
    rows, starts, ends = _runs(mask)
    parents = list(range(len(rows)))
    for upper, lower in _touching(rows, starts, ends):
        a, b = _root(parents, upper), _root(parents, lower)
        parents[max(a, b)] = min(a, b)
    groups: dict[int, list[int]] = {}
    for run in range(len(rows)):
        groups.setdefault(_root(parents, run), []).append(run)
    for runs in groups.values():
        lengths = [int(ends[run] - starts[run]) for run in runs]
        yield (
            np.repeat(rows[runs], lengths),
            np.concatenate([np.arange(starts[run], ends[run]) for run in runs]),
        )


def _runs(mask: npt.NDArray[np.bool_]) -> tuple[Array, Array, Array]:
    """Row, first column and end column of each run of set pixels."""
    padded = np.zeros((mask.shape[0], mask.shape[1] + 2), np.int8)
    padded[:, 1:-1] = mask
    steps = np.diff(padded, axis=1)
    rows, starts = np.nonzero(steps == 1)
    return rows, starts, np.nonzero(steps == -1)[1]


def _touching(rows: Array, starts: Array, ends: Array) -> Iterator[tuple[int, int]]:
    """Pairs of runs in neighbouring rows that touch. Both lists are sorted, so one walk along them is enough."""
    first = np.searchsorted(rows, np.arange(rows.max(initial=-1) + 2))
    begin, end = starts.tolist(), ends.tolist()
    for row in range(len(first) - 2):
        upper, lower = int(first[row]), int(first[row + 1])
        upper_stop, lower_stop = lower, int(first[row + 2])
        while upper < upper_stop and lower < lower_stop:
            if begin[upper] <= end[lower] and begin[lower] <= end[upper]:
                yield upper, lower
            if end[upper] < end[lower]:
                upper += 1
            else:
                lower += 1


def _root(parents: list[int], run: int) -> int:
    while parents[run] != run:
        parents[run] = parents[parents[run]]
        run = parents[run]
    return run
