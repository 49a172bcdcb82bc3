"""Matrix multiplication in the vendor's own library: shapes, layouts, jobs, refusals."""

from __future__ import annotations

import numpy as np

from openrknn.errors import UnsupportedError
from openrknn.vendor import CallError, ClosedError, CoreMask, Matmul, MatmulLayout, MatmulType
from tests.vendor.inside.board_tools import events, forget, raises

FP16, INT8 = MatmulType.FLOAT16_MM_FLOAT16_TO_FLOAT32, MatmulType.INT8_MM_INT8_TO_INT32
NORM, NATIVE = MatmulLayout.NORM, MatmulLayout.NATIVE


def check_layouts() -> None:
    shapes = {
        (FP16, NORM, NORM): ((4, 64), (64, 32), (4, 32)),
        (FP16, NATIVE, NATIVE): ((8, 4, 8), (2, 2, 16, 32), (8, 4, 4)),
        (INT8, NORM, NATIVE): ((4, 4, 16), (64, 32), (8, 4, 4)),
        (INT8, NATIVE, NORM): ((4, 64), (1, 2, 32, 32), (4, 32)),
    }
    for (kind, b_layout, ac_layout), expected in shapes.items():
        with Matmul(4, 64, 32, kind, b_layout=b_layout, ac_layout=ac_layout) as matmul:
            assert (matmul.a.shape, matmul.b.shape, matmul.c.shape) == expected
            assert (matmul.a.type, matmul.b.type, matmul.c.type) == kind.types
            assert matmul.c.size_bytes == 4 * 4 * 32


def check_matrices_reach_the_memory_that_the_npu_sees() -> None:
    random = np.random.default_rng(1)
    a, b = random.integers(-9, 9, (4, 64), dtype=np.int8), random.integers(-9, 9, (64, 32), dtype=np.int8)
    with Matmul(4, 64, 32, INT8, b_layout=NATIVE, ac_layout=NATIVE) as matmul:
        matmul.set_a(a)
        matmul.set_b(b)
        stored = matmul._bound["A"].array.view(np.int8).reshape(4, 4, 16)
        assert all(stored[k // 16, m, k % 16] == a[m, k] for m in range(4) for k in range(64))
        forget()
        assert matmul(a).shape == (4, 32)
        assert len(events("submit")) == 1
        matmul.set_core_mask(CoreMask.CORE_0)
        matmul.run()
        with raises(CallError, "rknn_matmul_set_core_mask returned -1"):
            matmul.set_core_mask(CoreMask.CORE_0_1)


def check_refusals() -> None:
    for arguments, message in (
        ((4, 33, 32), "RKNN_ERR_PARAM_INVALID"), ((4, 64, 33), "RKNN_ERR_PARAM_INVALID"),
        ((4, 8192, 32), "RKNN_ERR_PARAM_INVALID"),
    ):  # fmt: skip
        with raises(CallError, message):
            Matmul(*arguments, INT8)
    for wrong in ((0, 64, 32), (4, 0, 32), (4, 64, 0), (-4, 64, 32)):
        with raises(ValueError, "positive"):
            Matmul(*wrong, INT8)
    with raises(ValueError, "K must be a multiple of 32"):
        Matmul(4, 33, 32, INT8, chip="rk3588")
    with raises(UnsupportedError, "RKNN_INT8_MM_INT8_TO_INT8 needs librknnrt 2.0.0-beta0"):
        Matmul(4, 64, 32, MatmulType.INT8_MM_INT8_TO_INT8)
    with raises(UnsupportedError, "rknn_matmul_create_dynamic_shape needs"):
        Matmul(type=INT8, shapes=[(4, 64, 32)])
    with Matmul(4, 64, 32, INT8) as matmul:
        with raises(UnsupportedError, "rknn_matmul_set_quant_params needs"):
            matmul.set_quantization("A", 1.0)
        with raises(ValueError, "matrix A has no memory"):
            matmul.run()
        with raises(ValueError, "A needs 256 bytes"):
            matmul.bind("A", matmul.create_memory(16))
    with raises(ClosedError, "closed"):
        matmul.run()
    matmul.close()


def check_many_multiplications_leave_nothing_behind() -> None:
    forget()
    for _ in range(10):
        with Matmul(4, 64, 32, INT8) as matmul:
            matmul(np.ones((4, 64), np.int8), np.ones((64, 32), np.int8))
    made, gone = len(events("create")), len(events("destroy"))
    assert made == gone
