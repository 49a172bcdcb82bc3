"""Tensors in memory equal what `openrknn.layout`, written for itself, packs and unpacks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openrknn.container.load import load
from openrknn.container.parts import DataType, Kind, Layout, Tensor
from openrknn.errors import UnsupportedError
from openrknn.layout.features import FeatureLayout, ImageRows
from openrknn.runtime.io.tensors import StoredTensor, constant
from tests.runtime.cases import GOLDENS

sizes = st.integers(1, 9)


def tensor(shape: tuple[int, ...], **more: Any) -> Tensor:
    fields: dict[str, Any] = {
        "index": 1, "name": "t", "dtype": DataType.INT8, "layout": Layout.NC1HWC2, "kind": Kind.INTERNAL,
        "native_shape": shape, "quantization": None, "size_bytes": 0, "offset": 0,
    }  # fmt: skip
    return Tensor(shape=shape, **{**fields, **more})


def feature_map(shape: tuple[int, int, int, int], alignment: int) -> Tensor:
    batches, channels, height, width = shape
    native = (batches, -(-channels // 16), height, width, 16)
    return tensor(shape, native_shape=native, pixel_alignment=alignment)


@given(st.tuples(st.integers(1, 2), st.integers(1, 40), sizes, sizes), st.sampled_from([0, 4]), st.randoms())
def test_feature_maps(shape: tuple[int, int, int, int], alignment: int, chance: Any) -> None:
    values = np.random.default_rng(chance.randrange(1 << 30)).integers(-128, 128, shape).astype(np.int8)
    described = feature_map(shape, alignment)
    layout = FeatureLayout.from_native(described.native_shape, channels=shape[1], pixel_alignment=alignment)
    packed = layout.pack(values)
    memory = np.zeros(packed.nbytes, np.uint8)
    stored = StoredTensor(described, memory)
    stored.write(values)
    assert np.array_equal(memory.view(np.int8), packed)
    assert np.array_equal(stored.read(), values)
    memory[:] = 0
    stored.write_channels_last(np.ascontiguousarray(values.transpose(0, 2, 3, 1)))
    assert np.array_equal(memory.view(np.int8), packed)


@given(st.integers(1, 4), sizes, st.integers(1, 33), st.sampled_from([8, 16]), st.randoms())
def test_pictures(channels: int, height: int, width: int, alignment: int, chance: Any) -> None:
    shape = (1, channels, height, width)
    values = np.random.default_rng(chance.randrange(1 << 30)).integers(-128, 128, shape).astype(np.int8)
    rows = ImageRows.aligned((1, height, width, channels), alignment)
    memory = np.zeros(rows.elements, np.uint8)
    stored = StoredTensor(tensor(shape, row_alignment=alignment), memory)
    stored.write(values)
    assert np.array_equal(memory.view(np.int8), rows.pack(values.transpose(0, 2, 3, 1)))
    assert np.array_equal(stored.read(), values)
    if stored.padding is not None:
        stored.padding[...] = 77
    assert np.array_equal(memory.view(np.int8), rows.pack(values.transpose(0, 2, 3, 1), fill=77))


def test_other_layouts_are_plain() -> None:
    memory = np.zeros(64, np.uint8)
    stored = StoredTensor(tensor((1, 4, 5), layout=Layout.UNDEFINED, dtype=DataType.FLOAT16), memory)
    values = np.arange(20, dtype=np.float16).reshape(1, 4, 5)
    stored.write(values)
    assert np.array_equal(memory[:40].view(np.float16), values.ravel())
    assert np.array_equal(stored.read(), values)


def test_lanes_without_a_channel_are_cleared() -> None:
    memory = np.full(3 * 16 * 4, 255, np.uint8)
    described = tensor((1, 20, 2, 2), native_shape=(1, 3, 2, 2, 16))
    stored = StoredTensor(described, memory)
    stored.clear_lanes()
    assert np.all(stored.native[:, 0] == -1)
    assert np.all(stored.native[:, 1, :, :, :4] == -1)
    assert not stored.native[:, 1, :, :, 4:].any()
    assert not stored.native[:, 2].any()


@pytest.mark.parametrize(
    "described",
    [feature_map((1, 16, 4, 4), 4), tensor((1, 3, 4, 4), row_alignment=16), tensor((200,), layout=Layout.UNDEFINED)],
)
def test_a_tensor_that_does_not_fit_into_its_memory_is_named(described: Tensor) -> None:
    with pytest.raises(UnsupportedError, match="tensor 't'"):
        StoredTensor(described, np.zeros(100, np.uint8))


def test_a_type_without_numbers_is_named() -> None:
    with pytest.raises(UnsupportedError, match="'t' holds string"):
        StoredTensor(tensor((1,), dtype=DataType.STRING), np.zeros(100, np.uint8))


def test_constants_come_from_the_file() -> None:
    model = load(GOLDENS / "gemm_rk3588_i8.rknn")
    shape = next(entry for entry in model.graphs[0].tensors if entry.kind is Kind.CPU_CONSTANT)
    assert constant(model, shape).tolist() == [1, 10]
    with pytest.raises(UnsupportedError, match="no data in this file"):
        constant(model, tensor((2,), name="nobody"))
