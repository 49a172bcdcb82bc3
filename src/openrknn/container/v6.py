"""Container 6, model format 6: one FlatBuffer with blobs (toolkit 1.6 to 2.5)."""

from __future__ import annotations

from openrknn.container.flatbuffer import Table
from openrknn.container.parts import Graph, Kind, Task, Tensor
from openrknn.container.reader import TableReader, read_tasks
from openrknn.errors import BadTaskError, BadTensorError

_NO_COMMANDS = memoryview(b"").cast("Q")


def read_graphs(root: Table, reader: TableReader) -> tuple[Graph, ...]:
    """All graphs of the model, constants attached to their tensors."""
    slots = reader.generation.model
    root.buffer.section = "blob list"
    blobs = tuple(blob.u8s(0, wide=True) for blob in root.tables(slots["blobs"]))
    return tuple(_graph(table, number, blobs, reader) for number, table in enumerate(root.tables(slots["graphs"])))


def _graph(table: Table, index: int, blobs: tuple[memoryview, ...], reader: TableReader) -> Graph:
    slots = reader.generation.graph
    tensors = tuple(
        reader.tensor(entry, number, blobs) for number, entry in enumerate(table.tables(slots["tensors"]))
    )
    nodes = tuple(reader.node(entry, number, len(tensors)) for number, entry in enumerate(table.tables(slots["nodes"])))
    table.buffer.section = f"graph {index}"
    commands = _single(tensors, Kind.COMMANDS, table)
    records = _single(tensors, Kind.TASKS, table)
    return reader.graph(
        table, index, tensors=tensors, nodes=nodes, commands=_words(commands), tasks=_tasks(records, table)
    )


def _single(tensors: tuple[Tensor, ...], kind: Kind, table: Table) -> Tensor | None:
    found = [tensor for tensor in tensors if tensor.kind is kind]
    if len(found) > 1:
        raise BadTensorError(
            f"{len(found)} tensors of kind {kind.name}, at most one is possible",
            offset=table.file_offset,
            section=table.buffer.section,
        )
    return found[0] if found else None


def _words(tensor: Tensor | None) -> memoryview:
    if tensor is None or tensor.data is None:
        return _NO_COMMANDS
    if len(tensor.data) % 8:
        raise BadTaskError(
            f"{len(tensor.data)} bytes of commands are not a multiple of 8", section=f"tensor {tensor.index}"
        )
    return tensor.data.cast("Q")


def _tasks(tensor: Tensor | None, table: Table) -> tuple[Task, ...]:
    if tensor is None or tensor.data is None:
        return ()
    table.buffer.charge(len(tensor.data) * 12)
    return read_tasks(tensor.data, f"tensor {tensor.index} 'task'")
