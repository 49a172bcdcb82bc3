"""Layouts of matrices: there and back, and rknn_B_normal_layout_to_native_layout of every version."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openrknn.capi.call import CallError
from openrknn.capi.matmul_attributes import Matrix, Shape, Spec, b_to_native, read_a, read_b, write_c
from openrknn.capi.matmul_run import DeviceRun, DirectRun
from openrknn.capi.matmul_scales import Scales
from openrknn.chips import CHIPS
from openrknn.device import SoftwareDevice
from openrknn.runtime.matmul import direct
from openrknn.vendor.matmul.matrices import pack_a, pack_b, stored
from openrknn.vendor.tables.enums import MatmulLayout, MatmulQuantization, MatmulType, TensorType
from openrknn.vendor.tables.matmul import ALIGNMENT, native_tile
from tests.capi.products import Products, exact, numbers

INT8, FP16 = MatmulType.INT8_MM_INT8_TO_INT32, MatmulType.FLOAT16_MM_FLOAT16_TO_FLOAT32
SAME = {TensorType.INT8: INT8, TensorType.FLOAT16: FP16, TensorType.INT4: MatmulType.INT4_MM_INT4_TO_INT16}
CASES = [(chip, SAME[kind]) for chip, kinds in ALIGNMENT.items() for kind in kinds]


@settings(max_examples=80, deadline=None)
@given(case=st.sampled_from(CASES), tiles=st.tuples(st.integers(1, 5), st.integers(1, 3)), segment=st.integers(0, 3))
def test_b_there_and_back(case: tuple[str, MatmulType], tiles: tuple[int, int], segment: int) -> None:
    chip, kind = case
    spec = Spec(CHIPS[chip], kind, MatmulLayout.NATIVE)
    tile = native_tile(spec.chip, kind.types[0])
    assert tile is not None
    shape = Shape(1, tiles[0] * tile.b_k, tiles[1] * tile.b_n)
    rows = segment * tile.b_k
    values = numbers(kind.types[1], (shape.k, shape.n))
    matrix = spec.matrices(shape)["B"]
    native = b_to_native(matrix, stored(values, matrix.type), rows)
    assert native.nbytes == matrix.size_bytes
    assert np.array_equal(native, stored(pack_b(values, tile.b_n, tile.b_k, rows), matrix.type))
    assert np.array_equal(read_b(matrix, native, rows), values)


@settings(max_examples=60, deadline=None)
@given(case=st.sampled_from(CASES), m=st.integers(1, 9), k=st.integers(1, 4))
def test_a_and_c_there_and_back(case: tuple[str, MatmulType], m: int, k: int) -> None:
    chip, kind = case
    spec = Spec(CHIPS[chip], kind, ac_layout=MatmulLayout.NATIVE)
    matrices = spec.matrices(Shape(m, 32 * k, 64))
    values = numbers(kind.types[0], (m, 32 * k))
    packed = stored(pack_a(values, matrices["A"].dims[2]), kind.types[0])
    assert np.array_equal(read_a(matrices["A"], packed), values)
    results = np.arange(m * 64).reshape(m, 64)
    native = np.zeros(matrices["C"].size_bytes, np.uint8)
    write_c(matrices["C"], native, results)
    plain = Matrix("C", matrices["C"].dims, matrices["C"].type, MatmulLayout.NATIVE)
    assert np.array_equal(read_a(plain, native), results)


@pytest.mark.parametrize("version", ["2.0.0b0", "2.1.0", "2.5.0"])
@pytest.mark.parametrize("kind", list(MatmulType))
def test_b_to_native_of_every_version(version: str, kind: MatmulType) -> None:
    made = Products(version)
    b = numbers(kind.types[1], (64, 128))
    columns = {TensorType.INT4: 64, TensorType.INT8: 32, TensorType.FLOAT16: 16}[kind.types[0]]
    is_old = version == "2.0.0b0"
    payload = int(kind).to_bytes(4, "little") if is_old else made.info(0, 0, 0, kind)
    native = made.b_to_native(stored(b, kind.types[1]).tobytes(), 64, 128, payload, (columns, 32) if is_old else (0, 0))
    assert native == stored(pack_b(b, columns, 32), kind.types[1]).tobytes()
    made.close()


def test_b_to_native_refuses(products: Products) -> None:
    info = products.info(0, 0, 0, INT8)
    for k, n, size, payload, tile, text in (
        (64, 33, 64 * 33, info, (0, 0), "N of 32, not 64 and 33"),
        (64, 32, 100, info, (0, 0), "2048 bytes are needed, 100 came"),
        (64, 32, 64 * 32, int(INT8).to_bytes(4, "little"), (16, 32), "subN and subK are 16 and 32"),
        (64, 32, 64 * 32, b"x", (0, 0), "neither rknn_matmul_info nor rknn_matmul_type"),
        (-1, 32, 64, info, (0, 0), "K is -1"),
    ):
        with pytest.raises(CallError, match=text):
            products.b_to_native(bytes(size), k, n, payload, tile)


def test_a_long_b_lies_in_segments(products: Products) -> None:
    """K above 8192 on RK3588: the header of 2.3.2."""
    for kind in (INT8, FP16):
        product = products.create(2, 8192 + 64, 32, kind, b_layout=MatmulLayout.NATIVE)
        a = np.ones((2, 8192 + 64), np.int8).astype(np.float16 if kind is FP16 else np.int8)
        b = numbers(TensorType.INT8, (8192 + 64, 32)).astype(a.dtype)
        product.set("A", a)
        product.set("B", b)
        product.run()
        assert np.array_equal(product.get(), b.astype(np.int32).sum(axis=0)[None].repeat(2, axis=0))


def test_groups_of_a_long_b(products: Products) -> None:
    kind = MatmulType.INT8_MM_INT8_TO_FLOAT32
    k, size = 8192 + 4096, 2048
    product = products.create(
        2, k, 32, kind, b_layout=MatmulLayout.NATIVE, b_quantization=MatmulQuantization.PER_GROUP_SYM, group_size=size
    )
    scales = 2.0 ** np.arange(6).repeat(32).reshape(6, 32)
    product.set_scales("B", scales)
    a, b = numbers(TensorType.INT8, (2, k)), numbers(TensorType.INT8, (k, 32))
    product.set("A", a)
    product.set("B", b)
    product.run()
    expected = a.astype(np.float64) @ (b * np.repeat(scales, size, axis=0))
    assert np.array_equal(product.get(), expected.astype(np.float32))


@pytest.mark.parametrize("version", ["1.5.2", "1.6.0", "2.0.0b0", "2.1.0", "2.5.0"])
def test_the_info_of_every_version(version: str) -> None:
    made = Products(version)
    product = made.create(3, 64, 32, INT8, b_layout=MatmulLayout.NATIVE, ac_layout=MatmulLayout.NATIVE)
    assert product.shapes() == ((4, 3, 16), (1, 2, 32, 32), (8, 3, 4))
    a, b = numbers(TensorType.INT8, (3, 64)), numbers(TensorType.INT8, (64, 32))
    product.set("A", a)
    product.set("B", b)
    product.run()
    assert np.array_equal(product.get(), exact(a, b, INT8))
    if version == "1.5.2":
        with pytest.raises(CallError, match="neither RKNN_TENSOR_FLOAT16 nor RKNN_TENSOR_INT8"):
            made.create(3, 64, 32, TensorType.UINT8)
    made.close()


@pytest.mark.skipif(not direct.is_available(), reason="no native library: there is nothing to compare with")
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize(
    "kind",
    [MatmulType.FLOAT16_MM_INT8_TO_FLOAT32, MatmulType.FLOAT16_MM_INT4_TO_FLOAT32, MatmulType.INT8_MM_INT4_TO_INT32],
)
def test_commands_of_rk3576_take_a_narrow_b(kind: MatmulType, *, scaled: bool) -> None:
    """The same C by commands and without; a zero point beside float16 makes B float16."""
    quantization = MatmulQuantization.PER_LAYER_ASYM if scaled else MatmulQuantization.PER_LAYER_SYM
    spec, shape = Spec(CHIPS["rk3576"], kind, b_quantization=quantization), Shape(3, 64, 64)
    scales = Scales(spec)
    if scaled:
        scales.put("B", np.array([0.5], np.float32), np.array([3], np.int32), shape)
    random, matrices, found = np.random.default_rng(2), spec.matrices(shape), []
    data = {name: random.integers(0, 60, matrices[name].size_bytes, np.uint8) for name in "AB"}
    with SoftwareDevice(CHIPS["rk3576"]) as device:
        for run in (DirectRun(spec, shape, scales), DeviceRun(device, spec, shape, scales)):
            c = np.zeros(matrices["C"].size_bytes, np.uint8)
            for name, bound in {**data, "C": c}.items():
                run.bind(name, bound)
            run.run()
            run.close()
            found.append(c)
    assert found[0].any()
    assert np.array_equal(found[0], found[1])
