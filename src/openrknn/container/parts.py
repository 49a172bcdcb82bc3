"""The typed objects that a `.rknn` becomes: `Model`, its graphs, tensors, operators, tasks and relocations.

Everything here is a plain frozen value. Numbers, texts and shapes are Python objects; weights, commands and
relocation lists stay `memoryview`s into the file.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from openrknn.backports import StrEnum
from openrknn.chips import Chip, TaskList
from openrknn.container.bson import Value
from openrknn.isa.words import TAIL_WORDS
from openrknn.records import dataclass


class DataType(IntEnum):
    """Element types, with the codes of the file."""

    NONE = 0
    FLOAT32 = 1
    UINT8 = 2
    INT8 = 3
    UINT16 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    STRING = 8
    BOOL = 9
    FLOAT16 = 10
    FLOAT64 = 11
    UINT32 = 12
    UINT64 = 13
    COMPLEX64 = 14
    COMPLEX128 = 15
    BFLOAT16 = 16
    INT4 = 64

    @property
    def label(self) -> str:
        """The name that NumPy and ONNX use: "int8", "float16"."""
        return self.name.lower()

    @property
    def bits(self) -> int:
        """Bits of one element; 0 where the type has no fixed size."""
        return _BITS[self]


_BITS = {
    DataType.NONE: 0,
    DataType.STRING: 0,
    DataType.INT4: 4,
    DataType.UINT8: 8,
    DataType.INT8: 8,
    DataType.BOOL: 8,
    DataType.UINT16: 16,
    DataType.INT16: 16,
    DataType.FLOAT16: 16,
    DataType.BFLOAT16: 16,
    DataType.FLOAT32: 32,
    DataType.INT32: 32,
    DataType.UINT32: 32,
    DataType.FLOAT64: 64,
    DataType.INT64: 64,
    DataType.UINT64: 64,
    DataType.COMPLEX64: 64,
    DataType.COMPLEX128: 128,
}


class Layout(IntEnum):
    """The order of a tensor's dimensions in memory, with the codes of the file."""

    UNDEFINED = 0
    NHWC = 1
    NCHW = 2
    CHWN = 3
    HWIO = 4
    OIHW = 5
    NC1HWC2 = 64
    O1I1HWI2O2 = 65

    @property
    def label(self) -> str:
        return self.name.lower()


class Kind(IntEnum):
    """What a tensor is for, and so which memory it lives in, with the codes of the file."""

    NONE = 0
    INPUT = 1
    OUTPUT = 2
    INTERNAL = 3
    WEIGHT = 4
    CPU_CONSTANT = 5
    LUT = 6
    REGISTER_LIST = 7
    COMPILER_CONSTANT = 8
    COMMANDS = 9
    TASKS = 10

    @property
    def is_activation(self) -> bool:
        """Lives in internal memory, at its `offset`."""
        return self in {Kind.INPUT, Kind.OUTPUT, Kind.INTERNAL}


class Placement(StrEnum):
    """Who executes an operator."""

    CPU = "cpu"
    GPU = "gpu"
    NPU = "npu"
    CUSTOM = "custom"


@dataclass(frozen=True, slots=True)
class Quantization:
    """`value = (stored - zero_point) * scale`; one pair for the tensor, or one per entry along `axis`."""

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    axis: int | None = None


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor of a graph, as the file describes it."""

    index: int
    name: str
    dtype: DataType
    layout: Layout
    kind: Kind
    shape: tuple[int, ...]
    """Original order: NCHW for features, OIHW for weights."""
    native_shape: tuple[int, ...]
    """As stored in memory, e.g. [N, C1, H, W, C2]."""
    quantization: Quantization | None
    size_bytes: int
    """What the compiler allocated, padding included."""
    offset: int
    """Byte offset in internal memory (activations); in mini files in the region of its kind."""
    blob: int = 0
    """Number of the data blob; 0 is none."""
    data: memoryview | None = field(default=None, repr=False)
    """The constant's bytes, in the file."""
    granularity: str = ""
    quantized_type: str = ""
    minimum: tuple[float, ...] = ()
    """Smallest value seen in calibration."""
    maximum: tuple[float, ...] = ()
    compressed: int = 0
    compression: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]] | None = None
    """Compressed weights only, one number per lane: bytes of the payload, offset of the lane, bytes of its header."""
    pixel_alignment: int = 0
    """The plane H*W is rounded up to a multiple of this (4 or 0 = not)."""
    row_alignment: int = 0
    """Image inputs: rows are padded to a multiple of this many pixels."""
    memory_class: int = 0
    """0 = DRAM; 2 = on-chip buffer of RK3562 and RK3576 (a guess)."""
    identity: int = 0
    """Mini files number their tensors; -1 is none."""

    @property
    def elements(self) -> int:
        """Number of elements of `shape`."""
        count = 1
        for size in self.shape:
            count *= size
        return count


ParameterValue: TypeAlias = int | float | str | tuple[int, ...] | tuple[float, ...] | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Parameters:
    """What an operator's CPU implementation reads; `values` is None where the table's type is unknown."""

    type: int
    values: Mapping[str, ParameterValue] | None


NO_TENSOR = -1
"""The index of an optional input or output that an operator does not have."""


@dataclass(frozen=True, slots=True)
class Node:
    """One operator of a graph, as the file describes it: tensors by index."""

    index: int
    type: str
    name: str
    target: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    attributes: Mapping[str, Value]
    """ONNX attributes by name."""
    attribute_bytes: memoryview = field(repr=False)
    """The attributes as they are stored (BSON), or the task groups of an OutputOperator."""
    parameters: Parameters | None = None
    task_counts: tuple[int, ...] = ()
    """Tasks in each task list."""
    lut_task_counts: tuple[int, ...] = ()
    workloads: tuple[int, ...] = ()
    mac_flag: int = 0
    output_groups: tuple[int, ...] = ()
    """OutputOperator: tasks in each of its four conversions."""


class Task(NamedTuple):
    """One task record: 40 bytes in the file, the kernel driver's `rknpu_task`."""

    flags: int
    op_index: int
    enable_mask: int
    int_mask: int
    int_clear: int
    int_status: int
    amount: int
    """Body commands; four tail commands follow them."""
    cfg_offset: int
    address: int
    """Byte offset of the first command in the graph's commands."""

    @property
    def first_command(self) -> int:
        return self.address // 8


TASK = struct.Struct("<8IQ")
"""The layout of `Task` in the file."""


class Relocation(NamedTuple):
    """value of `command` := address of `tensor` + `addend`."""

    tensor: str
    addend: int
    command: int
    core: int | None


@dataclass(frozen=True, slots=True)
class RelocationGroup:
    """All places that hold the address of one tensor."""

    tensor: str
    entries: memoryview = field(repr=False)
    """Pairs (addend, command index), 32 bit each."""
    cores: memoryview = field(repr=False)
    """Pairs (1, core), one per entry; empty on single-core chips."""

    def __len__(self) -> int:
        return len(self.entries) // 8

    def __iter__(self) -> Iterator[Relocation]:
        cores = [core for _, core in struct.iter_unpack("<II", self.cores)]
        for number, (addend, command) in enumerate(struct.iter_unpack("<iI", self.entries)):
            yield Relocation(self.tensor, addend, command, cores[number] if number < len(cores) else None)


def sorted_groups(groups: Iterable[RelocationGroup]) -> tuple[RelocationGroup, ...]:
    """In the order that files have: by the bytes of the names (391 of 391 of the vendor's).

    librknnmrt 2.3.2 looks a tensor up that way. In another order it misses an input, and the NPU reads memory that
    was never written.
    """
    return tuple(sorted(groups, key=lambda group: group.tensor.encode()))


class PatchSlot(NamedTuple):
    """A register value that the runtime writes for some kinds of input: `value` into command `command`."""

    value: int
    command: int


@dataclass(frozen=True, slots=True)
class InputPatch:
    """Registers of one task that depend on what the application feeds into an image input."""

    input: str
    slots: tuple[PatchSlot | None, ...]
    """By slot number (schema.patch_names); None where the slot is unused or not valid."""
    raw_slots: tuple[PatchSlot | None, ...] = field(repr=False)
    """As stored, uninitialised ones included."""
    last: int = 0
    first_row: int = 0
    """First row of the input that this task's slice reads."""


@dataclass(frozen=True, slots=True)
class Normalization:
    """`(pixel - mean) / std` per channel, done inside the model."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    order: tuple[int, ...]


class OutputTask(NamedTuple):
    """An output is complete after this many tasks of the one-core list."""

    name: str
    tasks: int


@dataclass(frozen=True, slots=True)
class DynamicInput:
    """The shapes that one input can take; entry k belongs to graph k."""

    shapes: tuple[tuple[int, ...], ...]


class MemoryPlan(NamedTuple):
    """Bytes that the compiler planned; advisory, the runtime computes its own."""

    weight_bytes: int
    internal_bytes: int
    constant_bytes: int


@dataclass(frozen=True, slots=True)
class Graph:
    """One graph: a model has one, or one per shape when its shapes are dynamic."""

    index: int
    tensors: tuple[Tensor, ...]
    nodes: tuple[Node, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    normalizations: tuple[Normalization, ...]
    relocations: tuple[RelocationGroup, ...]
    image_patches: tuple[InputPatch, ...]
    convert_patches: tuple[InputPatch, ...]
    list_starts: tuple[int, ...]
    """First task of the lists, as stored; `task_lists` is the reading of it."""
    output_tasks: tuple[OutputTask, ...]
    commands: memoryview = field(repr=False)
    """All register commands, 64 bits each."""
    tasks: tuple[Task, ...] = field(repr=False)
    task_lists: Mapping[TaskList, range]
    """Which tasks each core executes, for each number of cores."""

    def task_words(self, task: Task, *, tail: bool = True) -> memoryview:
        """The command words of one task, with or without the four tail words."""
        first = task.first_command
        return self.commands[first : first + task.amount + (TAIL_WORDS if tail else 0)]

    def tensor_named(self, name: str) -> Tensor | None:
        """The tensor with this name; names are unique, only tensor 0 has none."""
        return next((tensor for tensor in self.tensors if tensor.name == name), None)

    def chip_lists(self, chip: Chip) -> tuple[TaskList, ...]:
        """The lists that this graph really has, in the chip's order."""
        return tuple(entry for entry in chip.task_lists if entry in self.task_lists)
