"""Resize in all modes, on the NPU. Stands on ONNX Runtime and onnx's reference evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.reference
import pytest

from openrknn.compiler import compile_model
from openrknn.runtime.session import Session
from tests.compiler.nets import Net

pytestmark = pytest.mark.unchecked


def ran(model: Any, shape: tuple[int, ...], **options: Any) -> tuple[Any, float]:
    """(what was compiled, the largest difference as a part of the largest number)."""
    x = np.random.default_rng(5).uniform(-1, 1, shape).astype(np.float16).astype(np.float32)
    made = compile_model(model, "rk3588", **options)
    wanted: Any
    (wanted,) = onnx.reference.ReferenceEvaluator(model).run(None, {"x": x})
    with Session(made.model, "software") as session:
        (found,) = session.run({"x": x}, layout={"x": "nchw"}, outputs="float").values()
    return made, float(np.abs(np.asarray(found).reshape(wanted.shape) - wanted).max() / np.abs(wanted).max())


def on_cpu(made: Any) -> list[str]:
    return [node.type for node in made.model.graphs[0].nodes if node.target == 0 and not node.type.endswith("Operator")]


def resized(channels: int, size: tuple[int, int], made: tuple[int, int], **how: Any) -> Any:
    """A resize between two convolutions."""
    net = Net()
    sizes = net.constant([1, channels, *made], np.int64)
    empty = net.constant(np.zeros(0))
    inner = net.add("Resize", net.conv("x", 3, channels), empty, empty, sizes, **how)
    return net.model({"x": (1, 3, *size)}, [net.conv(inner, channels, 8)], opset=13)


@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
@pytest.mark.parametrize("centres", ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"])
def test_fractions(mode: str, centres: str) -> None:
    how = {"mode": mode, "coordinate_transformation_mode": centres}
    _, difference = ran(resized(5, (9, 13), (14, 10), **how), (1, 3, 9, 13))
    assert difference < 0.01


@pytest.mark.parametrize(("channels", "size", "made"), [(21, (9, 12), (65, 96)), (1, (10, 10), (160, 160))])
def test_the_npu_turns_rows_and_columns_itself(channels: int, size: tuple[int, int], made: tuple[int, int]) -> None:
    """DeepLab's and U-2-Net's: no operator of the CPU between the convolutions."""
    compiled, difference = ran(resized(channels, size, made, mode="linear"), (1, 3, *size))
    assert difference < 0.01
    assert on_cpu(compiled) == []


def test_int8() -> None:
    x = np.random.default_rng(5).uniform(-1, 1, (1, 3, 9, 13)).astype(np.float32)
    _, difference = ran(resized(16, (9, 13), (20, 31), mode="linear"), (1, 3, 9, 13), calibration=[{"x": x}])
    assert difference < 0.06


@pytest.mark.parametrize("size", [(65, 65), (28, 28), (1, 11)])
def test_one_pixel(size: tuple[int, int]) -> None:
    """The mean of a map, spread over it again (LR-ASPP)."""
    net = Net()
    sizes, empty = net.constant([1, 16, *size], np.int64), net.constant(np.zeros(0))
    mean = net.add("GlobalAveragePool", net.conv("x", 3, 16))
    made = net.conv(net.add("Resize", mean, empty, empty, sizes, mode="linear"), 16, 8)
    compiled, difference = ran(net.model({"x": (1, 3, 16, 16)}, [made], opset=13), (1, 3, 16, 16))
    assert difference < 0.01
    assert on_cpu(compiled) == []


def test_signals_of_one_dimension() -> None:
    net = Net()
    empty, scales = net.constant(np.zeros(0)), net.constant([1.0, 1.0, 1.6])
    made = net.add("Resize", "x", empty, scales, mode="linear")
    model = net.model({"x": (1, 8, 50)}, [made], opset=13)
    x = np.random.default_rng(5).uniform(-1, 1, (1, 8, 50)).astype(np.float16).astype(np.float32)
    wanted: Any
    (wanted,) = onnx.reference.ReferenceEvaluator(model).run(None, {"x": x})
    with Session(compile_model(model).model, "software") as session:
        (found,) = session.run({"x": x}, outputs="float").values()
    assert np.abs(np.asarray(found).reshape(wanted.shape) - wanted).max() < 0.01
