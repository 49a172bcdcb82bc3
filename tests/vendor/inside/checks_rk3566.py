"""The same library on a chip with one core."""

from __future__ import annotations

import numpy as np

from openrknn.errors import UnsupportedError
from openrknn.vendor import Context, CoreMask, Matmul, MatmulLayout, MatmulType
from tests.vendor.inside.board_tools import events, forget, golden, raises


def check_a_model_runs() -> None:
    with Context(golden("residual_rk3566_i8")) as context:
        assert context.chip is not None
        assert context.chip.name == "rk3566"
        context.set_inputs([np.zeros((1, 16, 16, 3), np.uint8)])
        forget()
        context.run()
        (submit,) = events("submit")
        assert (submit["task_start"], submit["task_count"]) == (0, 8)
        assert context.native_outputs[0].shape[-1] == 8


def check_calls_outside_the_table_are_refused() -> None:
    with Context(golden("residual_rk3566_i8")) as context:
        with raises(UnsupportedError, "rknn_set_core_mask does not work on RK3566: its NPU has one core"):
            context.set_core_mask(CoreMask.CORE_0)
        with raises(UnsupportedError, "rknn_set_batch_core_num does not work on RK3566: its NPU has one core"):
            context.set_batch_core_num(1)


def check_matrices() -> None:
    with Matmul(
        4, 64, 16, MatmulType.INT8_MM_INT8_TO_INT32, b_layout=MatmulLayout.NATIVE, ac_layout=MatmulLayout.NATIVE
    ) as matmul:
        assert (matmul.a.shape, matmul.b.shape, matmul.c.shape) == ((8, 4, 8), (1, 2, 16, 32), (4, 4, 4))
        assert matmul(np.ones((4, 64), np.int8), np.ones((64, 16), np.int8)).shape == (4, 16)
