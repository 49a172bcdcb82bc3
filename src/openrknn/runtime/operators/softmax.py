"""Softmax, as opset 13 defines it: along one axis; and that of older opsets, which flattened the axes behind it.

Bit for bit what the vendor's runtime 1.5.2 computes, in single precision. Along the last axis: groups of four have an
exponential of their own, four partial sums are added up, and the result is a product with 1 / sum. Along another one:
groups of sixteen neighbours behind the axis, one sum in order, and a quotient. What is left behind the last whole group
has the exponential of the C library. (40 million fp16 results from random numbers, no difference.)
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import reduce
from math import prod

import numpy as np

from openrknn.compute import native
from openrknn.runtime.operators.interface import Array, Attributes, axis_of, integer

_LANES, _NEIGHBOURS = 4, 16
_LOG2_E = np.float32(1.44269504)
# ln 2 in two parts: products of the first one with small whole numbers are exact.
_LN2_HIGH, _LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
# (e^r - 1 - r) / r^2 for |r| <= ln 2 / 2, the highest power first: the coefficients of the Cephes library.
_COEFFICIENTS = tuple(
    np.float32(number)
    for number in (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
)
# glibc's expf: 2^(k/32), and a cubic polynomial for what is left of k, in double precision.
_PARTS = 32
_CUBIC = tuple(map(float.fromhex, ("0x1.c6af84b912394p-5", "0x1.ebfce50fac4f3p-3", "0x1.62e42ff0c52d6p-1")))
_SMALLEST = np.float32(-88.3762626647949)
_SMALLEST_EXPONENT = -126


def softmax(inputs: Sequence[Array], attributes: Attributes, shape: tuple[int, ...]) -> Array:
    """exp(x - max) / sum(exp(x - max)) along `axis`; the largest value is taken off so that nothing overflows."""
    axis = integer(attributes, "axis", -1)
    values = np.asarray(inputs[0], np.float32)
    if not values.size:
        return values
    axis = range(values.ndim)[axis]
    inner = prod(values.shape[axis + 1 :])
    rows = values.reshape(-1, values.shape[axis], inner)
    fast = _native(rows[..., 0]) if inner == 1 else None
    if fast is not None:
        return fast.reshape(values.shape)
    small = rows - rows.max(axis=1, keepdims=True)
    result: Array = _last(small[..., 0]) if inner == 1 else _inside(small)
    return result.reshape(values.shape)


def flat_softmax(inputs: Sequence[Array], attributes: Attributes, shape: tuple[int, ...]) -> Array:
    """Softmax of opsets before 13: `axis` and all axes behind it are one row, as in runtime 1.5.2."""
    values = inputs[0]
    axis = axis_of(integer(attributes, "axis", 1), values.ndim) if values.ndim else 0
    rows = values.reshape(prod(values.shape[:axis]), -1) if values.size else values
    return softmax([rows], {"axis": -1}, rows.shape).reshape(values.shape)


def _native(rows: Array) -> Array | None:
    """`_last` by the native library, the same bits; None without one, and for numbers that are not finite."""
    library = native.load()
    if library is None:
        return None
    run = library.openrknn_softmax
    run.restype = ctypes.c_int32
    run.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
    source = np.ascontiguousarray(rows)
    count, length = source.shape
    whole = length // _LANES * _LANES
    with np.errstate(invalid="ignore"):
        tail = np.ascontiguousarray(_library(source[:, whole:] - source.max(axis=1, keepdims=True)))
    target = np.empty_like(source)
    if run(source.ctypes.data, target.ctypes.data, count, length, tail.ctypes.data):
        return None
    return target


def _last(small: Array) -> Array:
    grown = _grown(small, _LANES)
    whole = small.shape[1] // _LANES * _LANES
    groups = np.moveaxis(grown[:, :whole].reshape(len(grown), -1, _LANES), 1, 0)
    lanes = reduce(np.add, groups, np.zeros((len(grown), _LANES), np.float32))
    total = (lanes[:, 0] + lanes[:, 1]) + (lanes[:, 2] + lanes[:, 3])
    total = reduce(np.add, grown[:, whole:].T, total)
    product: Array = grown * (np.float32(1) / total)[:, None]
    return product


def _inside(small: Array) -> Array:
    grown = _grown(small, _NEIGHBOURS)
    total = reduce(np.add, np.moveaxis(grown, 1, 0))
    quotient: Array = grown / total[:, None]
    return quotient


def _grown(small: Array, group: int) -> Array:
    """e^x of numbers that are not positive."""
    whole = small.shape[-1] // group * group
    return np.concatenate([_polynomial(small[..., :whole]), _library(small[..., whole:])], axis=-1)


def _library(small: Array) -> Array:
    parts = np.maximum(small, _SMALLEST).astype(np.float64) * (_PARTS / np.log(2))
    nearest = np.rint(parts)
    rest = (parts - nearest) / _PARTS
    value = (_CUBIC[0] * rest + _CUBIC[1]) * (rest * rest) + (_CUBIC[2] * rest + 1)
    return np.asarray(value * np.exp2(nearest / _PARTS), np.float32)


def _polynomial(small: Array) -> Array:
    """2^n e^r with the whole number n = round(x / ln 2)."""
    bounded = np.maximum(small, _SMALLEST)
    power = np.floor(_fused(bounded, _LOG2_E, np.float32(0.5)))
    rest = _fused(-power, _LN2_LOW, _fused(-power, _LN2_HIGH, bounded))
    value = np.asarray(_COEFFICIENTS[0])
    for coefficient in _COEFFICIENTS[1:]:
        value = _fused(value, rest, coefficient)
    value = _fused(value, rest * rest, rest + np.float32(1))
    return np.where(power < _SMALLEST_EXPONENT, np.float32(0), np.ldexp(value, power.astype(np.int32)))


def _fused(a: Array | np.float32, b: Array | np.float32, c: Array | np.float32) -> Array:
    """a b + c, rounded once: the product of two single precision numbers is exact in double precision."""
    return np.asarray(np.asarray(a, np.float64) * b + c, np.float32)
