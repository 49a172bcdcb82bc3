"""Linear assignment: pairs of rows and columns with the least total cost."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["assign"]

_Costs = np.ndarray[Any, np.dtype[np.float64]]


def assign(costs: _Costs, limit: float) -> list[tuple[int, int]]:
    """The pairs (row, column) of least total cost, where leaving a row and a column alone costs `limit`.

    So a pair that costs more than `limit` is never taken. Ordered by row.
    """
    rows, columns = costs.shape
    if not rows or not columns:
        return []
    # Each row may also take a column of its own that costs nothing: being left alone.
    extended = np.zeros((rows, columns + rows))
    extended[:, :columns] = np.where(np.isfinite(costs), costs, limit + 1.0) - limit
    extended[:, columns:][~np.eye(rows, dtype=bool)] = np.abs(extended).max() + 1.0
    taken = _shortest_paths(extended)
    return [(row, int(column)) for row, column in enumerate(taken) if column < columns and costs[row, column] <= limit]


def _shortest_paths(costs: _Costs) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Column of each row, by shortest augmenting paths (Jonker and Volgenant); at least as many columns as rows.

    Each row is added by a search of Dijkstra's kind over reduced costs; `u` and `v` are the dual variables.
    """
    rows, columns = costs.shape
    u, v = np.zeros(rows), np.zeros(columns)
    row_of = np.full(columns, -1, np.int64)
    for first in range(rows):
        distance = np.full(columns, np.inf)
        before = np.full(columns, -1, np.int64)  # the column from which each one was reached; -1: from `first`
        done = np.zeros(columns, bool)
        row, reached, at = first, 0.0, -1
        while True:
            better = reached + costs[row] - u[row] - v
            shorter = ~done & (better < distance)
            distance[shorter] = better[shorter]
            before[shorter] = at
            at = int(np.argmin(np.where(done, np.inf, distance)))
            reached = float(distance[at])
            done[at] = True
            if row_of[at] < 0:
                break
            row = int(row_of[at])
        for column in np.flatnonzero(done):
            if row_of[column] >= 0:
                u[row_of[column]] += reached - distance[column]
            v[column] -= reached - distance[column]
        u[first] += reached
        while at >= 0:
            previous = int(before[at])
            row_of[at] = row_of[previous] if previous >= 0 else first
            at = previous
    found = np.empty(rows, np.int64)
    used = row_of >= 0
    found[row_of[used]] = np.flatnonzero(used)
    return found
