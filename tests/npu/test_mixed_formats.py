"""Tasks that read one number format and write another: found by comparing whole networks with their sources."""

from __future__ import annotations

import numpy as np

from openrknn import numerics
from openrknn.isa import Precision
from openrknn.npu.blocks.dpu import out_cvt
from openrknn.runtime.session import Session
from openrknn.task import out_cvt as task_out_cvt
from tests.runtime.cases import GOLDENS, answers


def test_integers_become_floats() -> None:
    """int8 in, fp16 out: 31323 / 2^7 / 2^14 is 0.0149360, the scale of the tensor. 160 * 244.711 = 39153.75, by hand.

    Numbers of an orientation classifier in front of its softmax; the offset of 1 does not count.
    """
    config = task_out_cvt.Config(Precision.FP16, 31323, 7, 1, False, numerics.Rounding.EVEN, minus_exponent=14)
    result = out_cvt.apply(np.array([160, -78, 0], np.int64), config)
    np.testing.assert_array_equal(result, np.array([39154, -19087, 0], np.float32) / 2**14)
    assert abs(result[0] - 160 * 0.014936189) < 1e-4


def test_the_operand_of_layer_norm_is_bf16_although_its_reader_says_fp16() -> None:
    path = GOLDENS / "layer_norm_rk3588_fp.rknn"
    inputs, outputs = answers(path)
    with Session(path) as session:
        (result,) = session.run(inputs).values()
    assert np.abs(result - outputs[0]).max() < 0.01 * np.abs(outputs[0]).max()
