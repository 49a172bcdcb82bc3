"""Several software NPUs as one: each open device of a process counts by itself, a series of metrics is one number."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import fields, replace
from typing import TypeVar

from openrknn.monitor.reading import Core, Memory, Npu

__all__ = ["merged"]

_WHOLE = 100.0
_N = TypeVar("_N", int, float)


def merged(npus: Iterable[Npu], key: Callable[[Npu], Hashable]) -> list[Npu]:
    """NPUs with the same key as one, in the order in which they came. Counters, memory and loads are added up."""
    found: dict[Hashable, Npu] = {}
    for npu in npus:
        name = key(npu)
        found[name] = _together(found[name], npu) if name in found else npu
    return list(found.values())


def _together(first: Npu, second: Npu) -> Npu:
    names = [field.name for field in fields(Memory)]
    memory = {name: _sum(getattr(first.memory, name), getattr(second.memory, name)) for name in names}
    cores = {core.number: core for core in first.cores}
    for core in second.cores:
        cores[core.number] = _core(cores[core.number], core) if core.number in cores else core
    return replace(
        first,
        cores=tuple(cores.values()),
        memory=Memory(**memory),
        clients=first.clients + second.clients,
        jobs=_sum(first.jobs, second.jobs),
        failed_jobs=_sum(first.failed_jobs, second.failed_jobs),
    )


def _core(first: Core, second: Core) -> Core:
    load = _sum(first.load_percent, second.load_percent)
    return replace(
        first,
        load_percent=None if load is None else min(load, _WHOLE),
        busy_seconds=_sum(first.busy_seconds, second.busy_seconds),
    )


def _sum(first: _N | None, second: _N | None) -> _N | None:
    """None is unknown, and the other one is then all that is known."""
    return second if first is None else first if second is None else first + second
