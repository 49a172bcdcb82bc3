"""Products on the matrices themselves: the bytes that the software NPU's commands make, with every set of kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from openrknn.chips import CHIPS
from openrknn.compute import native
from openrknn.device import SoftwareDevice
from openrknn.numerics import multiply_floats, pack_int4
from openrknn.runtime.matmul.commands import KINDS
from openrknn.runtime.matmul.direct import DirectProduct, Rows, Tiles, is_available
from openrknn.runtime.matmul.own import OwnProduct
from openrknn.vendor.matmul.matrices import pack_a, pack_b

Array = npt.NDArray[Any]
RANDOM = np.random.default_rng(3)
SHAPES = [(1, 32, 32), (3, 64, 96), (4, 96, 32), (9, 256, 64), (37, 128, 64), (70, 2048, 32)]

pytestmark = pytest.mark.skipif(not is_available(), reason="the native library is not built")


@pytest.fixture(params=["tiles", "scalar", "avx2", "avxvnni", "vnni", "amx", "neon", "dotprod", "i8mm"])
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    name = str(request.param)
    if name not in [one.name.lower() for one in native.available()]:
        pytest.skip(f"this processor has no {name}")
    monkeypatch.setenv("OPENRKNN_KERNELS", name)
    return name


def flat(values: Array) -> npt.NDArray[np.uint8]:
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8)


def multiplied(a: Array, b: Array, *, bits: tuple[int, int] | None = None, zeros: Array | None = None) -> Array:
    """A as rows, B in tiles as on RK3588."""
    (m, k), n = a.shape, b.shape[1]
    a_bits, b_bits = bits or (8 * a.itemsize, 8 * b.itemsize)
    columns = {4: 64, 8: 32, 16: 16}[a_bits]
    product = DirectProduct(m, k, n, a_bits=a_bits, b_bits=b_bits)
    packed = pack_b(b, columns, 32)
    product.set_a(Rows.plain(pack_int4(a.reshape(-1)) if a_bits == 4 else flat(a), k, a_bits))
    product.set_b(Tiles(pack_int4(packed) if b_bits == 4 else flat(packed), columns, 32))
    result = np.zeros((m, n), np.float32 if a_bits == 16 else np.int32)
    product.set_c(Rows.plain(result.reshape(-1).view(np.uint8), n, 32))
    product.set_zeros(zeros)
    product.run()
    return result


def commanded(a: Array, b: Array) -> Array:
    """The same by register commands."""
    with SoftwareDevice(CHIPS["rk3588"]) as device:
        own = OwnProduct(device, len(a), len(b), b.shape[1], KINDS["fp16" if a.dtype == np.float16 else "int8"])
        own.set_a(a)
        own.set_b(b)
        own.run()
        result = own.get_c()
        own.close()
    return result


def int8(*shape: int) -> Array:
    return RANDOM.integers(-128, 128, shape, dtype=np.int8)


@pytest.mark.parametrize("shape", SHAPES)
def test_integers_are_exact(kernels: str, shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    a, b = int8(m, k), int8(k, n)
    assert np.array_equal(multiplied(a, b), a.astype(np.int32) @ b.astype(np.int32))
    assert np.array_equal(multiplied(a, b), commanded(a, b))


def test_the_largest_sums(kernels: str) -> None:
    """K is as large as int32 allows: on the way, sums of kernels that add 128 leave 32 bits."""
    k = (1 << 17) - 32
    a, b = np.full((4, k), -128, np.int8), np.full((k, 32), -128, np.int8)
    assert np.all(multiplied(a, b) == k << 14)
    assert np.all(multiplied(a, np.full((k, 32), 127, np.int8)) == -k * 128 * 127)


@pytest.mark.parametrize("m", [1, 6])
def test_numbers_of_four_bits(kernels: str, m: int) -> None:
    a, b = (RANDOM.integers(-8, 8, size, dtype=np.int8) for size in ((m, 128), (128, 64)))
    expected = a.astype(np.int32) @ b.astype(np.int32)
    assert np.array_equal(multiplied(a, b, bits=(4, 4)), expected)
    wide = int8(m, 128)
    assert np.array_equal(multiplied(wide, b, bits=(8, 4)), wide.astype(np.int32) @ b.astype(np.int32))


@pytest.mark.parametrize("shape", SHAPES)
def test_floats_are_those_of_the_software_npu(kernels: str, shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    a, b = (RANDOM.standard_normal(size).astype(np.float16) for size in ((m, k), (k, n)))
    assert multiplied(a, b).tobytes() == commanded(a, b).tobytes()


def test_sums_whose_rounding_is_hard(kernels: str) -> None:
    """Large parts that cancel, halves of the last place, and what is not finite."""
    a = RANDOM.standard_normal((8, 64)).astype(np.float16)
    b = RANDOM.standard_normal((64, 32)).astype(np.float16)
    a[0] = 65504
    b[::2, 0], b[1::2, 0] = 65504, -65504
    b[0, 0] = 2**-24
    a[1, :3], b[:3, 1], b[3:, 1] = (1, 2**-14, 2**-10), (1, 2**-10, 2**-24), 0
    b[5, 2], b[6, 3], a[4, 7] = np.inf, np.nan, -np.inf
    a[6] = 0
    result, expected = multiplied(a, b), commanded(a, b)
    assert np.array_equal(np.isnan(result), np.isnan(expected))
    assert np.array_equal(result, expected, equal_nan=True)
    with np.errstate(invalid="ignore"):
        assert np.array_equal(result, multiply_floats(a, b), equal_nan=True)


@pytest.mark.parametrize("m", [1, 5])
@pytest.mark.parametrize("bits", [8, 4])
def test_floats_by_integers(kernels: str, m: int, bits: int) -> None:
    limit = 1 << (bits - 1)
    a = RANDOM.standard_normal((m, 64)).astype(np.float16)
    b = RANDOM.integers(-limit, limit, (64, 48), dtype=np.int8)
    zeros = RANDOM.integers(-5, 6, 48).astype(np.int32)
    product = (b - zeros).astype(np.float16)
    assert multiplied(a, b, bits=(16, bits), zeros=zeros).tobytes() == multiplied(a, product).tobytes()


def test_more_rows_than_are_brought_at_once(kernels: str) -> None:
    for kind in (np.int8, np.float16):
        a, b = RANDOM.integers(-9, 9, (521, 32)).astype(kind), RANDOM.integers(-9, 9, (32, 64)).astype(kind)
        assert np.array_equal(multiplied(a, b), a.astype(np.int32) @ b.astype(np.int32))


@pytest.mark.parametrize("kind", [np.int8, np.float16])
def test_other_places_of_the_matrices(kernels: str, kind: type[Any]) -> None:
    """A and C in groups, B as [N, K] and in segments: the same C."""
    m, k, n, bits = 5, 160, 64, 8 * np.dtype(kind).itemsize
    a, b = RANDOM.integers(-9, 9, (m, k)).astype(kind), RANDOM.integers(-9, 9, (k, n)).astype(kind)
    product = DirectProduct(m, k, n, a_bits=bits, b_bits=bits)
    width, columns = 128 // bits, 32 if bits == 8 else 16
    product.set_a(Rows.native(flat(pack_a(a, width)), m, width, bits))
    result = np.zeros((n // 4, m, 4), np.float32 if bits == 16 else np.int32)
    product.set_c(Rows.native(result.reshape(-1).view(np.uint8), m, 4, 32))
    for tiles in (
        Tiles(flat(b.T), column=k * bits // 8),
        Tiles(flat(pack_b(b, columns, 32, 64)), columns, 32, segment=64),
        Tiles(flat(pack_b(b, columns, 32)), columns, 32),
    ):
        result[...] = 0
        product.set_b(tiles)
        product.run()
        assert np.array_equal(result.transpose(1, 0, 2).reshape(m, n), a.astype(np.int32) @ b.astype(np.int32))
