"""Stage 7, emit: registers in natural values become command words, addresses become relocations.

Every task writes all registers of its blocks, so no task depends on what an earlier one left in a register group.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

from openrknn import isa
from openrknn.compiler.program import Place, Program, Task
from openrknn.compiler.targets import TARGETS, Target
from openrknn.isa.blocks import Block

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


@cache
def _order(family: str, blocks: tuple[str, ...]) -> tuple[tuple[Block, type[isa.Register]], ...]:
    """Pointers first, then block by block in order of offset."""
    target = TARGETS[family]
    pointers, rest = [], []
    for name in blocks:
        block = target.registers.block(name)
        for register in block.registers:
            if register.name in _NEVER_WRITTEN:
                continue
            if register.name.endswith("S_POINTER"):
                if name in target.pointers:
                    pointers.append((block, register))
            else:
                rest.append((block, register))
    return (*pointers, *rest)


def emit_task(task: Task, program: Program) -> Commands:
    """The commands of a task; fields that the register table does not have raise its own error."""
    target = program.target
    blocks, registers = target.translate(task.blocks, task.registers)
    made = Commands(sum(1 << (target.registers.block(name).enable_bit or 0) for name in blocks))
    known = set()
    for block, register in _order(target.name, blocks):
        path = f"{block.name}.{register.name}"
        known.add(path)
        values = {}
        for name, value in registers.get(path, {}).items():
            if isinstance(value, Place):
                root, offset = program.root(value.tensor)
                made.relocations.append((len(made.words), Place(root.name, value.offset + offset)))
                values[name] = 0
            else:
                values[name] = value
        made.places[register.offset] = len(made.words)
        made.words.append(isa.Command(block.target or 0, register.offset, register.encode(values)).word)
    unknown = sorted(set(registers) - known)
    if unknown:
        raise ValueError(f"a task of {blocks} cannot write {unknown[0]}")
    if task.table is not None:
        _table(made, task, target)
    return made


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
