"""Registers as values, the table of every chip, and the maps."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openrknn import isa
from openrknn.chip import FAMILIES
from openrknn.chips import CHIPS
from openrknn.errors import UnsupportedError
from openrknn.isa.blocks import Block, RegisterMap
from openrknn.isa.errors import DeclarationError, EncodingError, UnknownCodeError, UnknownRegisterError
from openrknn.isa.registers import Register

EVERY = sorted(
    {register for register_map in isa.all_maps() for block in register_map.blocks for register in block.registers},
    key=lambda register: (register.offset, register.__module__, register.__name__),
)
MAPS = pytest.mark.parametrize("register_map", isa.all_maps(), ids=lambda register_map: register_map.name)

values = st.integers(0, 2**32 - 1)


@settings(deadline=None)
@given(st.sampled_from(EVERY), values)
def test_value_to_fields_and_back(register: type[Register], value: int) -> None:
    content = register(value)
    assert register.encode(content.values(), content.undeclared) == value
    assert content.undeclared & register.declared == 0
    assert repr(content)


@settings(deadline=None)
@given(st.sampled_from(EVERY), values, values)
def test_replace_changes_only_what_it_names(register: type[Register], value: int, other: int) -> None:
    for field in register.fields():
        natural = field.natural(field.code_in(other))
        changed = register(value).replace(**{field.name: natural})
        assert changed.value & ~field.mask == value & ~field.mask
        assert field.code_in(changed.value) == field.code_in(other)


def test_a_register_is_a_value() -> None:
    one = isa.cna.ConvCon1.of(conv_mode=isa.ConvMode.DEPTHWISE, in_precision=isa.Precision.FP16)
    assert one == isa.cna.ConvCon1(0x23)
    assert one != isa.cna.ConvCon2(0x23)
    assert len({one, isa.cna.ConvCon1(0x23)}) == 1
    assert int(one) == 0x23
    assert one.conv_mode is isa.ConvMode.DEPTHWISE
    assert not one.deconv
    assert repr(isa.core.DataoutSize1(0x8000_003F)) == "DataoutSize1(dataout_channel=64, undeclared=0x80000000)"


def test_a_register_value_does_not_change() -> None:
    one = isa.cna.ConvCon1(0)
    with pytest.raises(AttributeError, match="replace"):
        one.conv_mode = isa.ConvMode.DEPTHWISE
    with pytest.raises(AttributeError):
        one.value = 3
    assert one.replace(deconv=True).value == 1 << 16


def test_reading_a_bank_gives_reset_values() -> None:
    bank = {0x100C: 3}
    assert isa.cna.ConvCon1.read(bank).conv_mode is isa.ConvMode.DEPTHWISE
    assert isa.cna.ConvCon2.read(bank).value == 0
    assert isa.core.MacGating.read(bank).value == 0x0780_0800


def test_errors_name_register_and_field() -> None:
    with pytest.raises(EncodingError, match=r"CONV_CON3.conv_x_stride cannot hold 9; allowed: 0..7"):
        isa.cna.ConvCon3.of(conv_x_stride=9)
    with pytest.raises(EncodingError, match=r"CONV_CON3.stride.*fields conv_x_stride, conv_y_stride"):
        isa.cna.ConvCon3.of(stride=9)
    with pytest.raises(UnknownCodeError, match=r"CONV_CON1.conv_mode holds the code 1"):
        _ = isa.cna.ConvCon1(1).conv_mode
    with pytest.raises(EncodingError):
        isa.cna.ConvCon1(1 << 32)
    with pytest.raises(EncodingError, match="undeclared"):
        isa.cna.ConvCon1.encode({}, undeclared=1)


# ---------------------------------------------------------------- the table


@MAPS
def test_every_register_is_documented(register_map: RegisterMap) -> None:
    for block in register_map.blocks:
        assert block.text.strip()
        for register in block.registers:
            assert register.text(), register.name
            assert register.evidence, register.name
            assert block.base <= register.offset < block.base + 0x1000
            assert register.offset % 4 == 0
            assert all(field.text for field in register.fields()), register.name


@MAPS
def test_lookup_and_find_agree(register_map: RegisterMap) -> None:
    for block in register_map.blocks:
        for register in block.registers:
            assert register_map.find(f"{block.name}.{register.name}") is register
            if block.target is not None:
                assert register_map.lookup(block.target, register.offset) == (block, register)
    assert register_map.lookup(0x0201, 0x1FFC) is None
    assert register_map.lookup(0x7777, 0) is None


def test_the_one_hot_rule_of_targets_and_enable_bits() -> None:
    for register_map in isa.all_maps():
        for block in register_map.blocks:
            if block.enable_bit is not None:
                assert block.target == 1 << (9 + block.enable_bit) | 1


def test_every_chip_has_a_map() -> None:
    for chip in CHIPS.values():
        register_map = isa.map_for(chip)
        assert isa.map_for(chip.name) is register_map
        assert chip.name in register_map.chips
        assert (register_map.words_per_fetch, register_map.atom_bytes) == (chip.words_per_fetch, chip.atom_bytes)
    assert {chip.family for chip in CHIPS.values()} == set(FAMILIES)
    with pytest.raises(UnsupportedError, match=r"rk3399pro.*rk3588"):
        isa.map_for("rk3399pro")


def test_fetch_amounts_of_known_streams() -> None:
    assert [isa.fetch_amount(n) for n in (126, 69, 26, 1097)] == [64, 36, 14, 550]
    assert isa.map_for("rk3568").fetch_amount(69) == 72


def test_names_that_are_not_there() -> None:
    with pytest.raises(UnknownRegisterError, match="XYZ"):
        isa.RK3588.find("XYZ.CONV_CON1")
    with pytest.raises(UnknownRegisterError, match="CONV_CON9"):
        isa.RK3588.find("CNA.CONV_CON9")
    with pytest.raises(UnknownRegisterError):
        isa.RK3588.command(isa.map_for("rk3562").find("CNA.CONV_CON1")(0))
    with pytest.raises(UnknownRegisterError):
        isa.RK3588.command(isa.dma.GlobalOperationEnable(0))


def test_two_registers_cannot_share_a_place_or_a_name() -> None:
    one = isa.common.Unknown.place(offset=0x10, name="ONE")
    two = isa.common.Unknown.place(offset=0x10, name="TWO")
    also_one = isa.common.Unknown.place(offset=0x14, name="ONE")
    with pytest.raises(DeclarationError, match="both at 0x0010"):
        Block("X", 1, 0, (one, two))
    with pytest.raises(DeclarationError, match="one name"):
        Block("X", 1, 0, (one, also_one))
    with pytest.raises(DeclarationError):
        RegisterMap("m", (Block("X", 1, 0, (one,)), Block("Y", 1, 0, (one,))))
    with pytest.raises(DeclarationError, match="NOTHING"):
        Block("X", 1, 0, (one,)).derive(remove=["NOTHING"])


def test_deriving_replaces_by_place_and_by_name() -> None:
    first, second = isa.common.unknown(0x10, 0x14)
    block = Block("X", 1, 0, (first, second))
    same_place = isa.common.Unknown.place(offset=0x10, name="NEW")
    same_name = isa.common.Unknown.place(offset=0x20, name=first.name)
    assert block.derive(same_place).registers == (same_place, second)
    assert block.derive(same_name).registers == (second, same_name)
    assert block.derive(keep=[second.name]).registers == (second,)
    assert block.derive(remove=[second.name]).registers == (first,)
