"""Container 2, model format 1 (toolkit 1.4): register lists instead of command streams.

Each operator names register lists ("regcfg"), and the runtime turns them into commands when it loads the model. This
reader does the same, so that every tool sees one shape: commands, task records, relocations, task lists.

A register word holds the value in bits 63:32 and the register in bits 31:16.

A register list that uses a lookup table names a tensor of kind LUT, whose data are the register lists that load the
table: one on RK3588, on RK3566 one for each half. The file's lists never load a table themselves. The vendor's runtime
1.5.2 inserts the loading tasks before each list that names one, and so does this reader.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType

from openrknn.chip.maps import map_for
from openrknn.chips import Chip, TaskList
from openrknn.container.flatbuffer import Table
from openrknn.container.parts import Graph, InputPatch, Kind, Node, PatchSlot, RelocationGroup, Task, Tensor
from openrknn.container.reader import TableReader
from openrknn.container.schema import patch_offsets
from openrknn.errors import BadReferenceError, BadRelocationError, BadTaskError
from openrknn.isa.words import OFFSET_MASK, Command, fetch_amount, offset_of, tail_words, target_at, value_of

_RELOCATION = struct.Struct("<IIiIII")
"""Register, tensor, addend; the first column and the first row that the task reads; 0."""
_INT_CLEAR = 0x1FFFF
_LOAD_BLOCKS, _LOAD_INTERRUPTS = 0x18, 0x300
"""A task that loads a table: DPU and DPU_RDMA copy one atom of the commands onto itself."""
_LOAD_START = "DPU.S_POINTER"
_LOAD_ADDRESSES = ("DPU.DST_BASE_ADDR", "DPU_RDMA.RDMA_SRC_BASE_ADDR")
_FEATURE_ADDRESS = "CNA.FEATURE_DATA_ADDR"


@dataclass(frozen=True, slots=True)
class _Listed:
    """One task of format 1: a register list and what to patch in it."""

    node: int
    words: tuple[int, ...]
    relocations: tuple[tuple[int, int, int], ...]
    """(register, tensor index, addend)"""
    enable_mask: int
    int_mask: int
    place: TaskList


def read_graphs(root: Table, reader: TableReader) -> tuple[Graph, ...]:
    """All graphs, their register lists assembled into commands."""
    slots = reader.generation.model
    root.buffer.section = "blob list"
    blobs = tuple(blob.u8s(0) for blob in root.tables(slots["blobs"]))
    return tuple(_graph(table, number, blobs, reader) for number, table in enumerate(root.tables(slots["graphs"])))


def _graph(table: Table, index: int, blobs: tuple[memoryview, ...], reader: TableReader) -> Graph:
    slots = reader.generation.graph
    tensors = tuple(
        reader.tensor(entry, number, blobs)
        for number, entry in enumerate(table.tables(slots["tensors"]))
    )
    nodes: list[Node] = []
    listed: list[_Listed] = []
    for number, entry in enumerate(table.tables(slots["nodes"])):
        nodes.append(reader.node(entry, number, len(tensors)))
        for task in entry.tables(reader.generation.node["tasks"]):
            listed += _listed(task, number, tensors, reader.chip)
    table.buffer.section = f"graph {index}"
    reader.note_filled(table, reader.generation.empty_graph, table.buffer.section)
    commands, tasks, relocations, lists = _assemble(listed, tensors, reader)
    address = map_for(reader.chip).find(_FEATURE_ADDRESS).offset
    reading = _picture_tasks(tensors, tasks, relocations, commands, address)
    return Graph(
        index=index,
        tensors=tensors,
        nodes=tuple(nodes),
        inputs=reader.indices(table, slots["inputs"], len(tensors), "tensor"),
        outputs=reader.indices(table, slots["outputs"], len(tensors), "tensor"),
        normalizations=tuple(reader.normalization(entry) for entry in table.tables(slots["normalizations"])),
        relocations=relocations,
        image_patches=tuple(_patches(reading, commands, reader.chip, "image")),
        convert_patches=tuple(_patches(reading, commands, reader.chip, "convert")),
        list_starts=(),
        output_tasks=(),
        commands=commands,
        tasks=tasks,
        task_lists=MappingProxyType(lists),
    )


def _listed(table: Table, node: int, tensors: tuple[Tensor, ...], chip: Chip) -> list[_Listed]:
    """A register list, after the lists that load the table that it uses."""
    section = table.buffer.section = f"operator {node}, register list"
    words = _register_words(table, table.i32(0), Kind.REGISTER_LIST, tensors)
    relocations = []
    for register, tensor, addend, *_ in _RELOCATION.iter_unpack(table.structs(5, _RELOCATION.size)):
        if tensor >= len(tensors):
            raise BadRelocationError(f"tensor {tensor} is not there", offset=table.file_offset, section=section)
        relocations.append((register, tensor, addend))
    count, core = max(table.i32(8), 1), table.i32(6)
    if not 0 <= core < count <= 8:
        raise BadTaskError(f"core {core} of {count}", offset=table.file_offset, section=section)
    place = TaskList(count, core)
    enable_mask, int_mask = table.i32(3) & 0xFFFFFFFF, table.i32(4) & 0xFFFFFFFF
    own = _Listed(node, words, tuple(relocations), enable_mask, int_mask, place)
    lut = table.i32(1)  # tensor 0 is never a table
    return [*_table_loads(own, table, lut, tensors, chip), own] if lut else [own]


def _register_words(table: Table, source: int, kind: Kind, tensors: tuple[Tensor, ...]) -> tuple[int, ...]:
    """The data of a tensor that holds register lists."""
    offset, section = table.file_offset, table.buffer.section
    if not 0 <= source < len(tensors) or tensors[source].data is None:
        raise BadReferenceError(f"register list {source} is not there", offset=offset, section=section)
    data = tensors[source].data or memoryview(b"")
    if tensors[source].kind is not kind or len(data) % 8:
        raise BadTaskError(
            f"tensor {source} is not a register list of kind {kind.name}", offset=offset, section=section
        )
    table.buffer.charge(len(data) * 8)
    return tuple(data.cast("Q"))


def _table_loads(user: _Listed, table: Table, lut: int, tensors: tuple[Tensor, ...], chip: Chip) -> Iterator[_Listed]:
    """The tasks that load the table of `user`: each list of its tensor starts with the same register."""
    registers = map_for(chip)
    words = _register_words(table, lut, Kind.LUT, tensors)
    start = registers.find(_LOAD_START).offset
    starts = [number for number, word in enumerate(words) if _register(word)[0] == start]
    if not words or starts[:1] != [0]:
        raise BadTaskError(
            f"table {tensors[lut].name!r} does not start with {_LOAD_START}",
            offset=table.file_offset,
            section=table.buffer.section,
        )
    relocations = tuple((registers.find(name).offset, lut, 0) for name in _LOAD_ADDRESSES)
    for first, end in pairwise([*starts, len(words)]):
        yield _Listed(user.node, words[first:end], relocations, _LOAD_BLOCKS, _LOAD_INTERRUPTS, user.place)


def _assemble(
    listed: list[_Listed], tensors: tuple[Tensor, ...], reader: TableReader
) -> tuple[memoryview, tuple[Task, ...], tuple[RelocationGroup, ...], dict[TaskList, range]]:
    """Commands in the order of the lists, each task aligned to 64 bytes and chained to the next of its list."""
    words = array("Q")
    tasks: list[Task] = []
    patches: dict[int, list[tuple[int, int]]] = defaultdict(list)
    lists: dict[TaskList, range] = {}
    for place in sorted({entry.place for entry in listed}):
        members = _members(listed, place)
        lists[place] = range(len(tasks), len(tasks) + len(members))
        for number, entry in enumerate(members):
            words.extend([0] * (-len(words) % 8))
            start = len(words)
            words.extend(_command(word) for word in entry.words)
            _note_relocations(entry, start, patches)
            tasks.append(
                Task(0, entry.node, entry.enable_mask, entry.int_mask, _INT_CLEAR, 0, len(entry.words), 0, 8 * start)
            )
            end = len(words) + 4
            following = members[number + 1] if number + 1 < len(members) else None
            words.extend(_tail(entry, following, (end + 7) // 8 * 64, reader))
    groups = tuple(
        RelocationGroup(
            tensors[index].name,
            memoryview(b"".join(struct.pack("<iI", *entry) for entry in patches[index])),
            memoryview(b""),
        )
        for index in sorted(patches)
    )
    return memoryview(words.tobytes()).cast("Q"), tuple(tasks), groups, lists


def _members(listed: list[_Listed], place: TaskList) -> list[_Listed]:
    """The register lists of one core. Core 0 does operators alone that the file does not divide."""
    divided = {entry.node for entry in listed if entry.place.core_count == place.core_count}
    alone = TaskList(1, 0) if place.core == 0 else place
    return [entry for entry in listed if entry.place == place or (entry.place == alone and entry.node not in divided)]


def _picture_tasks(
    tensors: tuple[Tensor, ...],
    tasks: tuple[Task, ...],
    relocations: tuple[RelocationGroup, ...],
    commands: memoryview,
    address: int,
) -> list[tuple[str, Task]]:
    """(input, task) for every task whose convolution reads an input of the model, by the register of its address."""
    inputs = {tensor.name for tensor in tensors if tensor.kind is Kind.INPUT}
    starts = [task.first_command for task in tasks]
    return [
        (group.tensor, tasks[bisect_right(starts, entry.command) - 1])
        for group in relocations
        if group.tensor in inputs
        for entry in group
        if offset_of(commands[entry.command]) == address
    ]


def _patches(reading: list[tuple[str, Task]], commands: memoryview, chip: Chip, kind: str) -> Iterator[InputPatch]:
    """Which commands depend on what is fed: format 1 has no table of them, so they are found by their registers.

    The lists hold what uint8 pictures need, as the commands of format 6 do (the vendor's multiple-input demo of
    toolkits 1.3.4 and 1.6.2 for RK3566: the same commands, word for word).
    """
    for name, task in reading:
        first = task.first_command
        places = {offset_of(commands[first + number]): first + number for number in range(task.amount)}
        slots = tuple(
            PatchSlot(value_of(commands[places[register]]), places[register]) if register in places else None
            for register in patch_offsets(chip.family, kind)
        )
        yield InputPatch(name, slots, slots)


def _command(word: int) -> int:
    register, value = _register(word)
    return Command(target_at(register), register, value).word


def _register(word: int) -> tuple[int, int]:
    """Register and value of an entry of a register list: the value is above the register, which is above 16 bits."""
    return word >> 16 & OFFSET_MASK, word >> 32


def _tail(entry: _Listed, following: _Listed | None, next_address: int, reader: TableReader) -> tuple[int, ...]:
    if following is None:
        return tail_words(entry.enable_mask)
    return tail_words(entry.enable_mask, next_address, fetch_amount(len(following.words), reader.chip.words_per_fetch))


def _note_relocations(entry: _Listed, start: int, patches: dict[int, list[tuple[int, int]]]) -> None:
    places = {_register(word)[0]: number for number, word in enumerate(entry.words)}
    for register, tensor, addend in entry.relocations:
        if register not in places:
            raise BadRelocationError(
                f"register {register:#06x} with addend {addend:#x} is not in the list",
                section=f"operator {entry.node}, register list",
            )
        patches[tensor].append((addend, start + places[register]))
