"""Registers in natural values become command words, addresses become relocations.

Every task writes all registers of its blocks, so no task depends on what an earlier one left in a register group.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import NamedTuple

from openrknn import isa
from openrknn.chip.limits import banks_in, broken_limit
from openrknn.chip.target import Registers
from openrknn.chips import Chip
from openrknn.compiler.errors import UnsupportedOperatorError
from openrknn.compiler.program import Place, Program, Task, Tensor
from openrknn.compiler.targets import TARGETS, Target
from openrknn.container.parts import DataType, Kind
from openrknn.errors import UnsupportedError
from openrknn.task.kinds import Convolution
from openrknn.task.place import Address

__all__ = ["Commands", "emit_task"]

_NEVER_WRITTEN = {"S_STATUS", "OPERATION_ENABLE", "CLK_GATE", "MAC_GATING", "RDMA_S_STATUS", "RDMA_OPERATION_ENABLE",
                  "LUT_ACCESS_DATA"}  # fmt: skip
_BLOCK_MASK = 0xFFF
_POINTER_OFFSET = 0x004


@dataclass(slots=True)
class Commands:
    """The words of one task without its tail."""

    mask: int = 0
    """The blocks that it starts."""
    words: list[int] = field(default_factory=list)
    relocations: list[tuple[int, Place]] = field(default_factory=list)
    """(number of the word, what its value is the address of)."""
    places: dict[int, int] = field(default_factory=dict)
    """Register offset -> number of the word that writes it."""

    def without(self, other: Commands) -> Commands:
        """Only what differs from what `other` wrote; pointers and addresses are always written."""
        addresses = dict(self.relocations)
        kept = Commands(self.mask)
        for offset, number in self.places.items():
            word = self.words[number]
            is_pointer = offset & _BLOCK_MASK == _POINTER_OFFSET
            if not is_pointer and number not in addresses and other.words[other.places[offset]] == word:
                continue
            if number in addresses:
                kept.relocations.append((len(kept.words), addresses[number]))
            kept.places[offset] = len(kept.words)
            kept.words.append(word)
        return kept


class _Template(NamedTuple):
    """A task that writes 0 everywhere: pointers first, then block by block in order of offset."""

    mask: int
    words: list[int]
    places: dict[int, int]
    numbers: dict[str, tuple[int, int]]
    """BLOCK.REGISTER -> (number of the word, code of the block)."""


@cache
def _template(family: str, blocks: tuple[str, ...]) -> _Template:
    target = TARGETS[family]
    pointers, rest = [], []
    for name in blocks:
        block = target.registers.block(name)
        for register in block.registers:
            if register.name in _NEVER_WRITTEN or f"{name}.{register.name}" in target.unwritten:
                continue
            entry = f"{name}.{register.name}", block.target or 0, register
            if register.name.endswith("S_POINTER"):
                if name in target.pointers:
                    pointers.append(entry)
            else:
                rest.append(entry)
    entries = [*pointers, *rest]
    return _Template(
        sum(1 << bit for name in blocks if (bit := target.registers.block(name).enable_bit) is not None),
        [_word(family, code, path, ()) for path, code, _ in entries],
        {register.offset: number for number, (_, _, register) in enumerate(entries)},
        {path: (number, code) for number, (path, code, _) in enumerate(entries)},
    )


@lru_cache(maxsize=1 << 14)
def _word(family: str, code: int, path: str, fields: tuple[tuple[str, int], ...]) -> int:
    """Many tasks of a network write the same values."""
    register = TARGETS[family].registers.find(path)
    return isa.Command(code, register.offset, register.encode(dict(fields))).word


def emit_task(task: Task, program: Program, core: int = 0) -> Commands:
    """The commands of a task; fields that the register table does not have raise its own error."""
    target = program.target
    try:
        blocks, registers = target.encode(task.work)
    except UnsupportedError as error:
        raise UnsupportedOperatorError(str(error)) from error
    if isinstance(task.work, Convolution):
        _check_limits(target.chip, task.work, registers)
    if core and target.on_core is not None:
        target.on_core(registers, core)
    template = _template(target.name, blocks)
    made = Commands(template.mask, list(template.words), places=dict(template.places))
    for path, fields in registers.items():
        if path not in template.numbers:
            raise ValueError(f"a task of {blocks} cannot write {path}")
        number, code = template.numbers[path]
        values = []
        for name, value in fields.items():
            if isinstance(value, Place):
                if value.data is not None:
                    value = Place(_stored(program, value.tensor, value.data))  # noqa: PLW2901
                root, offset = program.root(value.tensor)
                made.relocations.append((number, Place(root.name, value.offset + offset)))
            else:
                values.append((name, value))
        if values:
            made.words[number] = _word(target.name, code, path, tuple(values))
    made.relocations.sort(key=lambda entry: entry[0])
    if task.table is not None:
        _table(made, task, target)
    return made


def _check_limits(chip: Chip, work: Convolution[Address], registers: Registers) -> None:
    """No task leaves the compiler that does not fit into the hardware, or is known to hang it."""
    fields = {path.partition(".")[2]: entry for path, entry in registers.items() if path.startswith("CNA.")}
    banks = banks_in(chip, fields)
    limit = None if banks is None else broken_limit(chip, work.source, banks)
    if limit is not None:
        raise UnsupportedOperatorError(
            f"a task for {chip.title} would break a limit of the hardware: {limit.text} ({limit.register}). This is a "
            "mistake of the compiler: please report it with the model"
        )


def _stored(program: Program, base: str, data: bytes) -> str:
    """The tensor that holds these bytes; equal ones are stored once."""
    name, number = base, 0
    while name in program.tensors and program.tensors[name].data != data:
        number += 1
        name = f"{base}_{number}"
    if name not in program.tensors:
        shape = (len(data) // 2,)
        program.tensors[name] = Tensor(
            name, Kind.WEIGHT, DataType.INT16, shape, "data", native_shape=shape, data=data, size_bytes=len(data),
            atom_bytes=program.target.atom_bytes,
        )  # fmt: skip
    return name


def _table(made: Commands, task: Task, chip: Target) -> None:
    """The halves of a lookup table, entry by entry."""
    assert task.table is not None
    target = isa.Target.DPU
    access, data = chip.registers.find("DPU.LUT_ACCESS_CFG"), chip.registers.find("DPU.LUT_ACCESS_DATA")
    for number in task.halves:
        entries = task.table.high if number else task.table.low
        start = access.encode({"lut_access_type": 1, "lut_table_id": number})
        made.words.append(isa.Command(target, access.offset, start).word)
        made.words += [isa.Command(target, data.offset, entry & 0xFFFF).word for entry in entries]
