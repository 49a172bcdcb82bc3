"""Command words: what the NPU's program counter fetches. One 64-bit word writes one register.

    63        48 47                                16 15         0
    |  target   |              value                |   offset   |

`target` names the block with one hot bit (57 CNA ... 63 PPU_RDMA) and has bit 48 set [E T]. The stream of a task
is its body, then always four tail words [E]:

    1  PC.BASE_ADDRESS = address of the next task's stream, or a NOP word after the last task
    2  PC.REGISTER_AMOUNTS = how much to fetch for the next task, and the barrier bits
    3  SYNC, without which the enable word has no effect [T]
    4  ENABLE with the bits of the blocks that the task uses
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from openrknn.isa.errors import EncodingError

__all__ = ["ENABLE_OFFSET", "NOP_WORD", "SYNC_WORD", "TAIL_WORDS", "Command", "Target", "enable_word", "fetch_amount"]

TAIL_WORDS = 4
"""Commands that follow the body of every task."""
ENABLE_OFFSET = 0x0008


class Target(IntEnum):
    """The blocks that a command can address, by the code in its upper 16 bits."""

    NOP = 0x0000
    SYNC = 0x0041
    ENABLE = 0x0081
    PC = 0x0101
    CNA = 0x0201
    EXTRA = 0x0401
    """CMAC on RK3566/68, the DMA block on RK3562 and RV1103/06, nothing on RK3588."""
    CORE = 0x0801
    DPU = 0x1001
    DPU_RDMA = 0x2001
    PPU = 0x4001
    PPU_RDMA = 0x8001


class Command(NamedTuple):
    """One command: write `value` to the register at `offset` of the block `target`."""

    target: int
    offset: int
    value: int

    @property
    def word(self) -> int:
        """The 64-bit word."""
        for name, number, bits in (("target", self.target, 16), ("offset", self.offset, 16), ("value", self.value, 32)):
            if number >> bits:
                raise EncodingError("command", name, number, f"0x0..{(1 << bits) - 1:#x}")
        return self.target << 48 | self.value << 16 | self.offset

    @classmethod
    def decode(cls, word: int) -> Command:
        """The command in a 64-bit word."""
        if word >> 64:
            raise EncodingError("command", "word", word, "64 bits")
        return cls(word >> 48, word & 0xFFFF, word >> 16 & 0xFFFF_FFFF)


NOP_WORD = 0
"""No operation; stands where the address of a next task would be."""
SYNC_WORD = Command(Target.SYNC, 0, 0).word


def enable_word(mask: int) -> int:
    """The word that starts the blocks in `mask`. Each block starts with the register group it was given."""
    return Command(Target.ENABLE, ENABLE_OFFSET, mask).word


def fetch_amount(commands: int, words_per_fetch: int = 2) -> int:
    """PC.REGISTER_AMOUNTS for a task of `commands` body commands; the tail is added here.

    The field counts units of `words_per_fetch` commands, minus one: pairs on most chips, ceil((n + 4) / 2) - 1;
    single commands on RK3566/68 and RV1103B/RV1106B, n + 3. [E over every chain link of the corpus]
    """
    return -(-(commands + TAIL_WORDS) // words_per_fetch) - 1
