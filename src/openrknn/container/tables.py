"""The look-up tables that a graph loads into the NPU: activations that it has no arithmetic for.

A task fills them with register writes: LUT_ACCESS_CFG chooses a table and a first entry, each LUT_ACCESS_DATA stores
one signed 16-bit entry and moves on. Table 0 (LE) covers the negative half of the inputs, table 1 (LO) the positive
one, 513 entries each. All families of chips do it alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from openrknn.chip.rk3588.dpu_lut import LutAccessCfg, LutAccessData
from openrknn.container.parts import Graph, Kind, Task
from openrknn.isa.words import Command

ENTRIES = 513


class TableLoad(NamedTuple):
    """What one task writes into the tables."""

    name: str
    """The function, as the file calls it: "exSwish"."""
    task: int
    negative: tuple[int, ...] | None
    """Table 0; None if the task leaves it alone."""
    positive: tuple[int, ...] | None


def table_loads(graph: Graph) -> Iterator[TableLoad]:
    """Every task that fills a table, in the order of the tasks."""
    names = _names(graph)
    for number, task in enumerate(graph.tasks):
        tables = _written(graph, task)
        if tables:
            numbers = range(task.first_command, task.first_command + task.amount)
            name = next((names[command] for command in numbers if command in names), "")
            yield TableLoad(name, number, tables.get(0), tables.get(1))


def _names(graph: Graph) -> dict[int, str]:
    """Command -> the table tensor whose address it gets; the dummy copy of a load task names its function so."""
    tables = {tensor.name for tensor in graph.tensors if tensor.kind is Kind.LUT}
    return {entry.command: group.tensor for group in graph.relocations if group.tensor in tables for entry in group}


def _written(graph: Graph, task: Task) -> dict[int, tuple[int, ...]]:
    tables: dict[int, list[int]] = {}
    current: list[int] | None = None
    for word in graph.task_words(task, tail=False):
        _, register, value = Command.decode(word)
        if register == LutAccessCfg.offset:
            access = LutAccessCfg(value)
            is_load = access.lut_access_type and not access.lut_addr
            current = tables.setdefault(int(access.lut_table_id), []) if is_load else None
        elif register == LutAccessData.offset and current is not None:
            entry = value & 0xFFFF
            current.append(entry - 0x10000 if entry & 0x8000 else entry)
    return {number: tuple(entries) for number, entries in tables.items() if entries}
