"""From the FlatBuffer tables of any generation to the typed parts.

One function per kind of table; `schema` says which slot holds what, so the same functions read all generations.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Mapping
from dataclasses import field
from enum import IntEnum
from types import MappingProxyType
from typing import Any, TypeVar

from openrknn.chips import Chip, TaskList
from openrknn.container import bson
from openrknn.container.flatbuffer import Table
from openrknn.container.parameters import PARAMETERS, RECURRENT
from openrknn.container.parts import (
    NO_TENSOR,
    TASK,
    DataType,
    DynamicInput,
    Graph,
    InputPatch,
    Kind,
    Layout,
    MemoryPlan,
    Node,
    Normalization,
    OutputTask,
    Parameters,
    ParameterValue,
    PatchSlot,
    Quantization,
    RelocationGroup,
    Task,
    Tensor,
)
from openrknn.container.schema import Generation, patch_offsets
from openrknn.errors import BadReferenceError, BadTaskError, BadTensorError, FormatError
from openrknn.records import dataclass

_Code = TypeVar("_Code", bound=IntEnum)

_MAX_RANK = 32
_MAX_SIDE = 2**31 - 1
_CLEAN_DOCUMENT_BYTES = 5
"""The shortest BSON document; shorter attribute vectors are "none" in the toolkit's hand."""
_LAYOUTS_BYTES = 32


@dataclass(slots=True)
class TableReader:
    """Reads the tables of one file; `unknown` gathers what the schema does not know."""

    generation: Generation
    chip: Chip
    unknown: list[str] = field(default_factory=list)

    # -- small helpers ------------------------------------------------------------------------------------------

    def note_unknown(self, table: Table, slots: Mapping[str, int], what: str, *known: int) -> None:
        """Remember slots that the file fills and the schema does not name."""
        for slot in sorted(table.present.difference(slots.values(), known)):
            self.unknown.append(f"{what} has slot {slot}, whose meaning is unknown")

    def note_filled(self, table: Table, slots: tuple[int, ...], what: str) -> None:
        """Remember vectors that no file was known to fill."""
        for slot in slots:
            if count := table.count(slot):
                self.unknown.append(f"{what} has {count} entries in slot {slot}, which was empty in every file so far")

    @staticmethod
    def numbers(table: Table, slot: int | None, what: str, limit: int = 4096) -> tuple[int, ...]:
        """A short vector of integers."""
        return _short(table, slot, what, limit, "i")

    @staticmethod
    def floats(table: Table, slot: int | None, what: str, limit: int = 65536) -> tuple[float, ...]:
        """A short vector of floats."""
        return _short(table, slot, what, limit, "f")

    # -- tensors ------------------------------------------------------------------------------------------------

    def tensor(self, table: Table, index: int, blobs: tuple[memoryview, ...] | None = None) -> Tensor:
        """One tensor; its data are one of `blobs`, where the file has such."""
        slots = self.generation.tensor
        name = table.text(slots["name"])
        table.buffer.section = f"tensor {index} {name!r}" if name else f"tensor {index}"
        self.note_unknown(table, slots, table.buffer.section)
        scale = self.floats(table, slots["scale"], "the scale")
        zero_point = self.numbers(table, slots["zero_point"], "the zero point", 65536)
        if len(scale) != len(zero_point):
            raise BadTensorError(
                f"{len(scale)} scales but {len(zero_point)} zero points",
                offset=table.file_offset,
                section=table.buffer.section,
            )
        axis = 0 if len(scale) > 1 else None
        blob = self._i32(table, "blob")
        if blobs is not None and not 0 <= blob < max(len(blobs), 1):
            raise BadReferenceError(
                f"blob {blob} is named, but there are {len(blobs)}",
                offset=table.file_offset,
                section=table.buffer.section,
            )
        return Tensor(
            index=index,
            name=name,
            dtype=_coded(DataType, table, slots["dtype"], "data type"),
            layout=_coded(Layout, table, slots["layout"], "layout"),
            kind=_coded(Kind, table, slots["kind"], "kind"),
            shape=self._shape(table, slots["shape"]),
            native_shape=self._shape(table, slots["native_shape"]),
            quantization=Quantization(scale, zero_point, axis) if scale else None,
            size_bytes=table.u32(slots["size_bytes"]),
            offset=table.u32(slots["offset"]),
            blob=blob,
            data=blobs[blob] if blobs is not None and blob else None,
            granularity=self._text(table, "granularity"),
            quantized_type=self._text(table, "quantized_type"),
            minimum=self.floats(table, slots.get("minimum"), "the minimum"),
            maximum=self.floats(table, slots.get("maximum"), "the maximum"),
            compressed=self._i32(table, "compressed"),
            compression=self._compression(table),
            pixel_alignment=self._i32(table, "pixel_alignment"),
            row_alignment=self._i32(table, "row_alignment"),
            memory_class=table.u8(slots["memory_class"]) if "memory_class" in slots else 0,
            identity=self._i32(table, "identity"),
        )

    def _i32(self, table: Table, name: str) -> int:
        slot = self.generation.tensor.get(name)
        return 0 if slot is None else table.i32(slot)

    def _text(self, table: Table, name: str) -> str:
        slot = self.generation.tensor.get(name)
        return "" if slot is None else table.text(slot)

    def _shape(self, table: Table, slot: int) -> tuple[int, ...]:
        shape = self.numbers(table, slot, "a shape", _MAX_RANK)
        if shape and (min(shape) < 0 or max(shape) > _MAX_SIDE):
            raise BadTensorError(
                f"the shape {shape} is impossible", offset=table.file_offset, section=table.buffer.section
            )
        return shape

    def _compression(self, table: Table) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]] | None:
        slots = self.generation.tensor
        amounts = self.numbers(table, slots.get("compressed_amounts"), "compression data")
        offsets = self.numbers(table, slots.get("compressed_offsets"), "compression data")
        third = self.numbers(table, slots.get("compressed_third"), "compression data")
        return (amounts, offsets, third) if amounts or offsets or third else None

    # -- operators ----------------------------------------------------------------------------------------------

    def node(self, table: Table, index: int, tensors: int) -> Node:
        """One operator."""
        slots = self.generation.node
        kind, name = table.text(slots["type"]), table.text(slots["name"])
        section = table.buffer.section = f"operator {index} {name or kind!r}"
        self.note_unknown(table, slots, section, *self.generation.ignored_node)
        attribute_bytes = table.u8s(slots["attributes"])
        groups: tuple[int, ...] = ()
        attributes: Mapping[str, bson.Value] = MappingProxyType({})
        if kind in {"OutputOperator", "InputOperator"}:
            groups = _ints(attribute_bytes)
        elif kind in RECURRENT:
            attributes = MappingProxyType(_layout_words(bytes(attribute_bytes[:_LAYOUTS_BYTES])))
        elif len(attribute_bytes) >= _CLEAN_DOCUMENT_BYTES:
            table.u8s(slots["attributes"], cost=16)
            attributes = _attributes(bytes(attribute_bytes), table)
        return Node(
            index=index,
            type=kind,
            name=name,
            target=table.u8(slots["target"]),
            inputs=self.indices(table, slots["inputs"], tensors, "tensor", least=NO_TENSOR),
            outputs=self.indices(table, slots["outputs"], tensors, "tensor", least=NO_TENSOR),
            attributes=attributes,
            attribute_bytes=attribute_bytes,
            parameters=self._parameters(table, section),
            task_counts=self.numbers(table, slots.get("task_counts"), "the task counts"),
            lut_task_counts=self.numbers(table, slots.get("lut_task_counts"), "the LUT task counts"),
            workloads=self.numbers(table, slots.get("workloads"), "the workloads"),
            mac_flag=table.u8(slots["mac_flag"]) if "mac_flag" in slots else 0,
            output_groups=groups,
        )

    def indices(self, table: Table, slot: int, count: int, what: str, *, least: int = 0) -> tuple[int, ...]:
        """A vector of indices into something that has `count` entries."""
        numbers = self.numbers(table, slot, f"a list of {what}s", 65536)
        for number in numbers:
            if not least <= number < count:
                raise BadReferenceError(
                    f"{what} {number} is named, but there are {count}",
                    offset=table.file_offset,
                    section=table.buffer.section,
                )
        return numbers

    def _parameters(self, table: Table, section: str) -> Parameters | None:
        slots = self.generation.node
        kind, inner = table.u8(slots["parameter_type"]), table.table(slots["parameters"])
        if not kind and inner is None:
            return None
        known = PARAMETERS.get(kind)
        if known is None or inner is None:
            self.unknown.append(f"{section} has parameters of type {kind}, which is unknown")
            return Parameters(kind, None)
        values: dict[str, ParameterValue] = {}
        if known.slots:  # of a table without any the converter writes a reference that leads anywhere
            names = {name: slot for slot, (name, _) in enumerate(known.slots)}
            self.note_unknown(inner, names, f"{section}, parameters")
        for slot, (name, coding) in enumerate(known.slots):
            if slot in inner.present:
                values[name] = self._parameter(inner, slot, coding)
        return Parameters(kind, MappingProxyType(values))

    def _parameter(self, table: Table, slot: int, coding: str) -> ParameterValue:
        match coding:
            case "i":
                return table.i32(slot)
            case "f":
                return table.f32(slot)
            case "s":
                return table.text(slot)
            case "fs":
                return self.floats(table, slot, "a parameter", 4096)
            case "ss":
                return table.texts(slot)
            case _:
                return self.numbers(table, slot, "a parameter")

    # -- graph parts --------------------------------------------------------------------------------------------

    def normalization(self, table: Table) -> Normalization:
        """Mean, std and channel order of one input."""
        return Normalization(
            mean=self.floats(table, 0, "the mean"),
            std=self.floats(table, 1, "the std"),
            order=self.numbers(table, 2, "the channel order"),
        )

    def relocation(self, table: Table) -> RelocationGroup:
        """All places of one tensor's address."""
        slots = self.generation.relocation
        cores = table.structs(slots["cores"], 8) if "cores" in slots else memoryview(b"")
        return RelocationGroup(table.text(slots["tensor"]), table.structs(slots["entries"], 8), cores)

    def patches(self, tables: tuple[Table, ...], kind: str, commands: memoryview) -> tuple[InputPatch, ...]:
        """Register patches of image inputs; slots that do not fit the commands are left out."""
        expected = patch_offsets(self.chip.family, kind)
        patches = []
        for table in tables:
            name = table.text(0)
            for entry in table.tables(1):
                raw = tuple(entry.pair(slot) for slot in range(7 if kind == "image" else 13))
                slots = tuple(
                    PatchSlot(*pair) if pair and _fits(pair[1], register, commands) else None
                    for pair, register in zip(raw, expected, strict=False)
                )
                patches.append(
                    InputPatch(
                        input=name,
                        slots=slots,
                        raw_slots=tuple(PatchSlot(*pair) if pair else None for pair in raw),
                        last=entry.i32(7) if kind == "image" else 0,
                        first_row=entry.i32(8) if kind == "image" else 0,
                    )
                )
        return tuple(patches)

    def output_task(self, table: Table) -> OutputTask:
        return OutputTask(table.text(0), table.i32(1))

    def dynamic_input(self, table: Table) -> DynamicInput:
        return DynamicInput(tuple(self._shape(shape, 0) for shape in table.tables(0)))

    def memory(self, table: Table | None) -> MemoryPlan:
        return MemoryPlan(0, 0, 0) if table is None else MemoryPlan(table.u64(0), table.u64(1), table.u64(2))

    def graph(
        self,
        table: Table,
        index: int,
        *,
        tensors: tuple[Tensor, ...],
        nodes: tuple[Node, ...],
        commands: memoryview,
        tasks: tuple[Task, ...],
    ) -> Graph:
        """A graph of a generation that stores command streams."""
        slots = self.generation.graph
        section = table.buffer.section = f"graph {index}"
        self.note_unknown(table, slots, section, *self.generation.empty_graph)
        self.note_filled(table, self.generation.empty_graph, section)
        starts = self.numbers(table, slots.get("list_starts"), "the task list starts")
        return Graph(
            index=index,
            tensors=tensors,
            nodes=nodes,
            inputs=self.indices(table, slots["inputs"], len(tensors), "tensor"),
            outputs=self.indices(table, slots["outputs"], len(tensors), "tensor"),
            normalizations=tuple(self.normalization(entry) for entry in table.tables(slots["normalizations"])),
            relocations=tuple(self.relocation(entry) for entry in table.tables(slots["relocations"])),
            image_patches=self.patches(table.tables(slots["image_patches"]), "image", commands),
            convert_patches=self.patches(table.tables(slots["convert_patches"]), "convert", commands),
            list_starts=starts,
            output_tasks=tuple(self.output_task(entry) for entry in table.tables(slots["output_tasks"]))
            if "output_tasks" in slots
            else (),
            commands=commands,
            tasks=tasks,
            task_lists=task_lists(nodes, tasks, self.chip, section),
        )


def _coded(enum: type[_Code], table: Table, slot: int, what: str) -> _Code:
    code = table.u8(slot)
    found: _Code | None = _members(enum).get(code)
    if found is None:
        raise BadTensorError(
            f"{what} code {code} is unknown", offset=table.file_offset, section=table.buffer.section
        )
    return found


@functools.cache
def _members(enum: type[_Code]) -> Mapping[int, _Code]:
    """By number: faster to look up than to ask the enumeration."""
    return {int(one): one for one in enum}


def _attributes(data: bytes, table: Table) -> Mapping[str, bson.Value]:
    """`{name: {dtype, value}}` as `{name: value}`."""
    document = bson.decode(data, offset=table.file_offset, section=table.buffer.section)
    return MappingProxyType(
        {
            name: entry["value"] if isinstance(entry, Mapping) and "value" in entry else entry
            for name, entry in document.items()
        }
    )


def _layout_words(data: bytes) -> dict[str, bson.Value]:
    """Recurrent operators have two words of 16 bytes instead of BSON, "snc" and "sbnc", and numbers of the NPU's."""
    words = [data[at : at + _LAYOUTS_BYTES // 2].split(b"\0", 1)[0] for at in (0, _LAYOUTS_BYTES // 2)]
    names = ("input_layout", "output_layout")
    return {name: word.decode("ascii", "replace") for name, word in zip(names, words, strict=True) if word}


def _ints(data: memoryview) -> tuple[int, ...]:
    count = len(data) // 4
    return struct.unpack_from(f"<{count}i", data) if count <= 64 else ()


def _fits(command: int, register: int | None, commands: memoryview) -> bool:
    return register is not None and command < len(commands) and commands[command] & 0xFFFF == register


def read_tasks(data: memoryview, section: str, offset: int | None = None) -> tuple[Task, ...]:
    """The task records in `data`."""
    if len(data) % TASK.size:
        raise BadTaskError(
            f"{len(data)} bytes of task records are not a multiple of {TASK.size}", offset=offset, section=section
        )
    return tuple(Task(*fields) for fields in TASK.iter_unpack(data))


def task_lists(nodes: tuple[Node, ...], tasks: tuple[Task, ...], chip: Chip, section: str) -> Mapping[TaskList, range]:
    """Which tasks belong to which list, from the counts in the operators.

    RK3588 and RK3576 count the tasks that load look-up tables apart, the others count them in. RK3576 stores its
    one-core list once per core and counts it once.
    """
    apart = chip.family in {"rk3588", "rk3576"}
    lists = chip.task_lists
    result: dict[TaskList, range] = {}
    start = 0
    slot = -1
    for number, entry in enumerate(lists):
        if number == 0 or entry.core_count > 1:
            slot += 1
        count = sum(
            _count(node.task_counts, slot) + (_count(node.lut_task_counts, slot) if apart else 0) for node in nodes
        )
        if count:
            result[entry] = range(start, start + count)
        start += count
    if start != len(tasks):
        raise BadTaskError(
            f"the operators count {start} tasks, the file has {len(tasks)} task records", section=section
        )
    return MappingProxyType(result)


def _count(counts: tuple[int, ...], slot: int) -> int:
    count = counts[slot] if slot < len(counts) else 0
    if not 0 <= count < 2**24:
        raise BadTaskError(f"an operator claims {count} tasks")
    return count


def _short(table: Table, slot: int | None, what: str, limit: int, code: str) -> tuple[Any, ...]:
    found = () if slot is None else table.short(slot, code, limit, _NUMBER_COST)
    if found is None:
        count = table.count(slot or 0)
        raise FormatError(f"{what} has {count} entries", offset=table.file_offset, section=table.buffer.section)
    return found


_NUMBER_COST = 64
"""Of a number that becomes a Python object."""
