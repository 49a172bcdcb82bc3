"""Kernels, padding and dilations beyond the NPU's registers: computed another way (the oracle is ONNX in float)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openrknn

onnx = pytest.importorskip("onnx", reason="the extra `compile` is not installed")

from openrknn.compiler import compile_model  # noqa: E402
from openrknn.compiler.float_model import FloatModel  # noqa: E402
from openrknn.distance import measure  # noqa: E402
from tests.compiler.nets import Net  # noqa: E402

CASES: list[tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ("crepe's first", (1, 1, 1024, 1), (24, 1, 512, 1), {"strides": [4, 1], "pads": [254, 0, 254, 0]}),
    ("64 taps", (1, 16, 40, 1), (16, 16, 64, 1), {"pads": [31, 0, 32, 0]}),
    ("along the row", (1, 16, 3, 60), (16, 16, 3, 35), {"pads": [1, 0, 1, 0]}),
    ("stride 3 along the row", (1, 3, 4, 100), (16, 3, 1, 40), {"strides": [1, 3]}),
    ("samples", (1, 8, 120), (16, 8, 41), {"pads": [20, 20], "strides": [2]}),
    ("padding 18", (1, 16, 20, 14), (16, 16, 3, 3), {"pads": [18, 18, 18, 18], "dilations": [18, 18]}),
    ("dilation 64", (1, 16, 200), (16, 16, 5), {"pads": [128, 128], "dilations": [64]}),
    ("dilation beyond the end", (1, 16, 50, 1), (16, 16, 5, 1), {"pads": [80, 0, 80, 0], "dilations": [40, 1]}),
    ("only the middle is left", (1, 16, 30), (16, 16, 3), {"pads": [64, 64], "dilations": [64]}),
]


@pytest.mark.parametrize(
    ("shape", "weights", "attributes"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_a_long_reach(shape: tuple[int, ...], weights: tuple[int, ...], attributes: dict[str, Any]) -> None:
    net = Net()
    taps = net.constant(net.random.normal(0, 1, weights) / np.sqrt(np.prod(weights[1:])))
    bias = net.constant(net.random.normal(0, 0.1, weights[0]))
    out = net.add("Relu", net.add("Conv", "x", taps, bias, kernel_shape=list(weights[2:]), **attributes))
    model = net.model({"x": shape}, [out])
    compiled = compile_model(model)
    feed = {"x": np.random.default_rng(1).normal(0, 1, shape).astype(np.float32)}
    wanted = dict(FloatModel(model, [out]).run(feed))[out]
    with openrknn.Session(compiled.model, "software") as session:
        (found,) = session.run(feed, layout="nchw" if len(shape) == 4 else None).values()
    assert measure(found.reshape(wanted.shape), wanted).snr_db > 50
    assert any(not step.is_cpu and step.macs for step in compiled.lowering.program.steps)
