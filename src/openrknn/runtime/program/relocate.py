"""The commands of a graph with all addresses filled in, in memory of their own.

`container.link` does the same slowly and puts the commands between the weights, where the vendor's runtime has them;
it is the specification, and a test compares the two. Here the commands are apart, so that sessions can share weights.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from openrknn.container.parts import Graph, Kind, Task
from openrknn.errors import BadRelocationError
from openrknn.isa.words import BASE, place_of, put_values, value_of

Words = npt.NDArray[np.uint64]

_ENTRY = np.dtype([("addend", "<i4"), ("command", "<u4")])


def addresses_of(
    graph: Graph,
    *,
    commands: int,
    weights: int,
    weight_offsets: Mapping[str, int],
    internal: int,
    tensors: Mapping[str, int],
) -> dict[str, int]:
    """The device address of every tensor; `tensors` says where inputs and outputs are."""
    located = {name: weights + offset for name, offset in weight_offsets.items()}
    for tensor in graph.tensors:
        if tensor.kind.is_activation:
            located[tensor.name] = tensors.get(tensor.name, internal + tensor.offset)
        elif tensor.kind in {Kind.LUT, Kind.COMMANDS}:
            # The task that loads a table is a dummy: it copies one atom of the commands onto itself.
            located[tensor.name] = commands
    return located


def write_commands(graph: Graph, words: Words, commands: int, located: Mapping[str, int]) -> None:
    """Fill `words`, which lie at the device address `commands`."""
    stored = np.frombuffer(graph.commands, np.uint64)
    words[: stored.size] = stored
    for group in graph.relocations:
        if group.tensor not in located:
            raise BadRelocationError(
                "this tensor has neither data nor a place in internal memory",
                section=f"relocations of {group.tensor!r}",
            )
    entries = np.frombuffer(b"".join(group.entries for group in graph.relocations), _ENTRY)
    bases = [located[group.tensor] for group in graph.relocations]
    counts = [len(group) for group in graph.relocations]
    put_values(words, entries["command"], entries["addend"] + np.repeat(np.array(bases, np.int64), counts))
    tails = np.array([task.first_command + task.amount for task in graph.tasks], np.int64)
    links = tails[place_of(stored[tails]) == BASE.word] if tails.size else tails
    put_values(words, links, value_of(stored[links]).astype(np.int64) + commands)


def write_values(words: Words, values: Mapping[int, int]) -> None:
    """Write register values: command -> value."""
    if values:
        put_values(words, np.fromiter(values, np.int64), np.fromiter(values.values(), np.int64))


def relocated_tasks(graph: Graph, commands: int) -> tuple[Task, ...]:
    """The task records with absolute addresses."""
    return tuple([Task(*task[:-1], task.address + commands) for task in graph.tasks])  # the address is the last
