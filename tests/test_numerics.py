from __future__ import annotations

import struct
from fractions import Fraction
from math import floor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openrknn import numerics
from openrknn.numerics import Rounding

INT64 = st.integers(-(2**63), 2**63 - 1)


def exact_shift(value: int, shift: int, rounding: Rounding) -> int:
    """The same in Python's unbounded numbers."""
    exact = Fraction(value, 2**shift)
    if rounding is Rounding.EVEN or shift > 63:  # -2^63 / 2^64, the only tie out there, is 0
        return round(exact)
    return floor(exact + Fraction(1, 2)) if exact >= 0 else -floor(Fraction(1, 2) - exact)


@given(value=INT64, shift=st.integers(0, 4095), rounding=st.sampled_from(Rounding))
def test_shift_equals_exact_arithmetic(value: int, shift: int, rounding: Rounding) -> None:
    assert int(numerics.shift_right(value, shift, rounding)) == exact_shift(value, shift, rounding)


@given(value=st.integers(-(2**61), 2**61), shift=st.integers(0, 63), offset=st.integers(-300, 300),
       rounding=st.sampled_from(Rounding))
def test_one_number_is_shifted_as_an_array_is(value: int, shift: int, offset: int, rounding: Rounding) -> None:
    expected = int(numerics.shift_right(value, shift, rounding, offset=offset))
    assert numerics.shift_number(value, shift, rounding, offset=offset) == expected


@given(quotient=st.integers(-(2**20), 2**20), shift=st.integers(1, 40), rounding=st.sampled_from(Rounding))
def test_shift_ties(quotient: int, shift: int, rounding: Rounding) -> None:
    tie = (2 * quotient + 1) << (shift - 1)
    assert int(numerics.shift_right(tie, shift, rounding)) == exact_shift(tie, shift, rounding)


@pytest.mark.parametrize("value", [-(2**63), -(2**63) + 1, -(2**62), -1, 0, 1, 2**62, 2**63 - 1])
@pytest.mark.parametrize("shift", [0, 1, 62, 63, 64, 65, 4095])
@pytest.mark.parametrize("rounding", Rounding)
def test_shift_at_the_ends(value: int, shift: int, rounding: Rounding) -> None:
    assert int(numerics.shift_right(value, shift, rounding)) == exact_shift(value, shift, rounding)


def test_shift_is_the_rule_measured_on_silicon() -> None:
    products = np.arange(-(2**17), 2**17, dtype=np.int64)
    silicon = (products + 8191 + ((products >> 14) & 1)) >> 14
    np.testing.assert_array_equal(numerics.shift_right(products, 14), silicon)


def test_shift_by_sign() -> None:
    values = np.array([-6, -2, 2, 6])
    shifts = np.where(values < 0, 2, 0)
    assert numerics.shift_right(values, shifts).tolist() == [-2, 0, 2, 6]


def test_shift_refuses_what_is_not_one() -> None:
    with pytest.raises(ValueError, match="by -1"):
        numerics.shift_right([1], -1)
    with pytest.raises(TypeError, match="float64"):
        numerics.shift_right([1.5], 1)


@given(value=INT64, dtype=st.sampled_from([np.int8, np.int16, np.int32]))
def test_saturate(value: int, dtype: type[np.int8]) -> None:
    limits = np.iinfo(dtype)
    result = numerics.saturate(value, dtype)
    assert result.dtype == dtype
    assert int(result) == max(limits.min, min(value, limits.max))


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_round_to_integer(value: float) -> None:
    result = int(numerics.round_to_integer(value))
    if value != value:  # noqa: PLR0124
        assert result == 0
    elif abs(value) < 2**62:
        assert result == round(value)
    else:
        assert (result > 0) == (value > 0)
        assert abs(result) >= 2**62


@given(
    stored=st.lists(st.integers(-128, 127), min_size=1),
    scale=st.floats(1e-6, 1e3),
    zero_point=st.integers(-128, 127),
)
def test_quantize_undoes_dequantize(stored: list[int], scale: float, zero_point: int) -> None:
    real = numerics.dequantize(np.array(stored, np.int8), scale, zero_point)
    assert numerics.quantize(real, scale, zero_point, np.int8).tolist() == stored


def test_quantisation_per_channel() -> None:
    stored = np.array([[1, 2], [3, 4]], np.int8)
    real = numerics.dequantize(stored, (0.5, 2.0), (0, 1), axis=0)
    assert real.tolist() == [[0.5, 1.0], [4.0, 6.0]]
    np.testing.assert_array_equal(numerics.quantize(real, (0.5, 2.0), (0, 1), np.int8, axis=0), stored)
    with pytest.raises(ValueError, match="no axis"):
        numerics.dequantize(stored, (0.5, 2.0), (0, 1))


def test_every_fp16_pattern_survives() -> None:
    patterns = np.arange(2**16, dtype=np.uint16)
    values = numerics.decode_fp16(patterns)
    finite = ~np.isnan(values)
    np.testing.assert_array_equal(numerics.encode_fp16(values)[finite], patterns[finite])
    assert np.isnan(numerics.decode_fp16(numerics.encode_fp16(values[~finite]))).all()


@given(st.floats(-65519, 65519))
def test_fp16_is_the_nearest(value: float) -> None:
    expected = struct.unpack("<H", struct.pack("<e", value))[0]
    assert int(numerics.encode_fp16(np.float64(value))) == expected


def test_fp16_overflows_to_infinity() -> None:
    assert numerics.encode_fp16([65519.0, 65520.0, -1e30]).tolist() == [0x7BFF, 0x7C00, 0xFC00]


def test_every_bf16_pattern_survives() -> None:
    patterns = np.arange(2**16, dtype=np.uint16)
    values = numerics.decode_bf16(patterns)
    finite = ~np.isnan(values)
    np.testing.assert_array_equal(numerics.encode_bf16(values)[finite], patterns[finite])
    assert np.isnan(numerics.decode_bf16(numerics.encode_bf16(values[~finite]))).all()


@given(st.floats(width=32, allow_nan=False))
def test_bf16_is_the_nearest(value: float) -> None:
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    sign, magnitude = bits & 0x80000000, bits & 0x7FFFFFFF
    expected = sign >> 16 | min(round(Fraction(magnitude, 2**16)), 0x7F80)
    assert int(numerics.encode_bf16(np.float32(value))) == expected


def test_bf16_is_not_rounded_twice() -> None:
    with pytest.raises(TypeError, match="float64"):
        numerics.encode_bf16([1.0])


def test_16_bit_patterns_only() -> None:
    with pytest.raises(TypeError, match="int64"):
        numerics.decode_fp16(np.arange(3))
    with pytest.raises(TypeError, match="float16"):
        numerics.decode_bf16(np.zeros(2, np.float16))


def test_products_are_added_in_groups_of_32() -> None:
    """2^-12 is half of the last bit of 2^12: added alone it is lost, and of 32 that are a group nothing is."""
    left = np.array([[4096.0] + [2.0**-12] * 64], np.float16)
    right = np.ones((65, 1), np.float16)
    assert numerics.multiply_floats(left, right)[0, 0] == np.float32(4096.0 + 32 * 2.0**-12)
    assert numerics.multiply_floats(left[:, ::-1], right)[0, 0] == np.float32(4096.0 + 64 * 2.0**-12)


def test_products_and_sums_beyond_single_precision() -> None:
    large = np.array([[3e38, 1.0]], np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        assert np.isinf(numerics.multiply_floats(large, np.array([[2.0], [1.0]])))
        assert np.isnan(numerics.multiply_floats(np.array([[np.inf, 1.0]]), np.array([[0.0], [1.0]])))
    assert not np.signbit(numerics.multiply_floats(np.array([[-0.0, -0.0]]), np.ones((2, 1))))


@given(st.binary())
def test_int4_round_trip(data: bytes) -> None:
    packed = np.frombuffer(data, np.uint8)
    numbers = numerics.unpack_int4(packed)
    assert numbers.size == 2 * packed.size
    np.testing.assert_array_equal(numerics.pack_int4(numbers), packed)


def test_int4_order_and_limits() -> None:
    assert numerics.unpack_int4(np.array([0x7F, 0x08], np.uint8)).tolist() == [-1, 7, -8, 0]
    with pytest.raises(ValueError, match="whole bytes"):
        numerics.pack_int4([1])
    with pytest.raises(ValueError, match="between"):
        numerics.pack_int4([8, 0])
    with pytest.raises(TypeError, match="int16"):
        numerics.unpack_int4(np.zeros(2, np.int16))


def test_of_two_zeros_the_second_is_larger_and_smaller() -> None:
    zeros = np.array([0.0, -0.0, 0.0, -0.0], np.float32)
    others = np.array([-0.0, 0.0, 0.0, -0.0], np.float32)
    for choose in (numerics.larger, numerics.smaller):
        assert choose(zeros, others).tobytes() == others.tobytes()
        assert np.isnan(choose(np.array([np.nan, 1.0]), np.array([1.0, np.nan]))).all()
    assert numerics.larger(np.array([1, 5]), 3).tolist() == [3, 5]
    assert numerics.smaller(np.array([1, 5]), 3).tolist() == [1, 3]
