"""Numbers that fp16 does not have, where something depends on them. Stands on ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

from openrknn.compiler import compile_model
from openrknn.compiler.float_model import FloatModel
from openrknn.runtime.session import Session
from tests.compiler.nets import Net

_SMALLEST = 2.0**-24


@pytest.mark.parametrize("kind", ["Max", "Add", "Clip"])
def test_a_logarithm_of_silence_is_finite(kind: str) -> None:
    """Exact where fp16 has the numbers, and log(2^-24) where the floor of the model is lower."""
    net = Net()
    more = [net.constant(9.0)] if kind == "Clip" else []
    out = net.add("Log", net.add(kind, "x", net.constant(1e-12), *more))
    model = net.model({"x": (1, 8, 4, 4)}, [out])
    x = np.random.default_rng(0).uniform(0.1, 4, (1, 8, 4, 4)).astype(np.float32)
    x[:, ::2] = 0
    with Session(compile_model(model, check=False).model, "software") as session:
        (found,) = session.run(x, layout="nchw", outputs="float").values()
    wanted = np.maximum(dict(FloatModel(model, [out]).run({"x": x}))[out], np.log(_SMALLEST))
    assert np.abs(np.asarray(found) - wanted).max() < 0.02


def test_a_slice_of_a_long_signal() -> None:
    """Longer than the channels of a surface: the CPU cuts it."""
    net = Net()
    bounds = [net.constant([value], np.int64) for value in (160, 20000, 1)]
    rows = net.add("Reshape", net.add("Slice", "x", *bounds), net.constant([1, 124, 160], np.int64))
    model = net.model({"x": (1, 20160)}, [net.add("MatMul", rows, net.weights(160, 16))])
    (out,) = (entry.name for entry in model.graph.output)
    x = np.random.default_rng(0).normal(0, 1, (1, 20160)).astype(np.float32)
    with Session(compile_model(model).model, "software") as session:
        (found,) = session.run({"x": x}, outputs="float").values()
    wanted = dict(FloatModel(model, [out]).run({"x": x}))[out]
    assert np.abs(np.asarray(found).reshape(-1) - wanted.reshape(-1)).max() < 0.02


def test_mirrored_rows_that_are_no_batch() -> None:
    """[4, 16] beside another input: four rows of one item."""
    net = Net()
    padded = net.add("Pad", "x", net.constant([0, 0, 0, 3], np.int64), mode="reflect")
    model = net.model({"x": (4, 16), "h": (1, 8)}, [net.add("Add", net.add("MatMul", padded, net.weights(19, 8)), "h")])
    assert compile_model(model).checked.startswith("matches ONNX")
