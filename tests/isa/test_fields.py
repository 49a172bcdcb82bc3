"""Every kind of field: natural value -> code -> natural value, at the edges and beyond them."""

import math
import struct
from enum import IntEnum, IntFlag
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openrknn.errors import RknnError
from openrknn.isa.enums import ConvMode, OperandKinds, Precision
from openrknn.isa.errors import DeclarationError, EncodingError, UnknownCodeError
from openrknn.isa.fields import (
    Address,
    Atoms,
    Bits,
    Choice,
    Field,
    Flag,
    Mask,
    Signed,
    SignedAtoms,
    Size,
    Unsigned,
)
from openrknn.isa.registers import Register
from openrknn.isa.values import BitPattern, UnknownCode

T = TypeVar("T", bound=int)


def named(field: Field[T]) -> Field[T]:
    field.name = "some"
    return field


@st.composite
def fields(draw: st.DrawFn) -> Field[int]:
    low = draw(st.integers(0, 31))
    high = draw(st.integers(low, 31))
    kind = draw(st.sampled_from([Unsigned, Signed, Size, Atoms, SignedAtoms, Address, Bits]))
    return named(kind(high, low, "text"))  # type: ignore[arg-type]


@settings(deadline=None)
@given(fields(), st.integers(0, 2**32 - 1))
def test_numbers_survive_every_code(field: Field[int], code: int) -> None:
    code &= field.code_mask
    value = field.decode(code)
    assert field.fits(value)
    assert field.encode(value) == code
    assert field.natural(field.encode(field.parse(field.format(value)))) == value


@settings(deadline=None)
@given(fields(), st.integers(-(2**40), 2**40))
def test_numbers_are_checked(field: Field[int], value: int) -> None:
    if field.fits(value):
        assert field.natural(field.encode(value)) == value
    else:
        with pytest.raises(EncodingError) as caught:
            field.encode(value, "SOME_REGISTER")
        message = str(caught.value)
        assert message.startswith("SOME_REGISTER.some cannot hold")
        assert field.allowed in message


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        (Size(12, 0, ""), 1, 0),
        (Size(12, 0, ""), 8192, 8191),
        (Signed(27, 0, ""), -144, 2**28 - 144),
        (SignedAtoms(31, 4, ""), -1, 2**28 - 1),
        (Address(31, 4, ""), 0x1230, 0x123),
        (Flag(7, ""), True, 1),
        (Choice(3, 0, ConvMode, ""), ConvMode.DEPTHWISE, 3),
        (Mask(4, 1, OperandKinds, ""), OperandKinds.ALU | OperandKinds.MUL, 5),
    ],
)
def test_examples(field: Field[int], value: int, code: int) -> None:
    assert field.encode(value) == code
    assert field.decode(code) == value


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (Size(12, 0, ""), 0),
        (Size(12, 0, ""), 8193),
        (Flag(7, ""), 2),
        (Address(31, 4, ""), 0x1238),
        (Choice(3, 0, ConvMode, ""), 1),
        (Choice(2, 0, Precision, ""), ConvMode.DEPTHWISE),
        (Choice(3, 0, ConvMode, ""), UnknownCode(16)),
        (Mask(4, 1, OperandKinds, ""), 16),
        (Bits(15, 0, ""), -1),
    ],
)
def test_values_that_do_not_fit(field: Field[int], value: int) -> None:
    with pytest.raises(EncodingError):
        named(field).encode(value)


def test_an_unknown_code_is_loud_but_not_lost() -> None:
    field = named(Choice(3, 0, ConvMode, "text"))
    value = field.natural(9)
    assert isinstance(value, UnknownCode)
    assert field.format(value) == "?9"
    assert field.encode(field.parse("?9")) == 9
    with pytest.raises(UnknownCodeError, match=r"SOME.some holds the code 9.*direct, depthwise"):
        field.decode(9, "SOME")


@settings(deadline=None)
@given(st.integers(0, 31))
def test_choices_and_masks_survive_every_code(code: int) -> None:
    choice: Field[int] = Choice(4, 0, ConvMode, "text")  # type: ignore[assignment]
    mask: Field[int] = Mask(4, 0, OperandKinds, "text")  # type: ignore[assignment]
    for field in (choice, mask):
        value = field.natural(code)
        assert field.encode(value) == code
        assert field.encode(field.parse(field.format(value))) == code


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_bit_patterns(bits: int) -> None:
    pattern = BitPattern(bits)
    raw = struct.pack("<I", bits)
    assert pattern == bits
    assert pattern.int32 == struct.unpack("<i", raw)[0]
    assert pattern.int16 == struct.unpack("<h", raw[:2])[0]
    for number, layout, data in (
        (pattern.float32, "<f", raw),
        (pattern.float16, "<e", raw[:2]),
        (pattern.bfloat16, "<f", b"\0\0" + raw[:2]),
    ):
        expected = struct.unpack(layout, data)[0]
        assert number == expected or (math.isnan(number) and math.isnan(expected))


class TooWide(IntEnum):
    SIXTEEN = 16


class TooHigh(IntFlag):
    BIT_FOUR = 16


@pytest.mark.parametrize(
    "declare",
    [
        lambda: Unsigned(32, 0, ""),
        lambda: Unsigned(3, 4, ""),
        lambda: Unsigned(3, -1, ""),
        lambda: Choice(3, 0, TooWide, ""),
        lambda: Mask(3, 0, TooHigh, ""),
        lambda: Flag(0, "", evidence="Z"),
        lambda: type("Overlap", (Register,), {"one": Unsigned(3, 0, ""), "two": Flag(3, "")}),
        lambda: type("Shadow", (Register,), {"value": Flag(3, "")}),
    ],
)
def test_wrong_declarations_fail_at_once(declare: object) -> None:
    assert callable(declare)
    with pytest.raises((DeclarationError, RuntimeError)) as caught:
        declare()
    error = caught.value if isinstance(caught.value, DeclarationError) else caught.value.__cause__
    assert isinstance(error, RknnError)
