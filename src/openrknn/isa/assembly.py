"""The text form of a stream: one line per command, for people to read, compare and edit.

    CNA.CONV_CON1 conv_mode=direct in_precision=int8 proc_precision=int8 argb_in=off group_line_off=1
    DPU.BS_OW_CFG size_e_0=2 size_e_1=2 size_e_2=2 rgp_cnter=all +0x00001000       # undeclared bits
    ?0x0401[0x2004] 0x0000000e                                                     # an unknown register
    SYNC
    ENABLE cna=1 core=1 dpu=1 dpu_rdma=1

A field that is not mentioned holds zero bits. Fields are left out where that reads well: flags that are off, and
numbers that are 0. A lone `0` says that nothing is left. `#` starts a comment. Text -> words is exact.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from types import MappingProxyType

from openrknn.isa.blocks import Block, RegisterMap
from openrknn.isa.errors import AssemblyError, EncodingError
from openrknn.isa.fields import Address, Choice, Field, Size
from openrknn.isa.registers import Register
from openrknn.isa.stream import Instruction
from openrknn.isa.values import UnknownCode

__all__ = ["format_instruction", "format_text", "parse_text"]

_WORD = re.compile(r"\S+")
_UNKNOWN = re.compile(r"\?(0x[0-9a-f]{1,4})\[(0x[0-9a-f]{1,4})\]", re.IGNORECASE)
_ALWAYS_SHOWN = (Choice, Size, Address)


def format_instruction(instruction: Instruction, *, all_fields: bool = False) -> str:
    """One line of text."""
    if instruction.register is None:
        return f"{instruction.name} {instruction.undeclared:#010x}"
    parts = [instruction.name]
    for name, value in instruction.values.items():
        field = instruction.register.field(name)
        if all_fields or value or isinstance(field, _ALWAYS_SHOWN):
            parts.append(f"{name}={field.format(value)}")
    if instruction.undeclared:
        parts.append(f"+{instruction.undeclared:#010x}")
    if len(parts) == 1 and instruction.values:
        parts.append("0")
    return " ".join(parts)


def format_text(instructions: Iterable[Instruction], *, all_fields: bool = False) -> str:
    """The text of a stream, a line per command."""
    known: dict[int, str] = {}
    lines = []
    kept = []  # an id is only good while its object lives
    for instruction in instructions:
        line = known.get(id(instruction))
        if line is None:
            line = known[id(instruction)] = format_instruction(instruction, all_fields=all_fields)
            kept.append(instruction)
        lines.append(line)
    return "".join(f"{line}\n" for line in lines)


def parse_text(text: str, register_map: RegisterMap) -> list[Instruction]:
    """The instructions of a text, or `AssemblyError` with line and column."""
    known: dict[str, Instruction | None] = {}
    instructions = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line not in known:
            known[line] = _Line(line, number, register_map).instruction()
        instruction = known[line]
        if instruction is not None:
            instructions.append(instruction)
    return instructions


@dataclass
class _Line:
    """One line being read."""

    text: str
    number: int
    register_map: RegisterMap

    def error(self, message: str, column: int) -> AssemblyError:
        return AssemblyError(message, line=self.number, column=column + 1)

    def instruction(self) -> Instruction | None:
        code = self.text.partition("#")[0]
        words = [(match.group(), match.start()) for match in _WORD.finditer(code)]
        if not words:
            return None
        (head, column), arguments = words[0], words[1:]
        if head.startswith("?"):
            return self.unknown(head, column, arguments)
        block, register = self.register(head, column)
        values = {field.name: field.natural(0) for field in register.fields()}
        undeclared = 0
        seen: set[str] = set()
        for word, at in arguments:
            if word.startswith("+"):
                undeclared |= self.number_in(word[1:], at + 1, 32)
            elif word != "0":
                name, value = self.field(register, word, at)
                if name in seen:
                    raise self.error(f"{name} is given twice", at)
                seen.add(name)
                values[name] = value
        if undeclared & register.declared:
            raise self.error(f"{undeclared:#x} has bits that {register.name} declares", column)
        target = block.target if block.target is not None else 0
        return Instruction(target, register.offset, block, register, MappingProxyType(values), undeclared)

    def unknown(self, head: str, column: int, arguments: list[tuple[str, int]]) -> Instruction:
        match = _UNKNOWN.fullmatch(head)
        if match is None:
            raise self.error(f"{head!r} is not of the form ?0xTTTT[0xOOOO]", column)
        if len(arguments) != 1:
            raise self.error("an unknown register takes one value", column + len(head))
        value = self.number_in(*arguments[0], 32)
        target, offset = (int(group, 16) for group in match.groups())
        block = self.register_map.by_target.get(target)
        if block is not None and offset in block.by_offset:
            raise self.error(f"the map has {block.name}.{block.by_offset[offset].name} there", column)
        return Instruction(target, offset, block, None, MappingProxyType({}), value)

    def register(self, head: str, column: int) -> tuple[Block, type[Register]]:
        block_name, _, name = head.partition(".")
        for block in self.register_map.by_target.values():
            if block.name == block_name:
                register = block.by_name.get(name or block_name) or (None if name else block.registers[0])
                if register is not None:
                    return block, register
        raise self.error(f"{self.register_map.name} has no register {head!r}", column)

    def field(self, register: type[Register], word: str, column: int) -> tuple[str, int]:
        name, equals, text = word.partition("=")
        if not equals:
            raise self.error(f"{word!r} is neither field=value nor +0xBITS", column)
        try:
            field: Field[int] = register.field(name)
        except EncodingError:
            known = ", ".join(field.name for field in register.fields())
            raise self.error(f"{register.name} has no field {name!r}; it has {known}", column) from None
        at = column + len(name) + 1
        try:
            value = field.parse(text)
        except ValueError as error:
            raise self.error(f"{name}: {text!r} is no value: {error}", at) from None
        try:
            code = field.encode(value, register.name)
        except EncodingError as error:
            raise self.error(str(error), at) from None
        natural = field.natural(code)
        if isinstance(value, UnknownCode) and not isinstance(natural, UnknownCode):
            raise self.error(f"{name}: the code {int(value)} has a name, {field.format(natural)}", at)
        return name, natural

    def number_in(self, text: str, column: int, bits: int) -> int:
        try:
            number = int(text, 0)
        except ValueError:
            raise self.error(f"{text!r} is no number", column) from None
        if not 0 <= number < 1 << bits:
            raise self.error(f"{text} does not fit into {bits} bits", column)
        return number
