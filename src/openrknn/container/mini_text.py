"""The first mini container (0x1003, toolkits 1.4.1 and 1.5.0): the names are JSON, written in base64.

Payload: a head of seven sizes, the names, the task records, the commands, the weights. As in 0x1004 everything is
linked at base 0, but the plan begins with the task records: [tasks | commands | weights | internal memory]. Nothing
says which commands hold addresses, so they are found by their registers; a tensor's `taskinfos` say which register of
which task holds it, and where that is silent the place in the plan decides. Worked out from 10 files of a vendor's SDK:
every address register of every task in them falls inside the tensor that its entry names.

Behind the network stand tasks that write the outputs in two more layouts (those of the OutputOperators). openrknn
converts outputs itself and leaves them out.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import struct
from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from openrknn.chips import Chip
from openrknn.container.mini import HEAD, HEAD_BYTES
from openrknn.container.parts import (
    TASK,
    DataType,
    Graph,
    InputPatch,
    Kind,
    Layout,
    MemoryPlan,
    Node,
    Normalization,
    PatchSlot,
    Quantization,
    RelocationGroup,
    Task,
    Tensor,
)
from openrknn.container.reader import read_tasks, task_lists
from openrknn.container.schema import PATCH_REGISTERS
from openrknn.errors import BadReferenceError, BadTableError, BadTaskError, BadTextError, TruncatedError

__all__ = ["MiniText", "read_graph", "split"]

_SECTION = "names"
_ADDRESSES = frozenset({0x1070, 0x1110, 0x4020, 0x5018, 0x5020, 0x502C, 0x5038, 0x6070, 0x701C})
"""The registers that hold an address on RV1103 and RV1106: input, weights, output, the DPU's four readers, the PPU."""
_OFFSETS = (0x1058, 0x105C, 0x101C, 0x106C)
"""Offsets of the input converter, raised by the shift, lane by lane."""
_PC_BASE = 0x0101_0000_0000_0010
_REGISTER_MASK = 0xFFFF_0000_0000_FFFF
_ALIGNMENT = 64
_KINDS = {
    "UNDEFINED": Kind.NONE,
    "INPUT": Kind.INPUT,
    "OUTPUT": Kind.OUTPUT,
    "INTERNAL": Kind.INTERNAL,
    "WEIGHT": Kind.WEIGHT,
    "COEFF": Kind.CPU_CONSTANT,
    "LUT": Kind.LUT,
    "REGCFG": Kind.REGISTER_LIST,
}
_TARGETS = {"CPU": 0, "GPU": 1, "NPU": 2}
_PICTURE_CHANNELS = 4
_REST, _UNNAMED = "(internal memory)", "(constants)"


@dataclass(frozen=True, slots=True)
class MiniText:
    """The regions of the payload, and the names."""

    names: Mapping[str, Any] = field(repr=False)
    tasks: tuple[Task, ...] = field(repr=False)
    commands: memoryview = field(repr=False)
    weights: memoryview = field(repr=False)
    task_bytes: int
    internal_bytes: int

    @property
    def weight_start(self) -> int:
        """Where the weights begin in the plan."""
        return self.task_bytes + 8 * len(self.commands)

    @property
    def internal_start(self) -> int:
        return self.weight_start + len(self.weights)

    @property
    def memory(self) -> MemoryPlan:
        return MemoryPlan(len(self.weights), self.internal_bytes, 0)


def split(payload: memoryview, payload_offset: int) -> MiniText:
    """Cut the payload into its regions and read the names."""
    if len(payload) < HEAD_BYTES:
        raise TruncatedError(f"the mini head needs {HEAD_BYTES} bytes", offset=payload_offset, section="mini head")
    names, tasks, count, commands, internal, weights, _ = HEAD.unpack_from(payload)
    if HEAD_BYTES + names + tasks + commands + weights > len(payload) or count * TASK.size > tasks or commands % 8:
        raise TruncatedError(
            f"the mini head announces {names} + {tasks} + {commands} + {weights} bytes and {count} tasks, the payload "
            f"has {len(payload)} bytes",
            offset=payload_offset,
            section="mini head",
        )
    at = HEAD_BYTES + names
    return MiniText(
        names=_names(payload[HEAD_BYTES:at], payload_offset + HEAD_BYTES),
        tasks=read_tasks(payload[at : at + count * TASK.size], "mini task records"),
        commands=memoryview(bytes(payload[at + tasks : at + tasks + commands])).cast("Q"),
        weights=payload[at + tasks + commands : at + tasks + commands + weights],
        task_bytes=tasks,
        internal_bytes=internal,
    )


def _names(data: memoryview, offset: int) -> Mapping[str, Any]:
    try:
        found = json.loads(base64.b64decode(bytes(data).rstrip(b"\0"), validate=True))
    except (binascii.Error, ValueError, RecursionError) as error:
        raise BadTextError(f"the names are not JSON in base64: {error}", offset=offset, section=_SECTION) from None
    if not isinstance(found, dict):
        raise BadTextError("the names are no JSON object", offset=offset, section=_SECTION)
    return found


def read_graph(parts: MiniText, chip: Chip) -> Graph:
    """The one graph of the file."""
    try:
        return _graph(parts, chip)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise BadTableError(f"an entry of the names is missing or of another type: {error}", section=_SECTION) from None


def _graph(parts: MiniText, chip: Chip) -> Graph:
    entries = parts.names["subgraph_tensors"]
    operators = parts.names["operators"]
    count = _network_tasks(operators, len(parts.tasks))
    tasks = parts.tasks[:count]
    places = dict(_addresses(parts, tasks))
    named = tuple(_tensors(entries, parts, places))
    named += _unnamed_constants(named, parts)
    tensors = (*named, _rest(len(named), parts))
    nodes = tuple(_node(entry, number, len(entries), count) for number, entry in enumerate(operators))
    return Graph(
        index=0,
        tensors=tensors,
        nodes=nodes,
        inputs=tuple(tensor.index for tensor in tensors if tensor.kind is Kind.INPUT),
        outputs=tuple(tensor.index for tensor in tensors if tensor.kind is Kind.OUTPUT),
        normalizations=tuple(_normalization(tensor, parts) for tensor in tensors if tensor.kind is Kind.INPUT),
        relocations=_relocations(entries, tensors, parts, places),
        image_patches=(),
        convert_patches=tuple(_patches(parts, tasks, chip)),
        list_starts=(),
        output_tasks=(),
        commands=_relinked(parts, tasks),
        tasks=tasks,
        task_lists=task_lists(nodes, tasks, chip, _SECTION),
    )


def _network_tasks(operators: Sequence[Mapping[str, Any]], count: int) -> int:
    """How many tasks come before those that write outputs in other layouts."""
    extra = [entry["taskinfo"] for entry in operators if entry["type"] == "OutputOperator"]
    kept = min([count, *(info["task_start"] for info in extra if info["task_number"])])
    if not 0 < kept <= count:
        raise BadTaskError(f"the outputs' own tasks start at {kept} of {count}", section=_SECTION)
    return int(kept)


def _relinked(parts: MiniText, tasks: Sequence[Task]) -> memoryview:
    """The commands with links that count from the first command, and none behind the last task."""
    words = array("Q", parts.commands)
    for number, task in enumerate(tasks):
        at = task.first_command + task.amount
        if at >= len(words):
            raise BadTaskError(f"its {task.amount} commands are outside the file's", section=f"task {number}")
        if words[at] & _REGISTER_MASK == _PC_BASE:
            link = (words[at] >> 16 & 0xFFFFFFFF) - parts.task_bytes
            words[at] = _PC_BASE | (link & 0xFFFFFFFF) << 16 if number + 1 < len(tasks) else 0
    return memoryview(words.tobytes()).cast("Q")


def _addresses(parts: MiniText, tasks: Sequence[Task]) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """(task, register) -> (command, address in the plan); address 0 is a reader that is off."""
    for number, task in enumerate(tasks):
        for at in range(task.first_command, min(task.first_command + task.amount, len(parts.commands))):
            word = parts.commands[at]
            if word & 0xFFFF in _ADDRESSES and (value := word >> 16 & 0xFFFFFFFF):
                yield (number, word & 0xFFFF), (at, value)


# -- tensors ------------------------------------------------------------------------------------------------------


def _tensors(
    entries: Sequence[Mapping[str, Any]],
    parts: MiniText,
    places: Mapping[tuple[int, int], tuple[int, int]],
) -> Iterator[Tensor]:
    starts = {number: _constant_start(entry, parts, places) for number, entry in enumerate(entries)}
    edges = sorted({start for start in starts.values() if start is not None} | {len(parts.weights)})
    pictures = {entry["name"]: int(entry.get("stride_align_size", 0)) for entry in parts.names["inputs"]}
    for number, entry in enumerate(entries):
        kind = _KINDS[entry["category"]]
        start = starts[number]
        data = None if start is None else parts.weights[start : edges[bisect_right(edges, start)]]
        alignment = pictures.get(entry["name"], 0) if kind is Kind.INPUT else 0
        tensor = _tensor(entry, number, kind, alignment)
        if kind.is_activation:
            yield replace(tensor, offset=_internal_offset(entry, parts))
        elif data is not None:
            yield replace(tensor, offset=start or 0, size_bytes=len(data), blob=1, data=data)
        else:
            yield tensor


def _tensor(entry: Mapping[str, Any], number: int, kind: Kind, alignment: int) -> Tensor:
    """One tensor without its place; `alignment`: how rows of pictures are padded."""
    shape, native = (tuple(map(int, entry[name] or ())) for name in ("orig_shape", "shape"))
    dtype = DataType[entry["dtype"]] if entry["dtype"] != "UNDEFINED" else DataType.NONE
    if len(shape) != 4 or not 1 <= shape[1] <= _PICTURE_CHANNELS:
        alignment = 0
    elements = math.prod(native)
    if alignment:
        elements = math.prod(shape[:3]) * -(-shape[3] // alignment) * alignment
    quant = entry["quantinfo"]
    return Tensor(
        index=number,
        name=entry["name"] if kind is not Kind.REGISTER_LIST else "",
        dtype=dtype,
        layout=Layout[entry["layout"]],
        kind=kind,
        shape=shape,
        native_shape=native,
        quantization=Quantization((float(quant["scale"]),), (int(quant["zp"]),)) if kind.is_activation else None,
        size_bytes=-(-elements * dtype.bits // 8 // _ALIGNMENT) * _ALIGNMENT,
        offset=0,
        row_alignment=alignment,
    )


def _internal_offset(entry: Mapping[str, Any], parts: MiniText) -> int:
    offset = int(entry["offset"]) - parts.internal_start
    if not 0 <= offset <= parts.internal_bytes:
        raise BadReferenceError(f"{entry['name']!r} lies outside the internal memory", section=_SECTION)
    return offset


def _unnamed_constants(named: Sequence[Tensor], parts: MiniText) -> tuple[Tensor, ...]:
    """What lies before the first weight, if anything does: slopes of PRelu, which no entry claims."""
    end = min((tensor.offset for tensor in named if tensor.data is not None), default=len(parts.weights))
    whole = _whole(len(named), _UNNAMED, Kind.WEIGHT, end)
    return (replace(whole, blob=1, data=parts.weights[:end]),) if end else ()


def _rest(number: int, parts: MiniText) -> Tensor:
    """All internal memory as one tensor, for addresses that no entry claims."""
    return _whole(number, _REST, Kind.INTERNAL, parts.internal_bytes)


def _whole(number: int, name: str, kind: Kind, size: int) -> Tensor:
    layout = Layout.UNDEFINED
    return Tensor(number, name, DataType.INT8, layout, kind, (size,), (size,), None, size_bytes=size, offset=0)


def _claims(entry: Mapping[str, Any]) -> Iterator[tuple[int, int]]:
    for info in entry["taskinfos"] or ():
        for task in range(info["task_start"], info["task_start"] + min(info["task_number"], 1 << 16)):
            yield task, info["addr_regofs"]


def _constant_start(
    entry: Mapping[str, Any], parts: MiniText, places: Mapping[tuple[int, int], tuple[int, int]]
) -> int | None:
    """Where a weight begins: toolkit 1.4.1 leaves its offset 0, so the commands that read it say it."""
    if _KINDS[entry["category"]] is not Kind.WEIGHT:
        return None
    found = [places[claim][1] - parts.weight_start for claim in _claims(entry) if claim in places]
    return min((start for start in found if 0 <= start < len(parts.weights)), default=None)


def _node(entry: Mapping[str, Any], number: int, tensors: int, tasks: int) -> Node:
    inputs, outputs = (tuple(map(int, entry[name] or ())) for name in ("inputs", "outputs"))
    for index in (*inputs, *outputs):
        if not 0 <= index < tensors:
            raise BadReferenceError(f"tensor {index} is named, but there are {tensors}", section=_SECTION)
    info = entry["taskinfo"]
    count = int(info["task_number"]) if int(info["task_start"]) < tasks else 0
    is_end = entry["type"] in {"InputOperator", "OutputOperator"}
    return Node(
        index=number,
        type=entry["type"],
        name=entry["name"],
        target=0 if is_end else _TARGETS[entry["target"]],
        inputs=inputs[:1] if is_end else inputs,
        outputs=outputs,
        attributes=MappingProxyType(entry["params"] or {}),
        attribute_bytes=memoryview(b""),
        task_counts=(count,),
    )


def _normalization(tensor: Tensor, parts: MiniText) -> Normalization:
    """Mean and std, out of the converter's registers: v = x * multiplier >> shift, plus the offset.

    The names have them in an older form or not at all.
    """
    lanes = 4
    for config in parts.names["argb_configs"] or ():
        if config["name"] == tensor.name and tensor.quantization is not None:
            value = {entry["addr_regofs"]: int(entry["org_regval"]) for entry in config["argb_reginfos"]}
            scale, zero = tensor.quantization.scale[0], tensor.quantization.zero_point[0]
            shifts = [value[0x104C] >> 4 + 6 * lane & 0x3F for lane in range(lanes)]
            factors = [
                (value[0x1050 + lane // 2 * 4] >> lane % 2 * 16 & 0xFFFF) / 2 ** shifts[lane] for lane in range(lanes)
            ]
            offsets = [value[register] / 2**shift for register, shift in zip(_OFFSETS, shifts, strict=True)]
            return Normalization(
                mean=tuple((zero - offset) / factor for offset, factor in zip(offsets, factors, strict=True)),
                std=tuple(1 / (factor * scale) for factor in factors),
                order=tuple(range(lanes)),
            )
    return Normalization((0.0,) * lanes, (1.0,) * lanes, tuple(range(lanes)))


# -- what points at what ------------------------------------------------------------------------------------------


def _relocations(
    entries: Sequence[Mapping[str, Any]],
    tensors: Sequence[Tensor],
    parts: MiniText,
    places: Mapping[tuple[int, int], tuple[int, int]],
) -> tuple[RelocationGroup, ...]:
    """Every address register with the tensor that it means and the distance from its start."""
    claimed: dict[tuple[int, int], list[int]] = defaultdict(list)
    for number, entry in enumerate(entries):
        for claim in _claims(entry):
            claimed[claim].append(number)
    constants = sorted((tensor.offset, tensor.index) for tensor in tensors if tensor.data is not None)
    groups: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for place, (command, value) in places.items():
        if value >= parts.internal_start:
            index, addend = _activation(claimed.get(place, ()), tensors, value - parts.internal_start)
        elif value >= parts.weight_start:
            start, index = constants[bisect_right(constants, (value - parts.weight_start, len(tensors))) - 1]
            addend = value - parts.weight_start - start
        else:  # the task that loads a table copies one atom of the commands onto itself
            index = next((number for number in claimed.get(place, ()) if tensors[number].kind is Kind.LUT), -1)
            addend = 0
        if index >= 0:
            groups[index].append((addend, command))
    return tuple(
        RelocationGroup(
            tensors[index].name,
            memoryview(b"".join(struct.pack("<iI", *entry) for entry in groups[index])),
            memoryview(b""),
        )
        for index in sorted(groups)
    )


def _activation(claimants: Sequence[int], tensors: Sequence[Tensor], offset: int) -> tuple[int, int]:
    """The claimant that has this place (the one that starts last), else all of the internal memory."""
    fitting = [
        (tensors[number].offset, number)
        for number in claimants
        if tensors[number].kind.is_activation and 0 <= offset - tensors[number].offset < tensors[number].size_bytes
    ]
    start, index = max(fitting, default=(0, len(tensors) - 1))
    return index, offset - start


def _patches(parts: MiniText, tasks: Sequence[Task], chip: Chip) -> Iterator[InputPatch]:
    """The converter's registers: the commands hold what uint8 pictures need."""
    registers = PATCH_REGISTERS[chip.family]["convert"]
    for config in parts.names["argb_configs"] or ():
        for info in config["taskinfos"] or ():
            if info["task_start"] >= len(tasks):
                continue
            task = tasks[info["task_start"]]
            at = {parts.commands[k] & 0xFFFF: k for k in range(task.first_command, task.first_command + task.amount)}
            values = {entry["addr_regofs"]: entry["org_regval"] & 0xFFFFFFFF for entry in config["argb_reginfos"]}
            slots = tuple(
                PatchSlot(values[register], at[register]) if register in values and register in at else None
                for register in registers
            )
            yield InputPatch(config["name"], slots, slots)
