"""Rounding, saturation, shifts and number codecs: the only place where bits are rounded.

    shift_right     x / 2^n, rounded: ties to even, or away from zero if a register's round bit is set
    shift_number    the same for one number
    shift_floor     x / 2^n, rounded down
    saturate        clamp to the range of an integer type
    quantize        real -> stored integer;  dequantize: stored integer -> real
    dequantize_affine   stored integer -> real in single precision, as runtimes do it; native, into `out=`
    multiply_floats   a product of matrices in floating point, as the NPU's array adds it up
    encode_fp16, encode_bf16, decode_fp16, decode_bf16      floats <-> their 16-bit patterns
    pack_int4, unpack_int4                                  signed 4-bit numbers, two per byte

Everything works on whole arrays and is exact: integers are 64 bits wide and never pass through a float. Ties go to
even unless a caller asks otherwise: boards with RV1103 and RK3588 do so wherever they were heard, but in lookup
tables, which floor (docs/fidelity.md has the recordings). This file is the one place to change it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from openrknn import nativelib

__all__ = [
    "FLOAT_GROUP",
    "FORMATS",
    "MASKED",
    "Rounding",
    "decode_bf16",
    "decode_fp16",
    "dequantize",
    "dequantize_affine",
    "encode_bf16",
    "encode_fp16",
    "larger",
    "multiply_floats",
    "pack_int4",
    "quantize",
    "round_to_integer",
    "saturate",
    "shift_floor",
    "shift_number",
    "shift_right",
    "smaller",
    "unpack_int4",
]

MASKED = 30000.0
"""What a mask takes off a score that must not count. fp16 ends at 65504, and the lowest float becomes infinite there;
the exponential of -30000 is as much 0 as that of -3.4e38."""

Int64s: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float32]
Bits16: TypeAlias = npt.NDArray[np.uint16]
_Stored = TypeVar("_Stored", np.int8, np.int16, np.int32)

FLOAT_GROUP = 32
"""Floating point products that are added up before they are added to the total: the channels that the array takes."""
_WIDEST_SHIFT = 63
_BF16_QUIET = 0x0040
"""The top bit of a bf16 mantissa: it keeps a NaN a NaN when its low bits are cut off."""


class Rounding(IntEnum):
    """What happens to a value exactly half way between two integers; the codes of the registers' round bits."""

    EVEN = 0
    AWAY = 1
    """Away from zero: 2.5 -> 3, -2.5 -> -3. Measured on RV1103 (dnhkng/open-rknpu: 12,288 bytes; up was refuted)."""


# -------------------------------------------------------------------------------------------------- integers


def shift_right(
    values: npt.ArrayLike, shift: npt.ArrayLike | int, rounding: Rounding = Rounding.EVEN, *, offset: int = 0
) -> Int64s:
    """`values / 2^shift + offset`, rounded to the nearest integer.

    With q = floor(x / 2^n) + offset and r = x mod 2^n (so 0 <= r < 2^n also for negative x):

        EVEN    q + 1 if r > 2^(n-1), or r = 2^(n-1) and q is odd; else q
        AWAY    q + 1 if r > 2^(n-1), or r = 2^(n-1) and q >= 0; else q

    The offset counts in ties, as in a converter that adds it before the shift. For products that leave room this equals
    the silicon's (x + (offset << n) + 2^(n-1) - 1 + (q & 1)) >> n, but it cannot overflow.
    `shift` may be an array (stages that shift negative values differently), and as wide as its register can say.
    """
    wide = _as_int64(values)
    if isinstance(shift, int) and 0 < shift <= _WIDEST_SHIFT:
        return _shift_right_by(wide, shift, rounding, offset)
    amount = _as_int64(shift)
    if np.any(amount < 0):
        raise ValueError(f"a right shift by {int(amount.min())} is not one")
    count = np.minimum(amount, _WIDEST_SHIFT)
    quotient = wide >> count
    rest = wide - (quotient << count)
    half = np.int64(1) << np.maximum(count - 1, 0)
    whole = quotient + np.int64(offset)
    goes_on = whole >= 0 if rounding is Rounding.AWAY else whole & 1 == 1
    over = (rest > half) | ((rest == half) & goes_on)
    rounded = np.where(count > 0, quotient + over, wide)
    # Beyond the width the magnitude is at most a half: -2^63 / 2^64 is the only tie, and it is taken to 0.
    rounded = np.where(amount > _WIDEST_SHIFT, np.int64(0), rounded)
    return rounded + np.int64(offset) if offset else rounded


def _shift_right_by(wide: Int64s, shift: int, rounding: Rounding, offset: int) -> Int64s:
    """`shift_right` by one number for all, in fewer passes."""
    quotient = wide >> shift
    rest, half = wide & ((1 << shift) - 1), 1 << (shift - 1)
    whole = quotient + np.int64(offset)
    goes_on = whole >= 0 if rounding is Rounding.AWAY else whole & 1 == 1
    rounded: Int64s = whole + ((rest > half) | ((rest == half) & goes_on))
    return rounded


def shift_number(value: int, shift: int, rounding: Rounding = Rounding.EVEN, *, offset: int = 0) -> int:
    """`shift_right` of one number, which may be wider than 64 bits: an array costs more than it saves."""
    if shift < 0:
        raise ValueError(f"a right shift by {shift} is not one")
    if not shift:
        return value + offset
    quotient, rest, half = (value >> shift) + offset, value & ((1 << shift) - 1), 1 << (shift - 1)
    goes_on = quotient >= 0 if rounding is Rounding.AWAY else quotient & 1 == 1
    return quotient + (rest > half or (rest == half and goes_on))


def shift_floor(values: npt.ArrayLike, shift: npt.ArrayLike | int) -> Int64s:
    """`values / 2^shift`, rounded down; `shift` as wide as its register can say."""
    if isinstance(shift, int) and 0 <= shift <= _WIDEST_SHIFT:
        return _as_int64(values) >> shift
    amount = _as_int64(shift)
    if np.any(amount < 0):
        raise ValueError(f"a right shift by {int(amount.min())} is not one")
    return _as_int64(values) >> np.minimum(amount, _WIDEST_SHIFT)


def saturate(values: npt.ArrayLike, dtype: type[_Stored]) -> npt.NDArray[_Stored]:
    """Clamp integers to the range of `dtype` (int8, int16 or int32): 130 -> 127 as int8."""
    limit = 1 << 8 * np.dtype(dtype).itemsize - 1
    return np.minimum(np.maximum(_as_int64(values), -limit), limit - 1).astype(dtype)  # half as long as `clip`


def round_to_integer(values: npt.ArrayLike) -> Int64s:
    """The nearest integer, ties to even; saturates at the ends of int64, and NaN becomes 0."""
    exact = np.asarray(values, np.float64)
    # The largest double below 2^63: 2^63 - 1 itself is not one.
    limit = np.float64(2**63 - 1024)
    whole = np.clip(np.rint(np.nan_to_num(exact, nan=0.0, posinf=limit, neginf=-limit)), -limit, limit)
    return whole.astype(np.int64)


def _as_int64(values: npt.ArrayLike) -> Int64s:
    array = np.asarray(values)
    if array.size and array.dtype.kind not in "iub":
        raise TypeError(f"integers are needed here, not {array.dtype}")
    return array.astype(np.int64, copy=False)


# -------------------------------------------------------------------------------------------------- quantisation


def quantize(
    values: npt.ArrayLike,
    scale: float | Sequence[float],
    zero_point: int | Sequence[int],
    dtype: type[_Stored],
    *,
    axis: int | None = None,
) -> npt.NDArray[_Stored]:
    """`saturate(round(value / scale) + zero_point)`, ties to even; one scale, or one per entry along `axis`."""
    real = np.asarray(values, np.float64)
    steps = real / _along(np.asarray(scale, np.float64), real.ndim, axis)
    return saturate(round_to_integer(steps) + _along(np.asarray(zero_point, np.int64), real.ndim, axis), dtype)


def dequantize(
    stored: npt.ArrayLike,
    scale: float | Sequence[float],
    zero_point: int | Sequence[int],
    *,
    axis: int | None = None,
) -> Floats:
    """`(stored - zero_point) * scale` as float32, beyond its range infinity; one scale, or one per entry of `axis`."""
    wide = _as_int64(stored)
    steps = wide - _along(np.asarray(zero_point, np.int64), wide.ndim, axis)
    real: npt.NDArray[np.float64] = steps * _along(np.asarray(scale, np.float64), wide.ndim, axis)
    with np.errstate(over="ignore", under="ignore"):
        return real.astype(np.float32)


def _along(parameter: npt.NDArray[Any], rank: int, axis: int | None) -> npt.NDArray[Any]:
    """Shape a list of per-channel parameters so that it broadcasts along `axis`."""
    if axis is None:
        if parameter.size != 1:
            raise ValueError(f"{parameter.size} scales or zero points, but no axis that they belong to")
        return parameter.reshape(())
    shape = [1] * rank
    shape[axis] = parameter.size
    return parameter.reshape(shape)


def dequantize_affine(
    stored: npt.NDArray[Any], scale: float = 1.0, zero_point: int = 0, *, out: Floats | None = None
) -> Floats:
    """`(stored - zero_point) * scale` in float32; float16 is widened. Allocates nothing if `out` is given."""
    if stored.dtype not in FORMATS:
        raise TypeError(f"numbers of {', '.join(map(str, FORMATS))} are needed here, not {stored.dtype}")
    result = prepared(out, stored.shape, np.float32)
    native = nativelib.library()
    if native is not None and stored.flags.c_contiguous:
        arguments = (address(stored), address(result), stored.size, FORMATS[stored.dtype], zero_point, scale)
        _affine(native.openrknn_dequantize)(*arguments)
    elif stored.dtype.kind == "f":
        result[...] = stored
    else:
        wide = np.float64 if stored.dtype == np.int32 else np.float32
        np.multiply(np.subtract(stored, zero_point, dtype=wide).astype(np.float32), np.float32(scale), out=result)
    return result


FORMATS: dict[np.dtype[Any], int] = {
    np.dtype(name): code
    for name, code in {"int8": 0, "int16": 1, "float16": 2, "int32": 4, "float32": 5, "uint8": 16}.items()
}
"""NumPy types -> the codes of native/openrknn.h."""


def prepared(
    out: npt.NDArray[Any] | None, shape: tuple[int, ...], dtype: npt.DTypeLike
) -> npt.NDArray[Any]:
    """`out`, if results of this shape and type can be written there; else a new array."""
    if out is None:
        return np.empty(shape, dtype)
    if out.dtype != dtype or out.shape != shape:
        raise ValueError(f"out= is {out.dtype} {list(out.shape)}, the result is {np.dtype(dtype)} {list(shape)}")
    if not out.flags.c_contiguous or not out.flags.writeable:
        raise ValueError("out= must be contiguous and writable")
    return out


def address(array: npt.NDArray[Any]) -> int:
    """Where an array begins; faster than `array.ctypes.data`."""
    place: int = array.__array_interface__["data"][0]
    return place


def _affine(function: Any) -> Any:
    if function.argtypes is None:
        pointer, count, code = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32
        function.argtypes, function.restype = (pointer, pointer, count, code, code, ctypes.c_float), code
    return function


# -------------------------------------------------------------------------------------------------- 16-bit floats


def multiply_floats(left: npt.NDArray[Any], right: npt.NDArray[Any]) -> Floats:
    """The product of matrices [M, K] and [K, N] as the NPU's array adds it up, in single precision.

    32 products are added one by one, and what that gives is added to the total: npu/blocks/core.py says what this
    relies on. Products of fp16 with fp16 or with integers of up to 13 bits are exact, so that an instruction that
    multiplies and adds gives the same bits; others are rounded first.
    """
    wide_left, wide_right = left.astype(np.float32), right.astype(np.float32)
    total = np.zeros((len(wide_left), wide_right.shape[1]), np.float32)
    product = np.empty_like(total)
    for first in range(0, len(wide_right), FLOAT_GROUP):
        group = np.zeros_like(total)
        for k in range(first, min(first + FLOAT_GROUP, len(wide_right))):
            np.multiply(wide_left[:, k, None], wide_right[k], out=product)
            group += product
        total += group
    return total


def larger(values: npt.NDArray[Any], others: npt.ArrayLike) -> npt.NDArray[Any]:
    """The larger of both. Of two zeros it is the second, where NumPy's maximum has what the processor makes of them."""
    return np.where((values > others) | (values != values), values, others)  # noqa: PLR0124, a NaN wins


def smaller(values: npt.NDArray[Any], others: npt.ArrayLike) -> npt.NDArray[Any]:
    """The smaller of both; see `larger`."""
    return np.where((values < others) | (values != values), values, others)  # noqa: PLR0124


def encode_fp16(values: npt.ArrayLike) -> Bits16:
    """IEEE half precision, nearest even, in one rounding from float32 or float64; overflow gives infinity."""
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(values).astype(np.float16).view(np.uint16)


def decode_fp16(bits: npt.ArrayLike) -> Floats:
    """The values of half-precision bit patterns; exact."""
    with np.errstate(invalid="ignore"):  # Arm says so of NaNs that signal
        return _patterns(bits).view(np.float16).astype(np.float32)


def encode_bf16(values: npt.ArrayLike) -> Bits16:
    """The upper half of a float32, nearest even; overflow gives infinity, NaN stays NaN.

    Only float32: a float64 would be rounded twice, and twice is sometimes wrong.
    """
    single = np.asarray(values)
    if single.dtype != np.float32:
        raise TypeError(f"bf16 is made from float32, not from {single.dtype}")
    bits = np.ascontiguousarray(single).view(np.uint32).reshape(single.shape).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> np.uint64(16)) & np.uint64(1))) >> np.uint64(16)
    quiet = (bits >> np.uint64(16)) | np.uint64(_BF16_QUIET)
    return np.where(np.isnan(single), quiet, rounded).astype(np.uint16)


def decode_bf16(bits: npt.ArrayLike) -> Floats:
    """The values of bf16 bit patterns; exact."""
    return (_patterns(bits).astype(np.uint32) << np.uint32(16)).view(np.float32)


def _patterns(bits: npt.ArrayLike) -> Bits16:
    array = np.asarray(bits)
    if array.dtype.kind not in "iu" or array.dtype.itemsize != 2:
        raise TypeError(f"16-bit patterns are needed here, not {array.dtype}")
    return np.ascontiguousarray(array).view(np.uint16).reshape(array.shape)


# -------------------------------------------------------------------------------------------------- 4-bit integers


def unpack_int4(packed: npt.ArrayLike) -> npt.NDArray[np.int8]:
    """Two signed numbers per byte, the low half first; the result is one-dimensional."""
    pairs = np.asarray(packed)
    if pairs.dtype.itemsize != 1:
        raise TypeError(f"bytes are needed here, not {pairs.dtype}")
    raw = np.ascontiguousarray(pairs).reshape(-1).view(np.uint8)
    halves = np.stack([raw & 0xF, raw >> 4], axis=1).reshape(-1)
    return ((halves ^ 8).astype(np.int8) - np.int8(8)).astype(np.int8)


def pack_int4(values: npt.ArrayLike) -> npt.NDArray[np.uint8]:
    """The inverse of `unpack_int4`: an even number of values from -8 to 7."""
    numbers = _as_int64(values).reshape(-1)
    if numbers.size % 2:
        raise ValueError(f"{numbers.size} numbers do not fill whole bytes")
    if np.any((numbers < -8) | (numbers > 7)):
        raise ValueError("a 4-bit number must be between -8 and 7")
    halves = (numbers & 0xF).astype(np.uint8).reshape(-1, 2)
    return halves[:, 0] | (halves[:, 1] << np.uint8(4))
