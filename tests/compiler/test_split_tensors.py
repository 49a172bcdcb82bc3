"""Tensors so large that one task cannot cover them, on every family: atoms of 8 bytes (RK3566) and of 16 bytes.

Evidence: ONNX in float (fp16), and for int8 the integers of RK3588, which are the same on every chip.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openrknn import compiler, distance
from openrknn.compiler import compile_model
from openrknn.compiler.float_model import FloatModel
from openrknn.runtime.session import Session
from tests.compiler.nets import Array, Net, feeds

CHIPS = ("rk3588", "rk3566", "rk3562", "rk3576")
INT8_CHIPS = ("rk3588", "rk3566", "rk3562", "rk3576", "rv1106")
ASSUMED = {"CHIPS", "RK3588", "FP16", "INT8", "ATOM_BYTES"}
PRIME = 20011
"""Columns without factors: a row of so many is cut into parts of unequal length."""
Shape4 = tuple[int, int, int, int]


def _add(net: Net) -> str:
    return net.add("Add", "x", net.add("Relu", "x"))


def _constant(net: Net) -> str:
    """The second operand is a map in the file."""
    return net.add("Mul", "x", net.constant(np.random.default_rng(2).uniform(-1, 1, (1, 8, 1, 9001))))


def _per_channel(net: Net) -> str:
    return net.add("Mul", "x", net.constant(np.linspace(0.5, 2, 12).reshape(1, 12, 1, 1)))


def _table(net: Net) -> str:
    """RK3566 writes the results of tables as fp32 first: atoms of 16 bytes beside those of 8."""
    return net.add("Tanh", "x")


def _convolved_table(net: Net) -> str:
    return net.add("Sigmoid", net.conv("x", 12, 20))


def _leaky(net: Net) -> str:
    return net.add("LeakyRelu", net.add("Sub", "x", net.add("Relu", "x")), alpha=0.2)


def _joined(net: Net) -> str:
    """Copies, because a piece is read twice."""
    half = net.add("Relu", "x")
    return net.add("Concat", half, net.add("Abs", half), half, axis=1)


def _window(net: Net) -> str:
    start, end, axis = (net.constant([value], np.int64) for value in (3, PRIME - 2, 3))
    return net.add("Relu", net.add("Slice", net.add("Relu", "x"), start, end, axis))


def _pooled(kind: str) -> Callable[[Net], str]:
    return lambda net: net.add(kind, "x", kernel_shape=[1, 5], strides=[1, 2])


def _convolution(net: Net) -> str:
    weight = net.weights(20, 12, 1, 5)
    return net.add("Conv", "x", weight, kernel_shape=[1, 5], pads=[0, 2, 0, 2])


def _depthwise(net: Net) -> str:
    return net.add("Conv", "x", net.weights(12, 1, 1, 3), kernel_shape=[1, 3], pads=[0, 1, 0, 1], group=12)


def _tall(net: Net) -> str:
    return net.add("Add", "x", net.add("Transpose", net.add("Relu", "x"), perm=[0, 1, 2, 3]))


def _turned(net: Net) -> str:
    return net.add("Relu", net.add("Transpose", net.add("Relu", "x"), perm=[0, 1, 3, 2]))


def _repeated(net: Net) -> str:
    sizes = net.constant([1, 1, 1, 2])
    return net.add("Resize", "x", "", sizes, mode="nearest", nearest_mode="floor",
                   coordinate_transformation_mode="asymmetric")  # fmt: skip


NETS: dict[str, tuple[Callable[[Net], str], Shape4]] = {
    "add, one atom": (_add, (1, 4, 1, PRIME)),
    "add, several atoms": (_add, (1, 20, 1, PRIME)),
    "constant": (_constant, (1, 8, 1, 9001)),
    "per channel": (_per_channel, (1, 12, 1, 9001)),
    "table": (_table, (1, 12, 1, PRIME)),
    "table of a convolution": (_convolved_table, (1, 12, 1, 9001)),
    "leaky": (_leaky, (1, 12, 1, 9001)),
    "joined": (_joined, (1, 12, 1, 9001)),
    "window": (_window, (1, 12, 1, PRIME)),
    "largest": (_pooled("MaxPool"), (1, 12, 1, 9001)),
    "mean": (_pooled("AveragePool"), (1, 12, 1, 9001)),
    "convolution": (_convolution, (1, 12, 1, 9001)),
    "depthwise": (_depthwise, (1, 12, 1, 9001)),
    "tall": (_tall, (1, 12, 9001, 1)),
    "turned": (_turned, (1, 12, 9001, 2)),
    "repeated": (_repeated, (1, 12, 7, 4093)),
}


def model_of(name: str) -> tuple[Any, Shape4]:
    build, shape = NETS[name]
    net = Net()
    return net.model({"x": shape}, [build(net)]), shape


def ran(model: Any, value: Array) -> list[Array]:
    with Session(model, "software") as session:
        return list(session.run(value, outputs="raw", layout="nchw").values())


@pytest.mark.sample(3)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", NETS)
def test_fp16_is_close_to_float(name: str, chip: str) -> None:
    onnx, shape = model_of(name)
    value = feeds(shape, 1)[0]
    compiled = compile_model(onnx, chip, check=False)
    (output,) = compiled.graph.outputs
    wanted = dict(FloatModel(onnx, [output]).run({"x": value}))[output]
    (found,) = ran(compiled.model, value)
    assert distance.measure(found.reshape(wanted.shape), wanted).snr_db > 50


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", NETS)
def test_int8_is_the_same_integers_on_every_chip(name: str) -> None:
    onnx, shape = model_of(name)
    data = feeds(shape, 1)
    chips = [chip for chip in INT8_CHIPS if chip != "rv1106" or name != "turned"]  # RV1106 has no CPU operators
    wanted, *others = (ran(compile_model(onnx, chip, calibration=data, check=False).model, data[0]) for chip in chips)
    for found in others:
        np.testing.assert_array_equal(wanted[0], found[0].reshape(wanted[0].shape))


@pytest.mark.parametrize("folder", ["lower", "recipes", "tile", "link", "normalise"])
def test_no_stage_assumes_a_chip(folder: str) -> None:
    """Atoms, formats and buffers come from the target at hand; a default is right until another chip comes."""
    found = []
    for path in sorted((Path(compiler.__file__).parent / folder).glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom | ast.Import):
                names = {alias.name for alias in node.names}
                found += [f"{path.name}:{node.lineno} {name}" for name in names & ASSUMED]
    assert not found
