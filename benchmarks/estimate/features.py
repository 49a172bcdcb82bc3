"""What the tasks of a network give the NPU to do, kept in a file: the estimate can be checked without the toolkit.

One row per kind of task: network, chip, how many such tasks, then the numbers of `openrknn.cost.Work` that take time.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from openrknn.container.load import load
from openrknn.cost import Work
from openrknn.runtime.cost import cost_of, task_works

__all__ = ["Features", "features_of", "read", "write"]

_COLUMNS = ("array_cycles", "table_elements", "dpu_elements", "pooling_cycles", "moved_bytes", "streamed_bytes")


class Features(NamedTuple):
    """One network on one chip."""

    network: str
    chip: str
    submits: int
    cpu_operators: int
    works: Mapping[Work, int]
    """Kind of task -> how many."""


def features_of(network: str, path: Path) -> Features:
    """From a built file, which must be decodable as a whole."""
    model = load(path)
    cost = cost_of(model)
    if cost.unknown:
        raise ValueError(f"{path.name}: the commands of {cost.unknown} operators are not known")
    works = Counter(_kept(work) for work in task_works(model).values())
    return Features(network, model.chip.name, cost.submits, cost.cpu_operators, works)


def _kept(work: Work) -> Work:
    """Bytes of all kinds together: only their sum takes time."""
    return Work(1, work.moved_bytes, 0, 0, 0, *work[5:])


def write(path: Path, entries: Iterable[Features]) -> None:
    """Two kinds of rows: a network (with its jobs and CPU operators), then its tasks."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["network", "chip", "submits", "cpu_operators"])
        writer.writerow(["count", *_COLUMNS])
        for entry in sorted(entries, key=lambda entry: (entry.chip, entry.network)):
            writer.writerow([entry.network, entry.chip, entry.submits, entry.cpu_operators])
            for work, count in sorted(entry.works.items()):
                cells = [getattr(work, name) or "" for name in _COLUMNS]
                writer.writerow([count, *(cells if work.streamed_bytes else cells[:-1])])


def read(path: Path) -> list[Features]:
    """What `write` wrote."""
    found: list[Features] = []
    works: dict[Work, int] = {}
    with path.open(newline="") as file:
        rows = csv.reader(file)
        next(rows), next(rows)
        for row in rows:
            if row[0].isdigit():
                array, table, dpu, pooling, moved, *streamed = (int(value or 0) for value in row[1:])
                works[Work(1, moved, 0, 0, 0, array, table, dpu, pooling, *streamed)] = int(row[0])
            else:
                works = {}
                found.append(Features(row[0], row[1], int(row[2]), int(row[3]), works))
    return found
