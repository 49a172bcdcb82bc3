"""Streams of command words, and the same as instructions in natural units.

`disassemble` turns words into `Instruction`s, `assemble` encodes them again from their natural values. Nothing is
lost on the way: a register that the table does not have, bits that no field declares and codes without a meaning
stay visible and come back. `openrknn.isa.assembly` has the text form.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from openrknn.isa.blocks import Block, RegisterMap
from openrknn.isa.registers import Register
from openrknn.isa.values import UnknownCode
from openrknn.isa.words import Command

__all__ = ["Instruction", "assemble", "disassemble"]

_NO_VALUES: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Instruction:
    """One command in natural units."""

    target: int
    offset: int
    block: Block | None
    """None if the map has no block with this target."""
    register: type[Register] | None
    """None if the map has no register at this place."""
    values: Mapping[str, int]
    """Natural value of every field, lowest bit first."""
    undeclared: int
    """The bits that no field declares; the whole value of an unknown register."""
    raw: int | None = field(default=None, compare=False)
    """The word that was disassembled. `word` does not use it."""

    @property
    def value(self) -> int:
        """The 32-bit value, encoded from the natural values."""
        return self.register.encode(self.values, self.undeclared) if self.register else self.undeclared

    @property
    def word(self) -> int:
        """The 64-bit command word, encoded from the natural values."""
        return Command(self.target, self.offset, self.value).word

    @property
    def name(self) -> str:
        """BLOCK.REGISTER, or ?0xTTTT[0xOOOO] for an unknown place."""
        if self.block is None or self.register is None:
            return f"?{self.target:#06x}[{self.offset:#06x}]"
        return self.block.name if self.block.name == self.register.name else f"{self.block.name}.{self.register.name}"

    @property
    def is_known(self) -> bool:
        """Whether the table explains every bit: the register, all set bits and all codes."""
        no_codes = not any(isinstance(value, UnknownCode) for value in self.values.values())
        return self.register is not None and not self.undeclared and no_codes


def disassemble(words: Iterable[int], register_map: RegisterMap) -> list[Instruction]:
    """The instructions of a stream. Equal words give one shared instruction, so long streams are fast."""
    return list(_instructions(words, register_map))


def assemble(instructions: Iterable[Instruction]) -> list[int]:
    """The words of instructions, encoded from their natural values."""
    known: dict[int, int] = {}
    words = []
    kept = []  # an id is only good while its object lives
    for instruction in instructions:
        word = known.get(id(instruction))
        if word is None:
            word = known[id(instruction)] = instruction.word
            kept.append(instruction)
        words.append(word)
    return words


def _instructions(words: Iterable[int], register_map: RegisterMap) -> Iterator[Instruction]:
    known: dict[int, Instruction] = {}
    for word in words:
        instruction = known.get(word)
        if instruction is None:
            instruction = known[word] = _decode(word, register_map)
        yield instruction


def _decode(word: int, register_map: RegisterMap) -> Instruction:
    target, offset, value = Command.decode(word)
    found = register_map.lookup(target, offset)
    if found is None:
        block = register_map.by_target.get(target)
        return Instruction(target, offset, block, None, _NO_VALUES, value, word)
    block, register = found
    content = register(value)
    values = MappingProxyType(content.values())
    return Instruction(target, offset, block, register, values, content.undeclared, word)
