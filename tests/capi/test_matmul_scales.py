"""Scales and zero points of matrix products, against the formula in double precision."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from openrknn.capi.call import CallError
from openrknn.capi.wire import Operation
from openrknn.vendor.tables.enums import MatmulLayout, MatmulQuantization, MatmulType
from tests.capi.products import Product, Products, narrowed, numbers, sums

Array = npt.NDArray[Any]
Q = MatmulQuantization
M, K, N = 5, 128, 64
RANDOM = np.random.default_rng(4)


@pytest.fixture(params=["auto", "numpy"])
def products(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Products]:
    """With the native library, and by the software NPU's commands where it is switched off."""
    monkeypatch.delenv("OPENRKNN_DEVICE", raising=False)
    monkeypatch.setenv("OPENRKNN_KERNELS", request.param)
    made = Products()
    yield made
    made.close()


def ran(product: Product, kind: MatmulType) -> tuple[Array, Array, Array]:
    """A, B and C."""
    a, b = numbers(kind.types[0], (M, K)), numbers(kind.types[1], (K, N))
    product.set("A", a)
    product.set("B", b)
    product.run()
    return a, b, product.get()


@pytest.mark.parametrize("layout", list(MatmulLayout))
def test_int8_to_int8(products: Products, layout: MatmulLayout) -> None:
    kind = MatmulType.INT8_MM_INT8_TO_INT8
    product = products.create(
        M, K, N, kind, b_layout=layout, b_quantization=Q.PER_CHANNEL_ASYM, ac_quantization=Q.PER_LAYER_ASYM
    )
    scales, zeros = RANDOM.uniform(0.01, 0.1, N).astype(np.float32), RANDOM.integers(-20, 20, N)
    product.set_scales("A", 0.2, -7)
    product.set_scales("B", scales, zeros)
    product.set_scales("C", 0.8, 11)
    a, b, c = ran(product, kind)
    exact = (a.astype(np.int64) + 7) @ (b.astype(np.int64) - zeros)
    real = exact * (np.float64(np.float32(0.2)) * scales / np.float64(np.float32(0.8)))
    assert np.array_equal(c, np.clip(np.rint(real) + 11, -128, 127).astype(np.int8))
    assert len(np.unique(c)) > 20


@pytest.mark.parametrize("kind", [
    MatmulType.INT8_MM_INT8_TO_FLOAT32, MatmulType.INT8_MM_INT4_TO_FLOAT16, MatmulType.FLOAT16_MM_INT8_TO_FLOAT32,
    MatmulType.FLOAT16_MM_INT8_TO_FLOAT16, MatmulType.FLOAT16_MM_INT4_TO_FLOAT32, MatmulType.FLOAT16_MM_INT4_TO_FLOAT16,
    MatmulType.FLOAT16_MM_INT4_TO_BFLOAT16,
])  # fmt: skip
def test_a_scale_for_each_column(products: Products, kind: MatmulType) -> None:
    product = products.create(M, K, N, kind, b_quantization=Q.PER_CHANNEL_ASYM)
    scales, zeros = RANDOM.uniform(0.01, 0.1, N).astype(np.float32), RANDOM.integers(-3, 3, N)
    product.set_scales("B", scales, zeros)
    a, b, c = ran(product, kind)
    centred = (b.astype(np.int16) - zeros).astype(np.float16 if a.dtype == np.float16 else np.int16)
    assert np.array_equal(c, narrowed(sums(a, centred) * scales.astype(np.float64), kind.types[2]))


@pytest.mark.parametrize("kind", [
    MatmulType.FLOAT16_MM_INT4_TO_FLOAT32, MatmulType.FLOAT16_MM_INT4_TO_FLOAT16, MatmulType.INT8_MM_INT8_TO_FLOAT32,
])  # fmt: skip
@pytest.mark.parametrize("size", [32, 64, 128])
@pytest.mark.parametrize("layout", list(MatmulLayout))
@pytest.mark.parametrize("is_centred", [True, False])
def test_a_scale_for_each_group(
    products: Products, kind: MatmulType, size: int, layout: MatmulLayout, is_centred: bool
) -> None:
    product = products.create(
        M, K, N, kind, b_quantization=Q.PER_GROUP_SYM if is_centred else Q.PER_GROUP_ASYM, group_size=size,
        b_layout=layout, ac_layout=layout % 2,
    )  # fmt: skip
    groups = K // size
    scales = RANDOM.uniform(0.01, 0.1, (groups, N)).astype(np.float32)
    zeros = RANDOM.integers(-4, 4, (groups, N)) * (not is_centred)
    product.set_scales("B", scales, () if is_centred else zeros)
    a, b, c = ran(product, kind)
    real = np.zeros((M, N))
    for group, (factors, zero) in enumerate(zip(scales.astype(np.float64), zeros, strict=True)):
        rows = slice(group * size, (group + 1) * size)
        real += sums(a[:, rows], b[rows].astype(np.int16) - zero) * factors
    expected = narrowed(real, kind.types[2])
    step = np.abs(expected) * 2.0 ** (-10 if expected.dtype == np.float16 else -23) + 1e-6
    assert np.all(np.abs(c.astype(np.float64) - expected) <= step)
    assert np.mean(c == expected) > 0.98  # the order of additions in double precision


def test_columns_of_integers_are_brought_to_one_scale(products: Products) -> None:
    """The reference, 4.5.5: the scale that is answered, times that of A, is the scale of C."""
    kind = MatmulType.INT8_MM_INT8_TO_INT32
    product = products.create(M, K, N, kind, b_quantization=Q.PER_CHANNEL_SYM)
    scales = RANDOM.uniform(0.01, 0.1, N).astype(np.float32)
    product.set_scales("B", scales)
    a, b, c = ran(product, kind)
    factors = scales.astype(np.float64) / float(scales.max())
    assert np.array_equal(c, np.rint((a.astype(np.int64) @ b.astype(np.int64)) * factors).astype(np.int32))
    raw = products.codec.encode("rknn_quant_params", {"name": "B"})
    reply = product.ask(Operation.MATMUL_GET_QUANT_PARAMS, a=N, b=2, c=1, payload=raw)
    assert (reply.a, reply.b) == (N, 2)
    values = np.frombuffer(reply.payload[len(raw) :], np.uint8)
    assert np.array_equal(values[: 4 * N].view(np.float32), scales)
    assert values[-4:].view(np.float32)[0] == scales.max()


def test_a_scale_of_a_matrix_that_is_an_integer_changes_no_sum(products: Products) -> None:
    kind = MatmulType.INT8_MM_INT8_TO_INT32
    product = products.create(M, K, N, kind)
    product.set_scales("A", 0.5)
    product.set_scales("B", 0.25)
    a, b, c = ran(product, kind)
    assert np.array_equal(c, a.astype(np.int32) @ b.astype(np.int32))


def test_scales_come_again(products: Products) -> None:
    kind = MatmulType.INT8_MM_INT8_TO_FLOAT32
    product = products.create(M, K, N, kind)
    a, b, c = ran(product, kind)
    assert np.array_equal(c, (a.astype(np.int32) @ b.astype(np.int32)).astype(np.float32))
    product.set_scales("A", 0.5)
    product.run()
    assert np.array_equal(product.get(), c / 2)


def test_refusals(products: Products) -> None:
    product = products.create(M, K, N, MatmulType.INT8_MM_INT8_TO_INT8, b_quantization=Q.PER_CHANNEL_SYM)
    floating = products.create(M, K, N, MatmulType.FLOAT16_MM_INT8_TO_FLOAT32, ac_quantization=Q.PER_LAYER_ASYM)
    for target, name, scales, zeros, text in (
        (product, "D", [1.0], [], "called A, B and C, not 'D'"),
        (product, "B", [1.0], [], r"B has 64 scales and zero points \(PER_CHANNEL_SYM\), not 1 and 0"),
        (product, "A", [1.0, 2.0], [], "A has 1 scales"),
        (product, "A", [0.0], [], "must be positive"),
        (product, "A", [np.nan], [], "must be positive"),
        (product, "A", [1.0], [3], "A is PER_LAYER_SYM, so its zero points are 0"),
        (product, "A", [], [], "0 scales"),
        (floating, "A", [1.0], [3], "floating point and has no zero point"),
        (floating, "C", [1.0], [3], "floating point and has no zero point"),
    ):
        with pytest.raises(CallError, match=text):
            target.set_scales(name, scales, zeros)
    raw = products.codec.encode("rknn_quant_params", {"name": "X"})
    with pytest.raises(CallError, match="called A, B and C"):
        product.ask(Operation.MATMUL_GET_QUANT_PARAMS, payload=raw)
