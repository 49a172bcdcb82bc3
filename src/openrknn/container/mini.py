"""The mini container (0x1004): a linked memory image with a small FlatBuffer of names.

RV1103 and RV1106 use it, because their runtime only has to add one base address to load a model. Payload: a head of
seven sizes, the task records, then the image (commands, compiler constants, weights), then the names.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, replace

from openrknn.container.flatbuffer import Buffer, Table
from openrknn.container.parts import TASK, Graph, Kind, MemoryPlan, Tensor
from openrknn.container.reader import TableReader, read_tasks
from openrknn.errors import BadTaskError, BadTensorError, TruncatedError

HEAD_BYTES = 64
HEAD = struct.Struct("<7I")


@dataclass(frozen=True, slots=True)
class MiniParts:
    """The regions of the payload."""

    names: Buffer
    task_records: memoryview = field(repr=False)
    task_count: int
    commands: memoryview = field(repr=False)
    constants: memoryview = field(repr=False)
    weights: memoryview = field(repr=False)
    internal_bytes: int

    @property
    def memory(self) -> MemoryPlan:
        return MemoryPlan(len(self.weights), self.internal_bytes, len(self.constants))


def split(payload: memoryview, payload_offset: int) -> MiniParts:
    """Cut the payload into its regions."""
    if len(payload) < HEAD_BYTES:
        raise TruncatedError(
            f"the mini head needs {HEAD_BYTES} bytes, {len(payload)} are there",
            offset=payload_offset,
            section="mini head",
        )
    names, tasks, task_count, commands, internal, weights, constants = HEAD.unpack_from(payload)
    end = HEAD_BYTES + tasks + commands + constants + weights + names
    if end > len(payload):
        raise TruncatedError(
            f"the mini head announces {end} bytes, the payload has {len(payload)}",
            offset=payload_offset,
            section="mini head",
        )
    if task_count * TASK.size > tasks or commands % 8:
        raise BadTaskError(
            f"{task_count} task records do not fit into {tasks} bytes, or {commands} bytes of commands are not whole",
            offset=payload_offset,
            section="mini head",
        )
    at = HEAD_BYTES
    regions = []
    for size in (tasks, commands, constants, weights, names):
        regions.append(payload[at : at + size])
        at += size
    name_offset = payload_offset + at - names
    return MiniParts(
        names=Buffer(regions[4], name_offset, "names"),
        task_records=regions[0][: task_count * TASK.size],
        task_count=task_count,
        commands=regions[1].cast("Q"),
        constants=regions[2],
        weights=regions[3],
        internal_bytes=internal,
    )


def read_graphs(root: Table, reader: TableReader, parts: MiniParts) -> tuple[Graph, ...]:
    """The one graph of a mini file."""
    slots = reader.generation
    tables = root.tables(slots.model["graphs"])
    if len(tables) != 1:
        raise BadTensorError(f"a mini file has one graph, this has {len(tables)}", section="names")
    table = tables[0]
    tensors = tuple(
        _with_data(reader.tensor(entry, number), parts, entry)
        for number, entry in enumerate(table.tables(slots.graph["tensors"]))
    )
    nodes = tuple(
        reader.node(entry, number, len(tensors)) for number, entry in enumerate(table.tables(slots.graph["nodes"]))
    )
    table.buffer.charge(len(parts.task_records) * 12)
    tasks = read_tasks(parts.task_records, "mini task records")
    return (reader.graph(table, 0, tensors=tensors, nodes=nodes, commands=parts.commands, tasks=tasks),)


def _with_data(tensor: Tensor, parts: MiniParts, table: Table) -> Tensor:
    match tensor.kind:
        case Kind.WEIGHT | Kind.CPU_CONSTANT | Kind.LUT:
            region = parts.weights
        case Kind.COMPILER_CONSTANT:
            # Toolkit 1.6.1 has no region for them: they lie among the weights, and the head says 0.
            region = parts.constants if len(parts.constants) else parts.weights
        case Kind.COMMANDS:
            return replace(tensor, data=parts.commands.cast("B"))
        case Kind.TASKS:
            return replace(tensor, data=parts.task_records)
        case _:
            return tensor
    if tensor.offset + tensor.size_bytes > len(region):
        raise BadTensorError(
            f"{tensor.size_bytes} bytes at {tensor.offset:#x} are outside its region of {len(region):#x} bytes",
            offset=table.file_offset,
            section=table.buffer.section,
        )
    return replace(tensor, data=region[tensor.offset : tensor.offset + tensor.size_bytes])
