"""Mini files of our own compiler through the library's engine: what it answers is what `Session` computes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import openrknn
from openrknn.runtime.session import Session
from tests.capi.client import Client

onnx = pytest.importorskip("onnx")


def test_a_model_of_ours_for_rv1106(client: Client, tmp_path: Path) -> None:
    from openrknn.compiler import compile_model
    from tests.compiler.nets import Net

    net = Net()
    first = net.add("Relu", net.conv("x", 3, 16, 3, pads=[1] * 4, strides=[2, 2]))
    net_ = net.model({"x": (1, 3, 20, 30)}, [net.conv(first, 16, 10)])
    pixels = np.random.default_rng(5).integers(0, 256, (2, 1, 20, 30, 3)).astype(np.uint8)
    path = tmp_path / "model.rknn"
    openrknn.save(compile_model(net_, "rv1106", calibration=[pixels[0]], std=255.0).model, path)
    context = client.init(path)
    client.inputs_set(context, {0: pixels[1]})
    client.run(context)
    found = client.outputs_get(context, 1)
    with Session(str(path), "software") as session:
        wanted = [np.ascontiguousarray(one).tobytes() for one in session.run([pixels[1]], outputs="raw").values()]
    assert found == wanted
