"""An int8 output that joins boxes and scores under one scale has no scores: such an output is fp16, or refused.

Evidence: ONNX in float on the calibration data.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from openrknn.compiler import compile_model
from openrknn.compiler.advice import advice
from openrknn.compiler.errors import CalibrationError
from openrknn.compiler.float_model import FloatModel
from openrknn.compiler.ir import Array
from openrknn.runtime.session import Session
from tests.compiler.nets import Net, feeds

SHAPE = (1, 16, 8, 8)


def detector(kind: str, large: float = 640.0) -> onnx.ModelProto:
    """A backbone and a head that joins boxes (in pixels) and scores, in the forms that exporters write."""
    net = Net()
    body = net.add("Relu", net.conv("x", 16, 16, 3, pads=[1, 1, 1, 1]))
    scores = net.add("Sigmoid", net.conv(body, 16, 20))
    boxes = net.add("Mul", net.add("Sigmoid", net.conv(body, 16, 4)), net.constant(large))
    parts = [boxes, scores]
    if kind == "pose":  # key points behind the scores
        parts.append(net.add("Mul", net.conv(body, 16, 6), net.constant(large / 4)))
    if kind == "objectness":  # x y w h, one score for the object, scores of the classes
        parts = [boxes, net.add("Sigmoid", net.conv(body, 16, 1)), scores]
    whole = net.add("Concat", *parts, axis=1)
    channels = {"plain": 24, "pose": 30, "objectness": 25, "turned": 24}[kind]
    flat = net.add("Reshape", whole, net.constant([1, channels, 64], np.int64))
    return net.model({"x": SHAPE}, [net.add("Transpose", flat, perm=[0, 2, 1]) if kind == "turned" else flat])


def results(model: onnx.ModelProto, data: list[Array], target: str = "rk3588") -> tuple[Array, Array]:
    compiled = compile_model(model, target, calibration=data)
    (name,) = compiled.graph.outputs
    wanted = dict(FloatModel(compiled.source, [name]).run({"x": data[0]}))[name]
    with Session(compiled.model, "software") as session:
        found = session.run({"x": data[0]}, layout="nchw", outputs="float")[name]
    assert found.shape == wanted.shape
    return found, wanted


@pytest.mark.parametrize("kind", ["plain", "pose", "objectness", "turned"])
def test_scores_beside_boxes_stay(kind: str) -> None:
    found, wanted = results(detector(kind), feeds(SHAPE))
    if kind == "turned":
        found, wanted = found.transpose(0, 2, 1), wanted.transpose(0, 2, 1)
    first = 5 if kind == "objectness" else 4
    scores, real = found[:, first : first + 20], wanted[:, first : first + 20]
    assert np.abs(scores - real).max() < 0.1
    assert np.corrcoef(scores.reshape(-1), real.reshape(-1))[0, 1] > 0.99


def test_it_is_said() -> None:
    compiled = compile_model(detector("plain"), calibration=feeds(SHAPE))
    assert any("too different for one int8 scale: it is fp16" in text for text in advice(compiled))
    assert compiled.format_name == "int8"


def test_parts_of_one_size_stay_int8() -> None:
    compiled = compile_model(detector("plain", 2.0), calibration=feeds(SHAPE))
    assert not compiled.graph.mixed
    assert compiled.graph.values[compiled.graph.outputs[0]].quantization is not None


def test_a_chip_without_fp16_refuses_it() -> None:
    with pytest.raises(CalibrationError, match=r"one int8 scale for all of it.*--outputs t7,t4 ") as refusal:
        compile_model(detector("plain"), "rv1106", calibration=feeds(SHAPE))
    names = str(refusal.value).split("--outputs ")[1].split(" ")[0].split(",")
    split = compile_model(detector("plain"), "rv1106", calibration=feeds(SHAPE), outputs=names)
    assert not split.check.warnings
