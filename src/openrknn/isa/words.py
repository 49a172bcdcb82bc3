"""Command words, and nothing else about the NPU: what its program counter fetches, and how tasks lead to each other.

    63        48 47                                16 15         0
    |  target   |              value                |   offset   |

One 64-bit word writes one register. `target` names the block with one hot bit (57 CNA ... 63 PPU_RDMA) and has bit 48
set [E T]. The stream of a task is its body, then always four tail words [E]:

    1  PC.BASE_ADDRESS = address of the next task's stream, or a NOP word after the last task
    2  PC.REGISTER_AMOUNTS = how much to fetch for the next task, and the barrier bits
    3  SYNC, without which the enable word has no effect [T]
    4  ENABLE with the bits of the blocks that the task uses

This is the only place where a word is taken apart or put together: loaders, compilers, emulated kernels and tools ask
here. It needs no register table, so a file can be read without one. `place_of`, `value_of` and their like take a number
or a NumPy array of uint64.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from openrknn.isa.errors import EncodingError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from openrknn.chips import Chip

    Words = TypeVar("Words", int, npt.NDArray[Any])

__all__ = [
    "AMOUNTS", "AMOUNT_MASK", "BASE", "ENABLE", "NOP_WORD", "OFFSET_MASK", "SYNC_WORD", "TAIL_WORDS", "WORD_BYTES",
    "Command", "Tail", "Target", "amounts_word", "enable_word", "fetch_amount", "fetched_commands", "link_word",
    "offset_of", "parts_of", "place_of", "put_values", "tail_of", "tail_words", "target_at", "target_of", "value_of",
    "with_value",
]  # fmt: skip

WORD_BYTES = 8
TAIL_WORDS = 4
"""Commands that follow the body of every task."""
OFFSET_MASK = 0xFFFF
_TARGET_AT, _VALUE_AT = 48, 16
_VALUE_MASK = 0xFFFF_FFFF
_PLACE_MASK = OFFSET_MASK << _TARGET_AT | OFFSET_MASK
_WORD_MASK = (1 << 64) - 1
_PAGE_AT, _LAST_PAGE = 12, 7


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
        return self.target << _TARGET_AT | self.value << _VALUE_AT | self.offset

    @classmethod
    def decode(cls, word: int) -> Command:
        """The command in a 64-bit word."""
        if word >> 64:
            raise EncodingError("command", "word", word, "64 bits")
        return cls(word >> _TARGET_AT, word & OFFSET_MASK, word >> _VALUE_AT & _VALUE_MASK)


# -------------------------------------------------------------------------------------------------- parts of a word


def target_of(word: Words) -> Words:
    """The block that a word addresses."""
    return word >> _TARGET_AT


def offset_of(word: Words) -> Words:
    """The register that a word writes, as its offset."""
    return word & OFFSET_MASK


def value_of(word: Words) -> Words:
    """The 32 bits that a word writes."""
    return word >> _VALUE_AT & _VALUE_MASK


def place_of(word: Words) -> Words:
    """Target and offset: the word without its value."""
    return word & _PLACE_MASK


def parts_of(words: npt.NDArray[np.uint64]) -> Iterator[tuple[int, int, int]]:
    """(target, offset, value) of each word of a stream, faster than word by word."""
    return zip(target_of(words).tolist(), offset_of(words).tolist(), value_of(words).tolist(), strict=True)


def with_value(word: int, value: int) -> int:
    """The word with another value; of `value` the low 32 bits count, as for sums of addresses."""
    return word & _PLACE_MASK | (value & _VALUE_MASK) << _VALUE_AT


def put_values(words: npt.NDArray[np.uint64], places: npt.NDArray[Any], values: npt.NDArray[np.int64]) -> None:
    """Write these values (low 32 bits) into the words at these places: relocations, links, patches."""
    words[places] = words[places] & _PLACE_MASK | (values.astype(words.dtype) & _VALUE_MASK) << _VALUE_AT


def target_at(offset: int) -> Target:
    """The block whose registers begin with the same hex digit: 0x1070 -> CNA. Lists of model format 1 need it."""
    return _BY_PAGE[offset >> _PAGE_AT & _LAST_PAGE]


_BY_PAGE = (
    Target.PC, Target.CNA, Target.EXTRA, Target.CORE, Target.DPU, Target.DPU_RDMA, Target.PPU, Target.PPU_RDMA,
)  # fmt: skip

# -------------------------------------------------------------------------------------------------- the tail of a task

NOP_WORD = 0
"""No operation; stands where the address of a next task would be."""
SYNC_WORD = Command(Target.SYNC, 0, 0).word
ENABLE = Command(Target.ENABLE, 0x0008, 0)
BASE = Command(Target.PC, 0x0010, 0)
"""PC.BASE_ADDRESS."""
AMOUNTS = Command(Target.PC, 0x0014, 0)
"""PC.REGISTER_AMOUNTS."""
AMOUNT_MASK = 0xFFFF
"""The part of REGISTER_AMOUNTS that counts."""
_BARRIER_AT = 16
_AMOUNT_BARRIER = 3 << _BARRIER_AT
"""RK3588: how many other cores to wait for before the next task."""
_AMOUNT_HINT = 0x6000_0000
"""Bits 30:29, in files of toolkits 1.6.1 to 2.1.0 alone (RK3588, RK3576). Newer toolkits write the same tasks without
them, so they do not belong to the number of commands to fetch, and tasks run in the same order."""
_ENABLE_BARRIER = 0x100_0000
"""RK3576: where cores meet, beside the enabled blocks (two-core lists only)."""
AMOUNTS_RULE = ~((_AMOUNT_BARRIER | _AMOUNT_HINT) << _VALUE_AT)
"""The bits of the second word of a tail that follow from the next task."""
ENABLE_RULE = ~(_ENABLE_BARRIER << _VALUE_AT)
"""The bits of the last word of a tail that follow from the blocks that it starts."""
_BASE_PLACE, _AMOUNTS_PLACE, _ENABLE_PLACE = BASE.word, AMOUNTS.word, ENABLE.word


class Tail(NamedTuple):
    """The four words behind the body of a task."""

    base: int
    amounts: int
    sync: int
    enable: int

    @property
    def is_valid(self) -> bool:
        """Whether they are the words that start a task.

        Toolkits 1.5.2 and 1.6.0 leave both link words of the last task 0, newer ones only the first.
        """
        has_amounts = place_of(self.amounts) == _AMOUNTS_PLACE or self.base == self.amounts == NOP_WORD
        return self.sync == SYNC_WORD and place_of(self.enable) == _ENABLE_PLACE and has_amounts

    @property
    def next_address(self) -> int | None:
        """Where the next task's commands are; None if the first word is no link."""
        return value_of(self.base) if place_of(self.base) == _BASE_PLACE else None

    @property
    def fetched(self) -> int:
        """Units to fetch for the next task, minus one; without barriers and hints."""
        return value_of(self.amounts) & ~(_AMOUNT_BARRIER | _AMOUNT_HINT)

    @property
    def barrier(self) -> int:
        """RK3588: how many other cores to wait for, as it stands in the register."""
        return value_of(self.amounts) & _AMOUNT_BARRIER

    @property
    def enabled(self) -> int:
        """The blocks that it starts; without RK3576's barrier."""
        return value_of(self.enable) & ~_ENABLE_BARRIER


def tail_of(words: Any) -> Tail:
    """The tail in a stream that ends with it."""
    return Tail(*map(int, words[-TAIL_WORDS:]))


def tail_words(enable_mask: int, next_address: int | None = None, amount: int = 0) -> Tail:
    """The tail of a task that starts these blocks and leads to a task at `next_address`, or to none."""
    base = NOP_WORD if next_address is None else link_word(next_address)
    return Tail(base, amounts_word(amount), SYNC_WORD, enable_word(enable_mask))


def link_word(address: int) -> int:
    """The word that says where the next task's commands are."""
    return BASE._replace(value=address).word


def amounts_word(amount: int, barrier: int = 0) -> int:
    """The word that says how much to fetch for the next task, and for how many other cores to wait before it."""
    return AMOUNTS._replace(value=amount | barrier << _BARRIER_AT).word


def enable_word(mask: int) -> int:
    """The word that starts the blocks in `mask`. Each block starts with the register group it was given."""
    return ENABLE._replace(value=mask).word


def fetch_amount(commands: int, words_per_fetch: int = 2) -> int:
    """PC.REGISTER_AMOUNTS for a task of `commands` body commands; the tail is added here.

    The field counts units of `words_per_fetch` commands, minus one: pairs on most chips, ceil((n + 4) / 2) - 1;
    single commands on RK3566/68 and RV1103B/RV1106B, n + 3. [E over every chain link of the corpus]
    """
    return -(-(commands + TAIL_WORDS) // words_per_fetch) - 1


def fetched_commands(amounts: int, chip: Chip) -> int:
    """The body commands of the task that REGISTER_AMOUNTS announces: what is fetched, without the tail."""
    return max(((amounts & AMOUNT_MASK) + 1) * chip.words_per_fetch - TAIL_WORDS, 0)
