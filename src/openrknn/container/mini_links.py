"""What points at what in the first mini container: addresses, links between tasks, the input converter."""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from openrknn.chip.maps import map_for
from openrknn.chips import Chip
from openrknn.container.mini_text import MiniText
from openrknn.container.parts import InputPatch, Kind, Normalization, PatchSlot, RelocationGroup, Task, Tensor
from openrknn.container.schema import patch_offsets
from openrknn.errors import BadTaskError
from openrknn.isa import RegisterMap
from openrknn.isa.words import BASE, NOP_WORD, Command, offset_of, place_of, value_of, with_value

Entry: TypeAlias = Mapping[str, Any]
Places: TypeAlias = Mapping[tuple[int, int], tuple[int, int]]
"""(task, register) -> (command, address in the plan)."""

_ADDRESSES = (
    *("CNA.FEATURE_DATA_ADDR", "CNA.DCOMP_ADDR0", "DPU.DST_BASE_ADDR", "DPU_RDMA.RDMA_SRC_BASE_ADDR"),
    *("DPU_RDMA.RDMA_BS_BASE_ADDR", "DPU_RDMA.RDMA_BN_BASE_ADDR", "DPU_RDMA.RDMA_EW_BASE_ADDR"),
    *("PPU.DST_BASE_ADDR", "PPU_RDMA.RDMA_SRC_BASE_ADDR"),
)
"""The registers that hold an address on RV1103 and RV1106: input, weights, output, the DPU's four readers, the PPU."""
_SCALES = ("CVT_SCALE01", "CVT_SCALE23")
_LANES = 4


def relinked(parts: MiniText, tasks: Sequence[Task]) -> memoryview:
    """The commands with links that count from the first command, and none behind the last task."""
    words = array("Q", parts.commands)
    for number, task in enumerate(tasks):
        at = task.first_command + task.amount
        if at >= len(words):
            raise BadTaskError(f"its {task.amount} commands are outside the file's", section=f"task {number}")
        if place_of(words[at]) == BASE.word:
            link = value_of(words[at]) - parts.task_bytes
            words[at] = with_value(words[at], link) if number + 1 < len(tasks) else NOP_WORD
    return memoryview(words.tobytes()).cast("Q")


def addresses(parts: MiniText, tasks: Sequence[Task]) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """(task, register) -> (command, address in the plan); address 0 is a reader that is off."""
    known = {_registers().find(name).offset for name in _ADDRESSES}
    for number, task in enumerate(tasks):
        for at in range(task.first_command, min(task.first_command + task.amount, len(parts.commands))):
            _, register, value = Command.decode(parts.commands[at])
            if value and register in known:
                yield (number, register), (at, value)


def claims(entry: Entry, tasks: int) -> Iterator[tuple[int, int]]:
    """(task, register) that a tensor's entry claims; `tasks`: how many there are."""
    for info in entry["taskinfos"] or ():
        for task in range(info["task_start"], min(info["task_start"] + info["task_number"], tasks)):
            yield task, info["addr_regofs"]


def relocations(
    entries: Sequence[Entry],
    tensors: Sequence[Tensor],
    parts: MiniText,
    places: Places,
) -> tuple[RelocationGroup, ...]:
    """Every address register with the tensor that it means and the distance from its start."""
    claimed: dict[tuple[int, int], list[int]] = defaultdict(list)
    for number, entry in enumerate(entries):
        for claim in claims(entry, len(parts.tasks)):
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


def patches(parts: MiniText, tasks: Sequence[Task], chip: Chip) -> Iterator[InputPatch]:
    """The converter's registers: the commands hold what uint8 pictures need."""
    registers = patch_offsets(chip.family, "convert")
    for config in parts.names["argb_configs"] or ():
        for info in config["taskinfos"] or ():
            if info["task_start"] >= len(tasks):
                continue
            task = tasks[info["task_start"]]
            at = {offset_of(parts.commands[k]): k for k in range(task.first_command, task.first_command + task.amount)}
            values = {entry["addr_regofs"]: entry["org_regval"] & 0xFFFFFFFF for entry in config["argb_reginfos"]}
            slots = tuple(
                PatchSlot(values[register], at[register]) if register in values and register in at else None
                for register in registers
            )
            yield InputPatch(config["name"], slots, slots)


def normalization(tensor: Tensor, parts: MiniText) -> Normalization:
    """Mean and std, out of the converter's registers: v = x * multiplier >> shift, plus the offset.

    The names have them in an older form or not at all.
    """
    order = tuple(range(_LANES))
    for config in parts.names["argb_configs"] or ():
        if config["name"] == tensor.name and tensor.quantization is not None:
            stored = {entry["addr_regofs"]: int(entry["org_regval"]) for entry in config["argb_reginfos"]}
            scale, zero = tensor.quantization.scale[0], tensor.quantization.zero_point[0]
            shifts = [_field(stored, "CVT_CON0", f"cvt_truncate_{lane}") for lane in order]
            scales = [_field(stored, _SCALES[lane // 2], f"cvt_scale{lane}") for lane in order]
            factors = [number / 2**shift for number, shift in zip(scales, shifts, strict=True)]
            offsets = [_field(stored, f"CVT_OFFSET{lane}", "cvt_offset") / 2 ** shifts[lane] for lane in order]
            return Normalization(
                mean=tuple((zero - offset) / factor for offset, factor in zip(offsets, factors, strict=True)),
                std=tuple(1 / (factor * scale) for factor in factors),
                order=order,
            )
    return Normalization((0.0,) * _LANES, (1.0,) * _LANES, order)


def _field(stored: Mapping[int, int], name: str, field: str) -> int:
    """A field of a register of CNA; JSON has the values as signed or unsigned numbers."""
    register = _registers().find(f"CNA.{name}")
    entry = register.field(field)
    return int(entry.natural(entry.code_in(stored[register.offset])))


def _registers() -> RegisterMap:
    return map_for("rv1106")
