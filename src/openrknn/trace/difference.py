"""Where two traces diverge, by what programs asked: places in their own memory and in the kernel's do not count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import NamedTuple

from openrknn.trace.archive import Trace
from openrknn.trace.records import CallRecord
from openrknn.uapi.ioctl import Array, Ioctl
from openrknn.uapi.tables import TABLES

_MOMENTS = frozenset({"timeout_ns"})
"""Deadlines on the clock of the machine."""
_KERNEL = ("obj_addr", "task_obj_addr")
"""Addresses in the kernel: two traces agree if they name the same buffer, counted by first use."""


class Divergence(NamedTuple):
    """The first call that is not the same; None where one trace has ended."""

    number: int
    first: CallRecord | None
    second: CallRecord | None


def first_divergence(first: Trace, second: Trace) -> Divergence | None:
    """None if both asked for the same with the same results."""
    sides = zip_longest(_calls(first), _calls(second))
    for number, (ours, theirs) in enumerate(sides, start=1):
        if ours is None or theirs is None or ours[1] != theirs[1]:
            return Divergence(number, ours and ours[0], theirs and theirs[0])
    return None


def _calls(trace: Trace) -> Iterator[tuple[CallRecord, tuple[object, ...]]]:
    seen: dict[int, int] = {}
    for event in trace.events:
        if isinstance(event, CallRecord):
            yield event, (event.name, _comparable(event.name, event.before, seen), event.result)
            for name in _KERNEL:
                _number(event.after.get(name, 0), seen)


def _comparable(ioctl: str, values: Mapping[str, int], seen: dict[int, int]) -> dict[str, int]:
    found = {}
    for name, value in values.items():
        field = name.rpartition(".")[2].partition("[")[0]
        if field in _MOMENTS or (field in _POINTERS.get(ioctl, ()) and not name.endswith("]")):
            continue
        found[name] = _number(value, seen) if field in _KERNEL else value
    return found


def _number(value: int, seen: dict[int, int]) -> int:
    return seen.setdefault(value, len(seen)) if value else 0


def _pointers(ioctl: Ioctl) -> frozenset[str]:
    def inside(arrays: tuple[Array, ...]) -> Iterator[str]:
        for array in arrays:
            yield array.pointer
            yield from inside(array.inside)

    return frozenset(inside(ioctl.arrays))


_POINTERS: dict[str, frozenset[str]] = {}
"""Fields that hold addresses in the program, by ioctl; drivers have some names in common."""
for _table in TABLES:
    for _ioctl in _table.ioctls:
        _POINTERS[_ioctl.name] = _POINTERS.get(_ioctl.name, frozenset()) | _pointers(_ioctl)
