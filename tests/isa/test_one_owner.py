"""Registers, command words and facts of chips have one place: `isa`, `chip` and `chips` of `openrknn`."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from openrknn import isa
from openrknn.chips import CHIPS
from openrknn.container.schema import patch_names, patch_offsets
from openrknn.cost import BOARDS
from openrknn.fakekernel.boards import board_for

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "openrknn"
PAGES = ROOT / "docs" / "hardware" / "registers"
FIRST, LAST = 0x1000, 0xFFFF
"""Below are PC's registers, whose offsets are small numbers like any other."""
NOT_REGISTERS = {
    0x1000: "a page of memory",
    0x1004: "the version of mini containers",
    0x5018: "a request of RGA without waiting",
    0x8000: "the sign of 16 bits",
}
PLACE_MASK = 0xFFFF_0000_0000_FFFF
VALUE_MASK = 0xFFFF_FFFF
TARGET_AT, VALUE_AT = 48, 16
IN_HEX, APART = r"0x_?[\da-f]_?[\da-f]", r"(<<|>>)\s*\(*(48|0x30)|&\s*\(*(0x)?[\da-f]{4}"
"""What the text of a source has at least, if something is to be found in it."""
OFFSETS = {offset for register_map in isa.all_maps() for block in register_map.blocks for offset in block.by_offset}


def sources() -> Iterator[tuple[Path, str]]:
    for path in sorted(SOURCES.rglob("*.py")):
        if path.relative_to(SOURCES).parts[0] not in {"isa", "chip"}:
            yield path.relative_to(SOURCES), path.read_text(encoding="utf-8")


def nodes(needed: str) -> Iterator[tuple[Path, str, ast.AST]]:
    """Of the sources in which something like that is written at all: most need not be parsed."""
    word = re.compile(needed, re.I)
    for path, text in sources():
        if word.search(text):
            yield from ((path, text, node) for node in ast.walk(ast.parse(text)))


def number(node: ast.AST) -> int | None:
    return node.value if isinstance(node, ast.Constant) and type(node.value) is int else None


def is_offset(node: ast.AST, text: str) -> bool:
    """A number in hex that is the offset of a register of some chip."""
    value = number(node)
    if value is None or not FIRST <= value <= LAST or value in NOT_REGISTERS or value not in OFFSETS:
        return False
    return (ast.get_source_segment(text, node) or "").lower().startswith("0x")


def takes_a_word_apart(node: ast.AST) -> bool:
    """`word >> 48`, `word & 0xFFFF_0000_0000_FFFF`, `word >> 16 & 0xFFFF_FFFF`, and the same the other way round."""
    if not isinstance(node, ast.BinOp):
        return False
    right = number(node.right)
    if isinstance(node.op, ast.LShift | ast.RShift) and right == TARGET_AT:
        return True
    if not isinstance(node.op, ast.BitAnd) or right not in {PLACE_MASK, VALUE_MASK}:
        return False
    shifted = isinstance(node.left, ast.BinOp) and isinstance(node.left.op, ast.RShift)
    return right == PLACE_MASK or (shifted and number(node.left.right) == VALUE_AT)  # type: ignore[attr-defined]


def test_no_register_offset_outside_isa() -> None:
    found = [
        f"{path}:{node.lineno}: {number(node):#x}"
        for path, text, node in nodes(IN_HEX)
        if isinstance(node, ast.Constant) and is_offset(node, text)
    ]
    assert found == []


def test_no_command_word_is_taken_apart_outside_isa() -> None:
    found = [
        f"{path}:{node.lineno}: {ast.unparse(node)}"
        for path, _, node in nodes(APART)
        if isinstance(node, ast.BinOp) and takes_a_word_apart(node)
    ]
    assert found == []


def test_the_four_tail_words_are_counted_once() -> None:
    named = re.compile(r"^_?TAIL_WORDS\b.*= *4|\+ 4 commands", re.M)
    assert [str(path) for path, text in sources() if named.search(text)] == []


@pytest.mark.parametrize(("text", "is_found"), [
    ("_SIZE = 0x1020", True), ("x = word >> 48", True), ("x = (word >> 16) & 0xFFFFFFFF", True),
    ("x = 0x8000", False), ("x = 4128", False), ("x = value & 0xFFFFFFFF", False),
])  # fmt: skip
def test_the_scan_finds_what_it_is_for(text: str, is_found: bool) -> None:
    found = list(ast.walk(ast.parse(text)))
    assert any(is_offset(node, text) or takes_a_word_apart(node) for node in found) is is_found
    assert not is_found or re.search(f"{IN_HEX}|{APART}", text, re.I)


@pytest.mark.parametrize("family", sorted({chip.family for chip in CHIPS.values()}))
@pytest.mark.parametrize("kind", ["image", "convert"])
def test_every_register_that_files_patch_has_a_name_in_the_table(family: str, kind: str) -> None:
    names, offsets = patch_names(family, kind), patch_offsets(family, kind)
    assert [name is None for name in names] == [offset is None for offset in offsets]
    registers = isa.map_for(next(name for name, chip in CHIPS.items() if chip.family == family))
    found = [None if name is None else registers.find(name if "." in name else f"CNA.{name}").offset for name in names]
    assert found == list(offsets)
    assert len(set(offsets) - {None}) == len([offset for offset in offsets if offset is not None])


@pytest.mark.parametrize("register_map", isa.all_maps(), ids=lambda register_map: register_map.name)
def test_the_printed_manual_says_what_the_chips_say(register_map: isa.RegisterMap) -> None:
    page = PAGES / f"{register_map.name}.md"
    if register_map is isa.RK3588:
        smaller = sorted(chip.title for chip in CHIPS.values() if chip.atom_bytes == 8)
        assert f"(16 bytes; 8 on {', '.join(smaller)})" in (PAGES / "index.md").read_text(encoding="utf-8")
        return
    text = page.read_text(encoding="utf-8")
    for name in register_map.chips:
        unit = "pairs of commands" if CHIPS[name].paired_amounts else "single commands"
        assert f"An atom has {CHIPS[name].atom_bytes} bytes; PC.REGISTER_AMOUNTS counts {unit}." in text
        assert name.upper() in text.splitlines()[2 if text.startswith("<!--") else 0] or name.upper() in text


def test_estimates_and_emulated_boards_run_at_clocks_of_the_chip() -> None:
    fitted_elsewhere = {"rk3576"}  # its figures fit a step below the highest: openrknn.cost.boards says why
    for name, chip in CHIPS.items():
        assert chip.clocks == tuple(sorted(chip.clocks))
        assert chip.clocks, name
        assert BOARDS[name].hertz == chip.clocks[-1] or name in fitted_elsewhere, name
        assert board_for(chip).soc in {chip.name, "rk3568"}
