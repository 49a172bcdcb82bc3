from __future__ import annotations

import gc
import tracemalloc
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openrknn import layout, nativelib, numerics
from openrknn.layout.arrange import Arrangement, narrowed
from openrknn.layout.features import FeatureLayout

TYPES = [np.int8, np.uint8, np.int16, np.int32, np.float16, np.float32]
ATOMS = [4, 8, 16, 32, 3]


@pytest.fixture(params=["native", "numpy"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "numpy":
        monkeypatch.setenv(nativelib.ENVIRONMENT, "numpy")
    elif nativelib.library() is None:
        pytest.skip("installed without the native library")
    return str(request.param)


def values(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> npt.NDArray[Any]:
    random = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "f":
        numbers = random.standard_normal(shape).astype(dtype)
        numbers.flat[0] = np.inf
        numbers.flat[-1] = 6e-8  # subnormal as float16
        return numbers
    limits = np.iinfo(dtype)
    return random.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)


def affine(stored: npt.NDArray[Any], scale: float, zero: int) -> npt.NDArray[np.float32]:
    if stored.dtype.kind == "f":
        return stored.astype(np.float32)
    return (stored.astype(np.int64) - zero).astype(np.float32) * np.float32(scale)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("atom", ATOMS)
@pytest.mark.parametrize("size", [(1, 1, 1), (5, 7, 19), (4, 16, 32), (3, 33, 40)])
def test_it_is_the_inverse_of_pack(way: str, dtype: Any, atom: int, size: tuple[int, int, int]) -> None:
    height, width, channels = size
    wanted = values((2, channels, height, width), dtype)
    for alignment in (1, 4):
        places = FeatureLayout.dense((2, channels, height, width), atom, pixel_alignment=alignment)
        native = places._view(places.pack(wanted))
        assert np.array_equal(layout.nc1hwc2_to_nchw(native, channels), wanted)
        floats = layout.nc1hwc2_to_nchw(native, channels, scale=0.03125, zero_point=-7)
        assert floats.dtype == np.float32
        assert np.array_equal(floats, affine(wanted, 0.03125, -7))


@pytest.mark.parametrize("atom", [8, 16])
def test_lines_may_have_gaps(way: str, atom: int) -> None:
    whole = values((1, 2, 6, 40, atom), np.int8)
    native = whole[:, :, 1:5, 3:37]
    expected = native.transpose(0, 1, 4, 2, 3).reshape(1, 2 * atom, 4, 34)
    assert np.array_equal(layout.nc1hwc2_to_nchw(native), expected)
    turned = native[:, :, :, ::-1]
    assert np.array_equal(layout.nc1hwc2_to_nchw(turned), expected[..., ::-1])


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 40), st.integers(1, 5), st.integers(1, 20), st.sampled_from([4, 8, 16]))
def test_there_and_back(channels: int, height: int, width: int, atom: int) -> None:
    wanted = values((1, channels, height, width), np.int16)
    native = layout.nchw_to_nc1hwc2(wanted, atom)
    assert native.shape == (1, -(-channels // atom), height, width, atom)
    assert np.array_equal(layout.nc1hwc2_to_nchw(native, channels), wanted)
    last = layout.nc1hwc2_to_nhwc(native, channels)
    assert np.array_equal(last, wanted.transpose(0, 2, 3, 1))
    assert np.array_equal(layout.nhwc_to_nc1hwc2(last, atom), native)
    assert np.array_equal(native.transpose(0, 1, 4, 2, 3).reshape(1, -1, height, width)[:, channels:],
                          np.zeros((1, native.shape[1] * atom - channels, height, width)))  # fmt: skip


@pytest.mark.parametrize("dtype", TYPES[:4])
def test_dequantize_affine(way: str, dtype: Any) -> None:
    stored = values((3, 5, 7), dtype)
    for zero in (0, -7, 100):
        assert np.array_equal(numerics.dequantize_affine(stored, 0.1, zero), affine(stored, 0.1, zero))
        assert np.array_equal(numerics.dequantize_affine(stored.T, 0.1, zero), affine(stored, 0.1, zero).T)


def test_nothing_is_allocated_for_given_arrays() -> None:
    if nativelib.library() is None:
        pytest.skip("installed without the native library")
    native = values((1, 5, 80, 80, 16), np.int8)
    out = np.empty((1, 80, 80, 80), np.float32)
    reading = Arrangement(native, 80, scale=0.5)
    reading.read(out)
    gc.collect()
    tracemalloc.start()
    for _ in range(10):
        assert reading.read(out) is out
        numerics.dequantize_affine(native, 0.5, out=out.reshape(native.shape))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20_000


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: layout.nc1hwc2_to_nchw(np.zeros((1, 2, 3, 4), np.int8)), ValueError, r"N, C1, H, W, C2"),
        (lambda: layout.nc1hwc2_to_nchw(np.zeros((1, 1, 3, 4, 8), np.int64)), ValueError, "not int64"),
        (lambda: layout.nc1hwc2_to_nchw(np.zeros((1, 1, 3, 4, 8), np.int8), 9), ValueError, "does not hold 9 channels"),
        (
            lambda: layout.nc1hwc2_to_nchw(np.zeros((1, 1, 3, 4, 8), np.int8), out=np.zeros(96, np.int8)),
            ValueError, r"out= is int8 \[96\], the result is int8 \[1, 8, 3, 4\]",
        ),
        (
            lambda: layout.nc1hwc2_to_nchw(np.zeros((1, 1, 3, 4, 8), np.int8), out=np.zeros((1, 3, 4, 8), np.int8).T),
            ValueError, "out=",
        ),
        (lambda: layout.nchw_to_nc1hwc2(np.zeros(4), 8), ValueError, r"\[N, C, H, W\]"),
        (lambda: numerics.dequantize_affine(np.zeros(4, np.int64)), TypeError, "not int64"),
    ],
)  # fmt: skip
def test_wrong_arguments_say_what_is_wrong(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


def test_narrowed_numbers_are_those_of_numpy() -> None:
    noise = np.random.default_rng(7)
    values = noise.integers(0, 2**32, (3, 5, 7, 11), np.uint32).view(np.float32)
    values[np.isnan(values)] = np.inf
    values.reshape(-1)[:8] = [0.0, -0.0, 65519.99, 65520.0, -65520.0, 2**-24, 2**-25, -(2**-25) * 1.001]
    halves = noise.normal(0, 1, values.shape).astype(np.float32)
    for numbers in (values, halves, values.transpose(0, 2, 3, 1), values[:, ::2], values[:, :, :, ::-1], values[:0]):
        found = narrowed(numbers)
        assert found.dtype == np.float16
        assert np.array_equal(found.view(np.uint16), numerics.encode_fp16(numbers))
    doubles = halves.astype(np.float64)
    assert np.array_equal(narrowed(doubles).view(np.uint16), numerics.encode_fp16(doubles))
