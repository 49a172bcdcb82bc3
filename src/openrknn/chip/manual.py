"""Writes the hardware manual: Markdown pages out of the register table.

`pages` gives every page by file name. `tools/make_hardware_docs.py` writes them to `docs/hardware/registers`; a test
writes them again and compares.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from string import ascii_letters

from openrknn.chip.rk3588.registers import RK3588
from openrknn.chips import CHIPS
from openrknn.isa.blocks import Block, RegisterMap
from openrknn.isa.evidence import GRADES
from openrknn.isa.fields import Choice, Field, Mask
from openrknn.isa.registers import AnyField, Register

__all__ = ["Seen", "pages"]

Seen = Mapping[str, Mapping[str, list[str]]]
"""Map name -> "BLOCK.REGISTER.field" -> values in streams, as assembly text, the most frequent first."""

_MADE_BY = "<!-- Made by tools/make_hardware_docs.py from openrknn.isa. Do not edit. -->"


def _atoms() -> str:
    """ "16 bytes; 8 on RK3566, RK3568 ..."."""
    small = sorted(chip.title for chip in CHIPS.values() if chip.atom_bytes != CHIPS[RK3588.name].atom_bytes)
    sizes = {CHIPS[name.lower()].atom_bytes for name in small}
    return f"{RK3588.atom_bytes} bytes; {', '.join(map(str, sorted(sizes)))} on {', '.join(small)}"


_KINDS = (
    ("unsigned", "a count", "itself"),
    ("signed", "a number", "two's complement of the field's width"),
    ("size", "a size from 1 on", "minus one"),
    ("atoms, signed atoms", f"a number of atoms ({_atoms()})", "itself"),
    ("address", "a byte address", "without the low bits that the field leaves out"),
    ("flag", "0 or 1", "one bit"),
    ("bits", "a float or an integer, as the block's precision says", "itself"),
    ("choice", "one of the names under Values", "the number beside the name"),
    ("mask", "any of the names under Values", "the bits beside the names"),
)


def pages(maps: tuple[RegisterMap, ...], seen: Seen) -> dict[str, str]:
    """Every page of the manual: file name -> Markdown."""
    found = {"index.md": _index(maps)}
    for block in RK3588.blocks:
        found[f"{block.name.lower()}.md"] = _page(_block_page(block, seen.get(RK3588.name, {})))
    for register_map in maps:
        if register_map is not RK3588:
            found[f"{register_map.name}.md"] = _page(_variant_page(register_map, seen.get(register_map.name, {})))
    return found


def _page(lines: Iterator[str]) -> str:
    return "\n".join([_MADE_BY, "", *lines]) + "\n"


def _index(maps: tuple[RegisterMap, ...]) -> str:
    return _page(iter([
        "# Registers",
        "",
        "Every register of the NPU, with its fields in natural units. The table behind these pages is",
        "`openrknn.isa`: assembler, disassembler and software NPU use the same one.",
        "",
        "Evidence, one letter per kind of source:",
        "",
        "| letter | meaning |",
        "|---|---|",
        *(f"| {grade} | {_cell(text)} |" for grade, text in GRADES.items()),
        "",
        "Kinds of fields:",
        "",
        "| kind | natural value | stored as |",
        "|---|---|---|",
        *(f"| {kind} | {natural} | {stored} |" for kind, natural, stored in _KINDS),
        "",
        "Under Seen stand the values in streams that the vendor's toolkit compiled, most frequent first.",
        "",
        "| family | chips | registers | fields | raw registers |",
        "|---|---|---|---|---|",
        *(_counts(register_map) for register_map in maps),
        "",
        "```{toctree}",
        ":caption: RK3588, by block",
        ":maxdepth: 1",
        "",
        *(block.name.lower() for block in RK3588.blocks),
        "```",
        "",
        "```{toctree}",
        ":caption: Other families",
        ":maxdepth: 1",
        "",
        *(register_map.name for register_map in maps if register_map is not RK3588),
        "```",
    ]))


def _counts(register_map: RegisterMap) -> str:
    registers = [register for block in register_map.blocks for register in block.registers]
    fields = sum(len(register.fields()) for register in registers)
    raw = sum(register.evidence == "?" for register in registers)
    return f"| {register_map.name} | {', '.join(register_map.chips)} | {len(registers)} | {fields} | {raw} |"


def _block_page(block: Block, seen: Mapping[str, list[str]]) -> Iterator[str]:
    yield f"# {block.name}"
    yield ""
    yield from _text(block.text)
    yield ""
    yield from _block_facts(block)
    yield ""
    for register in block.registers:
        yield from _register(block, register, seen, level=2)


def _variant_page(register_map: RegisterMap, seen: Mapping[str, list[str]]) -> Iterator[str]:
    yield f"# {', '.join(chip.upper() for chip in register_map.chips)}"
    yield ""
    yield from _text(register_map.text)
    yield ""
    unit = "pairs of commands" if register_map.words_per_fetch == 2 else "single commands"
    yield f"An atom has {register_map.atom_bytes} bytes; PC.REGISTER_AMOUNTS counts {unit}."
    yield ""
    for block in register_map.blocks:
        base = next((other for other in RK3588.blocks if other.name == block.name), None)
        if block is not base:
            yield from _variant_block(block, base, seen)


def _variant_block(block: Block, base: Block | None, seen: Mapping[str, list[str]]) -> Iterator[str]:
    same = [item for item in block.registers if base and base.by_offset.get(item.offset) is item]
    raw = [item for item in block.registers if item not in same and item.evidence == "?"]
    yield f"## {block.name}"
    yield ""
    if base is None:
        yield from _text(block.text)
        yield ""
    yield from _block_facts(block)
    yield ""
    if same:
        yield f"As on RK3588: {', '.join(register.name for register in same)}."
        yield ""
    for register in block.registers:
        if register not in same and register not in raw:
            yield from _register(block, register, seen, level=3)
    if raw:
        yield f"### Raw registers of {block.name}"
        yield ""
        yield "Written by streams and not understood."
        yield ""
        yield "| offset | register | text | seen |"
        yield "|---|---|---|---|"
        for register in raw:
            values = [seen.get(f"{block.name}.{register.name}.{field.name}", []) for field in register.fields()]
            shown = "; ".join(", ".join(_cell(value) for value in column) for column in values)
            yield f"| {register.offset:#06x} | {register.name} | {_cell(register.text())} | {shown} |"
        yield ""


def _block_facts(block: Block) -> Iterator[str]:
    facts = [f"base {block.base:#06x}"]
    facts.append("no command can address it" if block.target is None else f"target {block.target:#06x}")
    if block.enable_bit is not None:
        facts.append(f"enable bit {block.enable_bit}")
    if block.shadowed:
        facts.append(f"registers from {block.base + 8:#06x} on exist once per register group")
    yield f"*{'; '.join(facts)}*"


def _register(block: Block, register: type[Register], seen: Mapping[str, list[str]], *, level: int) -> Iterator[str]:
    yield f"{'#' * level} {register.name} ({register.offset:#06x})"
    yield ""
    yield from _text(register.text())
    yield ""
    if register.reset:
        yield f"Reset value {register.reset:#010x}."
        yield ""
    if not register.fields():
        return
    yield "```text"
    yield from _diagram(register)
    yield "```"
    yield ""
    yield "| | field | bits | kind | values | meaning | evidence | seen |"
    yield "|---|---|---|---|---|---|---|---|"
    for key, field in zip(_keys(register), register.fields(), strict=True):
        values = ", ".join(seen.get(f"{block.name}.{register.name}.{field.name}", []))
        meaning = f"{field.text} {field.notes}".strip()
        yield (
            f"| {key} | {field.name} | {field.bits} | {field.kind} | {_cell(_values(field))} | {_cell(meaning)} "
            f"| {field.evidence or register.evidence} | {_cell(values)} |"
        )
    yield ""


def _keys(register: type[Register]) -> str:
    return ascii_letters[: len(register.fields())]


def _diagram(register: type[Register]) -> Iterator[str]:
    """Two lines: the bit numbers, and a letter per bit; a dot is a bit that no field declares."""
    letters = ["."] * 32
    for key, field in zip(_keys(register), register.fields(), strict=True):
        letters[field.low : field.high + 1] = key * field.width
    yield "31    24 23    16 15     8 7      0"
    yield " ".join("".join(reversed(letters[low : low + 8])) for low in (24, 16, 8, 0))


def _values(field: AnyField) -> str:
    if isinstance(field, Choice | Mask):
        return ", ".join(f"{str(member.name).lower()} {int(member)}" for member in field.enum)
    return _range(field)


def _range(field: Field[int]) -> str:
    return "" if field.kind in {"flag", "bits", "address"} else field.allowed


def _text(text: str) -> Iterator[str]:
    """Text out of a docstring: indented lines become a literal block, the rest stays Markdown."""
    literal = False
    for line in text.strip().splitlines():
        indented = line.startswith("    ")
        if indented != literal and (line.strip() or literal):
            yield "```text" if indented else "```"
            literal = indented
        yield line[4:] if indented else _escape(line)
    if literal:
        yield "```"


def _escape(text: str) -> str:
    return re.sub(r"([*_<\[\]])", r"\\\1", text).replace("`", "")


def _cell(text: str) -> str:
    return _escape(" ".join(text.split())).replace("|", "\\|")
