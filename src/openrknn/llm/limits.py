"""The least time of a token: every weight is read once, at the rate that the memory of a board has on paper."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from openrknn.chips import TaskList
from openrknn.container.model import Model
from openrknn.container.parts import Kind
from openrknn.runtime.program.steps import is_joined

__all__ = ["MEMORIES", "Distance", "Memory", "distances", "joined_cores", "weight_bytes"]


class Memory(NamedTuple):
    """What boards with a chip have."""

    name: str
    bytes_per_second: float


MEMORIES: Mapping[str, tuple[Memory, ...]] = {
    "rk3588": (Memory("LPDDR4x-4224", 33.8e9), Memory("LPDDR5-5472", 43.8e9)),
    "rk3576": (Memory("LPDDR4x-4266", 17.0e9), Memory("LPDDR5-5472", 22.0e9)),
    "rk3566": (Memory("memory of 2112 MT/s", 8.4e9), Memory("memory of 3200 MT/s", 12.8e9)),
    "rk3562": (Memory("memory of 2666 MT/s", 10.6e9), Memory("memory of 3200 MT/s", 12.8e9)),
}
"""By chip, the slower one first: 64 bits wide on RK3588, 32 on the others."""


class Distance(NamedTuple):
    """How far an estimate is from the limit of one kind of memory."""

    memory: Memory
    limit_ms: float
    part: float
    """Limit / estimated time."""
    low: float
    """The same for the longest and the shortest time that the estimate allows."""
    high: float


def joined_cores(model: Model) -> int:
    """How many cores can do a step together as one job: all graphs have lists for so many that lead on to their end.

    Other lists for several cores (RK3576's) are jobs of single operators.
    """
    for cores in range(model.chip.cores, 1, -1):
        lists = [[graph.task_lists.get(TaskList(cores, core), range(0)) for core in range(cores)]
                 for graph in model.graphs]  # fmt: skip
        if all(is_joined(graph, one) for graph, one in zip(model.graphs, lists, strict=True)):
            return cores
    return 1


def weight_bytes(model: Model) -> int:
    """Of what the graph of one token multiplies with and adds: it reads each of them once."""
    skipped = {Kind.COMMANDS, Kind.TASKS}
    tensors = model.graphs[0].tensors
    return sum(len(tensor.data) for tensor in tensors if tensor.data is not None and tensor.kind not in skipped)


def distances(
    chip: str, size_bytes: int, time_ms: float | None, low_ms: float | None, high_ms: float | None
) -> Iterator[Distance]:
    """One for each memory that boards with the chip have; none where no board was measured."""
    if not time_ms or not low_ms or not high_ms:
        return
    for memory in MEMORIES.get(chip, ()):
        limit = 1e3 * size_bytes / memory.bytes_per_second
        yield Distance(memory, limit, limit / time_ms, limit / high_ms, limit / low_ms)
