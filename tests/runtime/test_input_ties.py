"""Numbers near a tie of an int8 input. Evidence: the bytes that the vendor's runtime 1.5.2 stored for them.

Adding the zero point after the division, as before, gave another step for each of them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import openrknn
from openrknn.container.parts import Layout, Quantization
from openrknn.runtime.io.inputs import InputPort
from openrknn.runtime.io.tensors import StoredTensor, stored_bytes
from tests.runtime.cases import GOLDENS

MAP = (0.02497248537838459, 3, {
    "-0x1.8ac3dcp+1": -121, "-0x1.a2bd18p+0": -63, "-0x1.4fa154p+0": -50, "-0x1.37a81ap+1": -95,
    "-0x1.87918ep+1": -120, "-0x1.4ad5e4p+1": -100, "-0x1.9abf58p+1": -125, "-0x1.5e03aep+1": -106,
})  # fmt: skip
FLAT = (0.022423680871725082, 18, {
    "-0x1.9ebf98p+1": -127, "-0x1.93447ap+1": -123, "-0x1.8aa822p+1": -119, "-0x1.87c95cp+1": -118,
    "-0x1.7f2d04p+1": -115, "-0x1.7c4e3ep+1": -114, "-0x1.7690b0p+1": -113, "-0x1.73b1e6p+1": -111,
})  # fmt: skip


@pytest.mark.parametrize(("case", "is_map"), [(MAP, True), (FLAT, False)])
def test_ties_go_where_the_vendor_puts_them(case: tuple[float, int, dict[str, int]], is_map: bool) -> None:
    shape, native = ((1, 8, 1, 1), (1, 1, 1, 1, 16)) if is_map else ((1, 8), ())
    layout = Layout.NC1HWC2 if is_map else Layout.UNDEFINED
    scale, zero, expected = case
    graph = openrknn.load(GOLDENS / "gemm_rk3588_i8.rknn").graphs[0]
    known = graph.tensors[graph.inputs[0]]
    tensor = replace(
        known, shape=shape, native_shape=native, layout=layout, size_bytes=16,
        quantization=Quantization((scale,), (zero,)),
    )  # fmt: skip
    port = InputPort(StoredTensor(tensor, np.zeros(stored_bytes(tensor), np.uint8)), None, takes_pixels=False)
    values = np.array([float.fromhex(text) for text in expected], np.float32).reshape(shape)
    port.feed(values, "nchw" if is_map else None)
    assert port.stored.read().ravel().tolist() == list(expected.values())
