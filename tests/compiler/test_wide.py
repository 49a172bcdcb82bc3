"""Maps that are wider or higher than registers count or the buffer holds: cut by column, or folded into rows.

Right means: as ONNX in float says, on the strict software NPU, with one core and with three. The forms of the tasks are
those of the vendor's converter (a row of 3000 pixels in two stripes, read line by line, written with a notch).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

from openrknn.compiler import compile_model
from openrknn.compiler.tile import fold
from openrknn.compiler.verify import verify
from openrknn.task.kinds import Convolution
from tests.compiler.nets import Net, feeds

Case = tuple[onnx.ModelProto, tuple[int, ...]]
WANTED = {"fp16": 55.0, "int8": 24.0}


def conv(
    shape: tuple[int, ...], weight: tuple[int, ...], *, kind: str = "Conv", residual: bool = False, **attributes: Any
) -> Callable[[], Case]:
    def make() -> Case:
        net = Net()
        before = net.add("Conv", "x", net.weights(shape[1], shape[1], 1, 1))
        bias = net.constant(net.random.normal(0, 0.1, weight[0 if kind == "Conv" else 1]))
        out = net.add(kind, before, net.weights(*weight), bias, kernel_shape=list(weight[2:]), **attributes)
        if residual:
            out = net.add("Add", net.add("Relu", out), before)
        return net.model({"x": shape}, [out]), shape

    return make


def audio() -> Case:
    """A second of sound: strided convolutions, a pooling, a projection for each frame."""
    net = Net()
    weight = net.constant(net.random.normal(0, 0.2, (16, 1, 25)))
    x = net.add("Relu", net.add("Conv", "x", weight, kernel_shape=[25], strides=[4], pads=[12, 12]))
    x = net.add("MaxPool", x, kernel_shape=[2], strides=[2])
    x = net.add("Sigmoid", net.add("Conv", x, net.weights(32, 16, 3), kernel_shape=[3], pads=[1, 1]))
    x = net.add("Mul", x, net.add("Conv", x, net.weights(32, 32, 1), kernel_shape=[1]))
    return net.model({"x": (1, 1, 16000)}, [x]), (1, 1, 16000)


def elements(pixels: int) -> Callable[[], Case]:
    def make() -> Case:
        net = Net()
        x = net.add("Conv", "x", net.weights(16, 16, 1), kernel_shape=[1])
        x = net.add("Add", net.add("Sigmoid", x), net.add("Tanh", x))
        shape = (1, 16, pixels)
        return net.model({"x": shape}, [x]), shape

    return make


CASES: dict[str, Callable[[], Case]] = {
    "3x3, wider than the register": conv((1, 16, 4, 3000), (16, 16, 3, 3), pads=[1, 1, 1, 1]),
    "3x3, with a residual": conv((1, 16, 3, 2500), (16, 16, 3, 3), pads=[1, 1, 1, 1], residual=True),
    "3x3, wider than the buffer": conv((1, 128, 5, 800), (32, 128, 3, 3), pads=[1, 1, 1, 1]),
    "stride and dilation": conv((1, 16, 5, 4101), (16, 16, 3, 5), strides=[2, 3], dilations=[1, 2], pads=[1, 3, 1, 4]),
    "depthwise": conv((1, 64, 3, 2300), (64, 1, 3, 3), pads=[1, 1, 1, 1], group=64),
    "a row beyond 8191": conv((1, 8, 2, 9000), (8, 8, 1, 3), pads=[0, 1, 0, 1]),
    "transposed": conv((1, 16, 1, 1500), (16, 16, 1, 4), kind="ConvTranspose", strides=[1, 2], pads=[0, 1, 0, 1]),
    "transposed, rows": conv((1, 16, 3, 1100), (16, 16, 4, 4), kind="ConvTranspose", strides=[2, 2], pads=[1, 1, 1, 1]),
    "higher than the register": conv((1, 16, 2500, 2), (16, 16, 3, 1), pads=[1, 0, 1, 0]),
    "tokens": conv((1, 768, 1, 197), (32, 768, 1, 1)),
    "8400 anchors": conv((1, 64, 1, 8400), (64, 64, 1, 1)),
    "a prime number of pixels": conv((1, 16, 1, 8419), (16, 16, 1, 1)),
    "audio": audio,
    "element by element": elements(16800),
    "element by element, prime": elements(8419),
}  # fmt: skip


@pytest.mark.sample(3)
@pytest.mark.parametrize("form", ["fp16", "int8"])
@pytest.mark.parametrize("name", CASES)
def test_right(name: str, form: str) -> None:
    model, shape = CASES[name]()
    for cores in (1, 3):
        made = compile_model(model, calibration=feeds(shape, 2) if form == "int8" else None, cores=cores)
        assert not [step.type for step in made.lowering.program.steps if step.is_cpu and step.type != "Reshape"]
        verdicts = verify(made, [{"x": value} for value in feeds(shape, 1)])
        assert min(verdict.decibels for verdict in verdicts) > WANTED[form]


def test_stripes_as_the_vendor() -> None:
    """Rows of 3000 pixels: lines are read with a pitch of their own, and written with a notch."""
    model, _ = CASES["3x3, wider than the register"]()
    tasks = compile_model(model, cores=1).lowering.program.steps[-1].tasks
    works = [task.work for task in tasks if isinstance(task.work, Convolution)]
    source, write = works[0].source, works[0].dpu.write
    assert len(works) == len(tasks) > 1
    # a column of padding on one side, one of the neighbour on the other
    assert source.width == source.out_width + 1 <= 2047
    assert source.line_bytes == write.line_bytes == 3000 * 16
    assert write.width == source.out_width
    assert sum(not work.source.reuses_weights for work in works) == 1  # weights are read once


@pytest.mark.parametrize(("pixels", "wanted"), [(8400, (525, 16)), (196, (7, 28)), (2053, None), (2 * 2039, (2, 2039))])
def test_fold(pixels: int, wanted: tuple[int, int] | None) -> None:
    found = fold(pixels)
    assert found == wanted
    assert found is None or np.prod(found) == pixels


@pytest.mark.parametrize("name", ["3x3, wider than the register", "transposed, rows", "8400 anchors", "audio"])
def test_without_a_notch(name: str) -> None:
    """RK3566's DPU writes whole rows: a stripe of columns is written row by row."""
    model, shape = CASES[name]()
    made = compile_model(model, calibration=feeds(shape, 2), target="rk3566")
    verdicts = verify(made, [{"x": value} for value in feeds(shape, 1)])
    assert min(verdict.decibels for verdict in verdicts) > WANTED["int8"]
