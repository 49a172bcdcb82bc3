"""Shapes that several blocks share, and the three words that are not writes to a block."""

from __future__ import annotations

from openrknn.isa import words
from openrknn.isa.blocks import Block
from openrknn.isa.fields import Bits, Flag, Unsigned
from openrknn.isa.registers import Register
from openrknn.isa.words import Target

__all__ = [
    "ENABLE",
    "NOP",
    "SYNC",
    "EnableMask",
    "OperationEnable",
    "SPointer",
    "SStatus",
    "Unknown",
    "moved",
    "unknown",
]


class SStatus(Register, evidence="T"):
    """State of the two executers. Read only; streams never touch it."""

    status_0 = Unsigned(1, 0, "Executer 0: 0 idle, 1 working, 2 working while executer 1 waits.")
    status_1 = Unsigned(17, 16, "Executer 1: 0 idle, 1 working, 2 working while executer 0 waits.")


class SPointer(Register, evidence="TE"):
    """Which of its two register groups the block writes to and works from.

    All registers from OPERATION_ENABLE on exist twice. Writes go to the group of `pointer`; an enable word starts
    that group, and with ping-pong on flips the pointer of each block that it enables, and of no other. Groups keep
    their contents: from the third task of an operator on, a stream holds only what differs from two tasks back.
    Streams write 0x0e (ping-pong on) at the head of a task, or 0x30 (pointers back to 0, ping-pong off) for the task
    that follows a LUT load in a submit without ping-pong.
    """

    pointer = Flag(0, "Group that writes go to.")
    pointer_pp_en = Flag(1, "Flip `pointer` when the block is enabled.")
    executer_pp_en = Flag(2, "Flip the executing group as well.")
    pointer_pp_mode = Flag(3, "0: the next pointer is the other of the executer; 1: the other of the pointer.")
    pointer_pp_clear = Flag(4, "Write 1: `pointer` becomes 0.")
    executer_pp_clear = Flag(5, "Write 1: `executer` becomes 0.")
    executer = Flag(16, "Group that the block works from. Read only.", evidence="T")


class OperationEnable(Register, evidence="T"):
    """Starts this block alone. Streams use the enable word instead, which starts several blocks at once."""

    op_en = Flag(0, "Write 1: start with the group that `pointer` selects.")


class Unknown(Register, evidence="?"):
    """Written by streams; meaning unknown."""

    bits = Bits(31, 0, "Unknown.")


def moved(register: type[Register], offset: int) -> type[Register]:
    """A register of another map at another offset: found by comparing streams of the same model."""
    return register.place(offset=offset, name=register.name, evidence="I")


def unknown(*offsets: int) -> tuple[type[Unknown], ...]:
    """Registers that streams write, of unknown meaning, named after their offsets."""
    return tuple(Unknown.place(offset=offset, name=f"UNKNOWN_{offset:04X}") for offset in offsets)


class EnableMask(Register, offset=words.ENABLE.offset, name="ENABLE", evidence="TE"):
    """The last word of every task: starts the blocks whose bits are set.

    Bit k belongs to the block with target bit 9 + k. Seen on RK3588: 0x1d convolution with operands, 0x0d without,
    0x18 element-wise, copies and LUT loads, 0x60 pooling. A SYNC word must come before it.
    """

    cna = Flag(0, "CNA.")
    core = Flag(2, "CORE.")
    dpu = Flag(3, "DPU.")
    dpu_rdma = Flag(4, "DPU_RDMA.")
    ppu = Flag(5, "PPU.")
    ppu_rdma = Flag(6, "PPU_RDMA.")


class _Sync(Register, offset=0, name="SYNC", evidence="TE"):
    """Must come before an enable word; carries no value."""


class _Nop(Register, offset=0, name="NOP", evidence="E"):
    """An all-zero word: does nothing. Stands in the tail of a last task, where the next address would be."""


NOP = Block("NOP", Target.NOP, 0, (_Nop,), shadowed=False, text="The word that does nothing.")
SYNC = Block("SYNC", Target.SYNC, 0, (_Sync,), shadowed=False, text="The word before every enable word.")
ENABLE = Block("ENABLE", Target.ENABLE, 0, (EnableMask,), shadowed=False, text="The word that starts blocks.")
