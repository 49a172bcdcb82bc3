"""The memory image of a model: where everything is stored, and the commands with all addresses filled in.

This is what a loader hands to the NPU. It equals, byte for byte, what the vendor's runtime 1.5.2 hands to the kernel
(tests/witness), so the rules below are the vendor's:

* weight memory: graph by graph, tensor by tensor, every blob at the next multiple of 64. An empty blob takes no room:
  the tensor shares the data of the tensor of the same name in graph 0.
* task memory: one per graph, the task records with the address of the commands added.
* internal memory: inputs, outputs and intermediate tensors at the offsets that the compiler chose, which overlap where
  lifetimes do not.
* a relocation of a look-up table tensor gets the address of the commands: the task that loads the table is a dummy
  which reads and writes one atom in place.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from openrknn.container import sizes
from openrknn.container.model import Model
from openrknn.container.outer import Flavour
from openrknn.container.parts import TASK, Graph, Kind, Tensor
from openrknn.errors import BadRelocationError, UnsupportedError
from openrknn.isa.words import BASE, WORD_BYTES, place_of, value_of, with_value

_ALIGNMENT = 64
_WORD = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class LinkPlan:
    """Offsets before any address is known."""

    weight_bytes: int
    weight_offsets: tuple[Mapping[str, int], ...]
    """Per graph: tensor name -> offset in weight memory."""
    internal_bytes: int
    task_bytes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Addresses:
    """Device addresses of the memories; `tensors` moves single inputs and outputs elsewhere."""

    weight: int
    internal: int
    tensors: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Image:
    """The bytes to put into device memory."""

    plan: LinkPlan
    weight: bytearray = field(repr=False)
    tasks: tuple[bytes, ...] = field(repr=False)
    """Task records of each graph."""
    tensor_addresses: tuple[Mapping[str, int], ...] = field(repr=False)
    """Per graph: tensor name -> device address."""

    def commands(self, graph: Graph) -> memoryview:
        """The linked commands of one graph, in the image."""
        start = self.plan.weight_offsets[graph.index][_commands(graph).name]
        return memoryview(self.weight)[start : start + len(graph.commands) * WORD_BYTES].cast("Q")


def plan(model: Model) -> LinkPlan:
    """Offset of each constant in weight memory, and how large the memories are."""
    offset = 0
    places: list[Mapping[str, int]] = []
    for graph in model.graphs:
        names: dict[str, int] = {}
        for tensor in graph.tensors:
            if not tensor.blob or tensor.data is None:
                continue
            if not len(tensor.data) and places and tensor.name in places[0]:
                names[tensor.name] = places[0][tensor.name]
                continue
            names[tensor.name] = offset
            offset = _aligned(offset + len(tensor.data))
        places.append(MappingProxyType(names))
    return LinkPlan(
        weight_bytes=offset,
        weight_offsets=tuple(places),
        internal_bytes=max((sizes.internal_bytes(graph) for graph in model.graphs), default=0),
        task_bytes=tuple(len(graph.tasks) * TASK.size for graph in model.graphs),
    )


def link(model: Model, addresses: Addresses) -> Image:
    """The image at these addresses; input registers keep the values in the file (see `runtime` for patches)."""
    if model.flavour is Flavour.MINI or not model.graphs[0].tensors:
        raise UnsupportedError("mini files are linked already: load their image and give the PC its base address")
    layout = plan(model)
    weight = bytearray(layout.weight_bytes)
    tasks = []
    resolved = []
    for graph in model.graphs:
        names = layout.weight_offsets[graph.index]
        for tensor in graph.tensors:
            if tensor.blob and tensor.data:
                weight[names[tensor.name] : names[tensor.name] + len(tensor.data)] = tensor.data
        located = _locate(graph, names, addresses)
        resolved.append(located)
        if graph.tasks:
            commands = _commands(graph)
            start = names[commands.name]
            _relocate(graph, weight, start, located, located[commands.name])
            tasks.append(_records(graph, located[commands.name]))
        else:
            tasks.append(b"")
    return Image(layout, weight, tuple(tasks), tuple(resolved))


def _aligned(offset: int) -> int:
    return (offset + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT


def _commands(graph: Graph) -> Tensor:
    tensor = next((tensor for tensor in graph.tensors if tensor.kind is Kind.COMMANDS), None)
    if tensor is None:
        raise UnsupportedError("this model has no command stream of its own (model format 1 keeps register lists)")
    return tensor


def _locate(graph: Graph, weight_offsets: Mapping[str, int], addresses: Addresses) -> dict[str, int]:
    located = {name: addresses.weight + offset for name, offset in weight_offsets.items()}
    commands = next((tensor.name for tensor in graph.tensors if tensor.kind is Kind.COMMANDS), "")
    for tensor in graph.tensors:
        if tensor.kind.is_activation:
            located[tensor.name] = addresses.tensors.get(tensor.name, addresses.internal + tensor.offset)
        elif tensor.kind is Kind.LUT and commands in located:
            located[tensor.name] = located[commands]
    return located


def _relocate(graph: Graph, weight: bytearray, start: int, located: Mapping[str, int], commands_address: int) -> None:
    for group in graph.relocations:
        if group.tensor not in located:
            raise BadRelocationError(
                "this tensor has neither data nor a place in internal memory",
                section=f"relocations of {group.tensor!r}",
            )
        address = located[group.tensor]
        for addend, command in struct.iter_unpack("<iI", group.entries):
            _put(weight, start + WORD_BYTES * command, address + addend)
    # Lists can share a task's commands, so the link is always made from the file's word, never from a linked one.
    for task in graph.tasks:
        command = task.first_command + task.amount
        word = graph.commands[command]
        if place_of(word) == BASE.word:
            _put(weight, start + WORD_BYTES * command, value_of(word) + commands_address)


def _put(weight: bytearray, position: int, value: int) -> None:
    word = _WORD.unpack_from(weight, position)[0]
    _WORD.pack_into(weight, position, with_value(word, value))


def _records(graph: Graph, commands_address: int) -> bytes:
    return b"".join(TASK.pack(*task[:-1], task.address + commands_address) for task in graph.tasks)
