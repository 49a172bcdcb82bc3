"""Words, instructions and text: every way round is exact, and what is wrong is named with its place."""

import dataclasses
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openrknn import isa
from openrknn.isa.blocks import RegisterMap
from openrknn.isa.errors import AssemblyError, EncodingError

maps = st.sampled_from(isa.all_maps())


@st.composite
def words_for(draw: st.DrawFn) -> tuple[RegisterMap, list[int]]:
    """A map and words, most of them to registers that it has."""
    register_map = draw(maps)
    places = [
        (block.target, register.offset)
        for block in register_map.blocks
        for register in block.registers
        if block.target is not None
    ]
    anywhere = st.tuples(st.integers(0, 0xFFFF), st.integers(0, 0xFFFF))
    words = st.builds(
        lambda place, value: place[0] << 48 | value << 16 | place[1],
        st.one_of(st.sampled_from(places), st.sampled_from(places), anywhere),
        st.integers(0, 2**32 - 1),
    )
    return register_map, draw(st.lists(words, max_size=20))


@settings(deadline=None)
@given(words_for(), st.booleans())
def test_words_to_text_and_back(case: tuple[RegisterMap, list[int]], all_fields: bool) -> None:
    register_map, words = case
    instructions = isa.disassemble(words, register_map)
    assert isa.assemble(instructions) == words
    text = isa.format_text(instructions, all_fields=all_fields)
    parsed = isa.parse_text(text, register_map)
    assert parsed == instructions
    assert isa.assemble(parsed) == words


@settings(deadline=None)
@given(st.integers(0, 0xFFFF), st.integers(0, 0xFFFF), st.integers(0, 2**32 - 1))
def test_command_words(target: int, offset: int, value: int) -> None:
    command = isa.Command(target, offset, value)
    assert isa.Command.decode(command.word) == command


def test_the_tail_of_a_task() -> None:
    assert isa.SYNC_WORD == 0x0041_0000_0000_0000
    assert isa.enable_word(0x1D) == 0x0081_0000_001D_0008
    tail = isa.disassemble([isa.NOP_WORD, isa.SYNC_WORD, isa.enable_word(0x1D)], isa.RK3588)
    assert [isa.format_instruction(one) for one in tail] == [
        "NOP",
        "SYNC",
        "ENABLE cna=1 core=1 dpu=1 dpu_rdma=1",
    ]
    assert isa.assemble(isa.parse_text("NOP\nSYNC\nENABLE cna=1 core=1 dpu=1 dpu_rdma=1", isa.RK3588)) == [
        isa.NOP_WORD,
        isa.SYNC_WORD,
        isa.enable_word(0x1D),
    ]


@pytest.mark.parametrize("command", [(1 << 16, 0, 0), (0, 1 << 16, 0), (0, 0, 1 << 32)])
def test_commands_that_do_not_fit(command: tuple[int, int, int]) -> None:
    with pytest.raises(EncodingError):
        _ = isa.Command(*command).word
    with pytest.raises(EncodingError):
        isa.Command.decode(1 << 64)


def test_an_instruction_in_natural_units() -> None:
    word = isa.Command(isa.Target.CNA, 0x100C, 0x2000_A803).word
    (one,) = isa.disassemble([word], isa.RK3588)
    assert one.name == "CNA.CONV_CON1"
    assert one.block is isa.RK3588.block("CNA")
    assert one.register is isa.cna.ConvCon1
    assert one.values["conv_mode"] is isa.ConvMode.DEPTHWISE
    assert one.undeclared == 0x800
    assert one.raw == one.word == word
    assert not one.is_known
    changed = dataclasses.replace(one, values={**one.values, "group_line_off": False}, undeclared=0)
    assert changed.word == isa.Command(isa.Target.CNA, 0x100C, 0xA003).word
    assert changed.is_known


def test_unknown_places_stay_visible() -> None:
    words = [0x0401_0000_000E_2004, 0x0201_0000_0007_1018]
    instructions = isa.disassemble(words, isa.RK3588)
    assert isa.format_text(instructions) == "?0x0401[0x2004] 0x0000000e\n?0x0201[0x1018] 0x00000007\n"
    assert not any(one.is_known for one in instructions)
    assert instructions[1].block is isa.RK3588.block("CNA")


def test_text_is_short_where_nothing_is_said() -> None:
    text = "CNA.FC_CON0 0\nCNA.CONV_CON3 conv_x_stride=1 deconv_x_stride=1 deconv_y_stride=1"
    (zero, strides) = isa.parse_text(text, isa.RK3588)
    assert zero.value == 0
    assert strides.value == 1
    assert isa.format_instruction(zero) == "CNA.FC_CON0 0"
    assert "fc_skip_data=0x0" in isa.format_instruction(zero, all_fields=True)


def test_comments_and_empty_lines() -> None:
    assert isa.parse_text("# a comment\n\n   SYNC   # before the enable word\n", isa.RK3588)[0].word == isa.SYNC_WORD


@pytest.mark.parametrize(
    ("line", "column", "message"),
    [
        ("CNA.NOTHING x=1", 1, "no register 'CNA.NOTHING'"),
        ("DDMA.CFG_STATUS idel=1", 1, "no register 'DDMA.CFG_STATUS'"),
        ("CNA.CONV_CON1 conv_mod=direct", 15, "no field 'conv_mod'"),
        ("CNA.CONV_CON1 conv_mode=odd", 25, "'odd' is none of direct, depthwise"),
        ("CNA.CONV_CON1 conv_mode=?3", 25, "the code 3 has a name, depthwise"),
        ("CNA.CONV_CON1 conv_mode=?16", 25, "cannot hold"),
        ("CNA.CONV_CON1 deconv=1 deconv=0", 24, "deconv is given twice"),
        ("CNA.CONV_CON1 deconv", 15, "neither field=value nor"),
        ("CNA.CONV_CON1 deconv=", 22, "'' is no value"),
        ("CNA.CONV_CON3 conv_x_stride=8", 29, "allowed: 0..7"),
        ("CNA.CONV_CON1 +0x1", 1, "declares"),
        ("CNA.CONV_CON1 +zero", 16, "'zero' is no number"),
        ("CNA.CONV_CON1 +0x100000000", 16, "does not fit into 32 bits"),
        ("?0x0401 1", 1, "is not of the form"),
        ("?0x0401[0x2004]", 16, "takes one value"),
        ("?0x0401[0x2004] -1", 17, "does not fit"),
        ("?0x0201[0x100c] 1", 1, "the map has CNA.CONV_CON1 there"),
    ],
)
def test_wrong_text_names_line_and_column(line: str, column: int, message: str) -> None:
    with pytest.raises(AssemblyError) as caught:
        isa.parse_text(f"SYNC\n# comment\n{line}\n", isa.RK3588)
    assert (caught.value.line, caught.value.column) == (3, column), str(caught.value)
    assert message in str(caught.value)


@settings(deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        words = isa.assemble(isa.parse_text(text, isa.RK3588))
    except AssemblyError:
        return
    assert all(0 <= word < 1 << 64 for word in words)


def test_long_streams_are_fast() -> None:
    table = [isa.Command(isa.Target.DPU, 0x4104, value).word for value in range(1026)]
    words = table * 200
    start = time.perf_counter()
    instructions = isa.disassemble(words, isa.RK3588)
    text = isa.format_text(instructions)
    assert isa.assemble(isa.parse_text(text, isa.RK3588)) == words
    assert time.perf_counter() - start < 10
