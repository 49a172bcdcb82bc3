"""Matrix products as a C program asks for them, answered by the engine's handlers in this process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from openrknn.capi.call import CallError, Code
from openrknn.vendor.tables.enums import MatmulLayout, MatmulQuantization, MatmulType, TensorType
from tests.capi.products import Products, exact, numbers

NORM, NATIVE, TP_NORM = MatmulLayout.NORM, MatmulLayout.NATIVE, MatmulLayout.TP_NORM
INT8, FP16 = MatmulType.INT8_MM_INT8_TO_INT32, MatmulType.FLOAT16_MM_FLOAT16_TO_FLOAT32


@pytest.mark.parametrize("ac_layout", [NORM, NATIVE])
@pytest.mark.parametrize("b_layout", list(MatmulLayout))
@pytest.mark.parametrize("kind", list(MatmulType))
@pytest.mark.parametrize("m", [1, 5])
def test_every_type_in_every_layout(
    products: Products, kind: MatmulType, b_layout: MatmulLayout, ac_layout: MatmulLayout, m: int
) -> None:
    """Exact sums of integers; sums of float16 as the software NPU makes them."""
    product = products.create(m, 64, 128, kind, b_layout=b_layout, ac_layout=ac_layout)
    a, b = numbers(kind.types[0], (m, 64)), numbers(kind.types[1], (64, 128))
    product.set("A", a)
    product.set("B", b)
    product.run()
    assert np.array_equal(product.get(), exact(a, b, kind))
    product.write("A", a[::-1])
    product.run()
    assert np.array_equal(product.get(), exact(a[::-1], b, kind))


def test_refusals(products: Products) -> None:
    for given, text in (
        ({"k": 33}, "K must be a multiple of 32 and N of 32, not 33 and 32; pad with zeros"),
        ({"n": 33}, "not 64 and 33"),
        ({"m": 0}, "M is 0, not a number from 1"),
        ({"k": -32}, "K is -32"),
        ({"k": 1 << 17}, "takes at most 131071"),
        ({"kind": 13}, "type is 13; there are 1 RKNN_FLOAT16_MM_FLOAT16_TO_FLOAT32"),
        ({"b_layout": 3}, "B_layout is 3; there are 0 RKNN_MM_LAYOUT_NORM"),
        ({"ac_layout": TP_NORM}, "only B can be RKNN_MM_LAYOUT_TP_NORM"),
        ({"b_quantization": 9}, "B_quant_type is 9"),
        ({"ac_quantization": MatmulQuantization.PER_CHANNEL_SYM}, "A and C have one scale each"),
        ({"b_quantization": MatmulQuantization.PER_GROUP_SYM}, "group_size is 0"),
        ({"b_quantization": MatmulQuantization.PER_GROUP_SYM, "group_size": 48}, "group_size is 48"),
        ({"m": 1 << 19, "k": 8192}, "4 GB is what the NPU can address"),
    ):
        arguments: dict[str, Any] = {"m": 4, "k": 64, "n": 32, "kind": INT8, **given}
        with pytest.raises(CallError, match=text) as refused:
            products.create(**arguments)
        assert refused.value.code is Code.PARAM_INVALID
    assert not products.program.contexts


def test_memory_that_is_missing_wrong_or_gone(products: Products) -> None:
    product = products.create(4, 64, 32, INT8)
    with pytest.raises(CallError, match="memory of A is missing") as refused:
        product.run(bind=False)
    assert refused.value.code is Code.INPUT_INVALID
    product.set("A", np.ones((4, 64), np.int8))
    product.set("B", np.ones((64, 32), np.int8))
    with pytest.raises(CallError, match="memory of C is missing") as refused:
        product.run(bind=False)
    assert refused.value.code is Code.OUTPUT_INVALID
    small = products.memory(16)
    for attributes, memory, offset, text in (
        ({**product.attributes["A"], "name": "D"}, None, 0, "A, B and C, not 'D'"),
        ({**product.attributes["A"], "size": 7}, None, 0, "256 bytes in the current shape, and the attribute says 7"),
        (product.attributes["A"], small, 0, "A needs 256 bytes, and the memory has 16 at 0"),
        (product.attributes["A"], None, 1 << 20, "A needs 256 bytes"),
        (product.attributes["A"], None, -1, "A needs 256 bytes"),
    ):
        with pytest.raises(CallError, match=text):
            product.bind(attributes, memory or product.memories["A"], offset)
    product.run()
    assert product.get().tolist() == [[64] * 32] * 4
    products.destroy_memory(product.memories["B"])
    with pytest.raises(CallError, match="memory of B was destroyed"):
        product.run()


def test_contexts_end(products: Products) -> None:
    product = products.create(4, 64, 32, INT8)
    product.destroy()
    for attempt in (product.run, product.destroy, lambda: product.set_core_mask(1)):
        with pytest.raises(CallError, match="there is no context") as refused:
            attempt()
        assert refused.value.code is Code.CTX_INVALID


def test_core_masks(products: Products, monkeypatch: pytest.MonkeyPatch) -> None:
    product = products.create(4, 64, 32, INT8)
    for mask in (0, 1, 2, 4, 3, 7, 0xFFFF):
        product.set_core_mask(mask)
    for mask in (5, 6, 0x10000, -1):
        with pytest.raises(CallError, match=r"core_mask|does not work on RK3588"):
            product.set_core_mask(mask)
    monkeypatch.setenv("OPENRKNN_DEVICE", "software:rk3576")
    other = products.create(4, 64, 32, INT8)
    other.set_core_mask(3)
    with pytest.raises(CallError, match="RKNN_NPU_CORE_0_1_2 does not work on RK3576"):
        other.set_core_mask(7)


def test_a_part_of_a_memory(products: Products) -> None:
    product = products.create(2, 64, 32, INT8, b_layout=NATIVE)
    a, b = numbers(TensorType.INT8, (2, 64)), numbers(TensorType.INT8, (64, 32))
    big = products.memory(1 << 16)
    products.program.memories[big].array[4096 : 4096 + a.nbytes] = a.view(np.uint8).reshape(-1)
    product.bind(product.attributes["A"], big, 4096)
    product.set("B", b)
    product.run()
    assert np.array_equal(product.get(), exact(a, b, INT8))


def test_b_in_its_plain_layout_is_read_when_it_is_bound(products: Products) -> None:
    """As runtime 1.5.2 does; in the NPU's own layout it is read by each run."""
    a, b = numbers(TensorType.INT8, (4, 64)), numbers(TensorType.INT8, (64, 32))
    for layout in MatmulLayout:
        product = products.create(4, 64, 32, INT8, b_layout=layout)
        product.set("A", a)
        product.set("B", b)
        product.run()
        product.write("B", -(b // 2))
        product.run()
        assert np.array_equal(product.get(), exact(a, b if layout is NORM else -(b // 2), INT8)), layout
        product.set("B", -(b // 2))
        product.run()
        assert np.array_equal(product.get(), exact(a, -(b // 2), INT8))


def test_several_shapes(products: Products) -> None:
    shapes = [(1, 64, 32), (6, 64, 32), (3, 128, 64)]
    product = products.create_dynamic(shapes, INT8, b_layout=NATIVE)
    with pytest.raises(CallError, match="choose a shape first"):
        product.run(bind=False)
    with pytest.raises(CallError, match="2x64x32 is none of its shapes, 1x64x32, 6x64x32"):
        product.set_shape((2, 64, 32))
    for shape in (*shapes, shapes[0]):
        product.set_shape(shape)
        a, b = numbers(TensorType.INT8, shape[:2]), numbers(TensorType.INT8, shape[1:])
        product.set("A", a)
        product.set("B", b)
        product.run()
        assert np.array_equal(product.get(), exact(a, b, INT8))
    with pytest.raises(CallError, match="this product has one shape"):
        products.create(4, 64, 32, INT8).set_shape((4, 64, 32))
    with pytest.raises(CallError, match="shape_num is 0"):
        products.create_dynamic([], INT8)


@pytest.mark.parametrize("layout", [NORM, NATIVE])
def test_b_is_bound_once_for_several_rows_of_a(layout: MatmulLayout, products: Products) -> None:
    """As the vendor's own demo does it: B cannot be dynamic, and stays when only M changes."""
    product = products.create_dynamic([(1, 64, 32), (6, 64, 32), (6, 64, 64)], INT8, b_layout=layout)
    product.set_shape((1, 64, 32))
    b = numbers(TensorType.INT8, (64, 32))
    product.set("B", b)
    for rows in (6, 1, 6):
        product.set_shape((rows, 64, 32))
        a = numbers(TensorType.INT8, (rows, 64))
        product.set("A", a)
        product.run()
        assert np.array_equal(product.get(), exact(a, b, INT8))
    product.set_shape((6, 64, 64))
    product.set("A", a)
    with pytest.raises(CallError, match="the memory of B is missing"):
        product.run()


@pytest.mark.parametrize(("chip", "tiles"), [
    ("rk3566", {TensorType.INT8: ((8, 4, 8), (2, 2, 16, 32), (8, 4, 4)),
                TensorType.FLOAT16: ((16, 4, 4), (4, 4, 8, 16), (8, 4, 4))}),
    ("rk3562", {TensorType.INT8: ((4, 4, 16), (2, 2, 16, 32), (8, 4, 4)),
                TensorType.FLOAT16: ((8, 4, 8), (4, 2, 8, 32), (8, 4, 4))}),
    ("rk3576", {TensorType.INT8: ((4, 4, 16), (1, 2, 32, 32), (8, 4, 4)),
                TensorType.FLOAT16: ((8, 4, 8), (2, 2, 16, 32), (8, 4, 4))}),
])  # fmt: skip
def test_native_layouts_of_other_chips(
    products: Products, monkeypatch: pytest.MonkeyPatch, chip: str, tiles: dict[TensorType, Any]
) -> None:
    """The vendor's user guide, table of high-performance shapes."""
    monkeypatch.setenv("OPENRKNN_DEVICE", f"software:{chip}")
    for kind in (INT8, FP16):
        product = products.create(4, 64, 32, kind, b_layout=NATIVE, ac_layout=NATIVE)
        assert product.shapes() == tiles[kind.types[0]]
        a, b = numbers(kind.types[0], (4, 64)), numbers(kind.types[1], (64, 32))
        product.set("A", a)
        product.set("B", b)
        product.run()
        assert np.array_equal(product.get(), exact(a, b, kind))


def test_chips_and_types_without_a_product(products: Products, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENRKNN_DEVICE", "software:rk3566")
    with pytest.raises(
        CallError, match="INT4_MM_INT4_TO_INT16 does not work on RK3566, which multiplies int8, float16"
    ):
        products.create(4, 64, 64, MatmulType.INT4_MM_INT4_TO_INT16)
    with pytest.raises(CallError, match="K is 10272, and RK3566 takes at most 10240"):
        products.create(4, 10272, 64, INT8)
    monkeypatch.setenv("OPENRKNN_DEVICE", "software:rv1106")
    with pytest.raises(CallError, match="rknn_matmul_create does not work on RV1106"):
        products.create(4, 64, 64, INT8)
