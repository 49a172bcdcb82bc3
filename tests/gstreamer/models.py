"""A detector of 64x64 pixels without training: a red or green cell of 8x8 pixels is an object of 16x16."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["LABELS", "SIDE", "write_classifier", "write_detector"]

SIDE = 64
CELL = 8
LABELS = ("red thing", "green thing")
_STEEP = 20.0


@cache
def _detector() -> bytes:
    from onnx import TensorProto, checker, helper, numpy_helper

    def conv(name: str, inputs: list[str], kernel: int) -> Any:
        return helper.make_node("Conv", inputs, [name], kernel_shape=[kernel, kernel], strides=[kernel, kernel])

    # How much more red than green and blue a cell is, and how much more green.
    colours = np.array(((1.0, -1.0, -1.0), (-1.0, 1.0, -1.0))) * _STEEP / CELL**2
    weights = {
        "colour": np.broadcast_to(colours[:, :, None, None], (2, 3, CELL, CELL)), "edge": np.full(2, -0.6 * _STEEP),
        "side": np.zeros((4, 3, CELL, CELL)), "reach": np.ones(4),
        "coarse": np.zeros((2, 3, 16, 16)), "never": np.full(2, -12.0), "coarse_side": np.zeros((4, 3, 16, 16)),
    }  # fmt: skip
    nodes = [
        conv("fine", ["image", "colour", "edge"], CELL), helper.make_node("Sigmoid", ["fine"], ["score8"]),
        conv("box8", ["image", "side", "reach"], CELL),
        conv("rough", ["image", "coarse", "never"], 16), helper.make_node("Sigmoid", ["rough"], ["score16"]),
        conv("box16", ["image", "coarse_side", "reach"], 16),
    ]  # fmt: skip
    shapes = {"box8": (1, 4, 8, 8), "score8": (1, 2, 8, 8), "box16": (1, 4, 4, 4), "score16": (1, 2, 4, 4)}
    graph = helper.make_graph(
        nodes,
        "squares",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, SIDE, SIDE])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape)) for name, shape in shapes.items()],
        [numpy_helper.from_array(np.ascontiguousarray(value, np.float32), name) for name, value in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    checker.check_model(model)
    return bytes(model.SerializeToString())


@cache
def _classifier() -> bytes:
    from onnx import TensorProto, helper, numpy_helper

    weight = np.array(((8.0, -8.0, 0.0), (-8.0, 8.0, 0.0), (-4.0, -4.0, 8.0)))
    nodes = [
        helper.make_node("GlobalAveragePool", ["image"], ["mean"]),
        helper.make_node("Conv", ["mean", "weight"], ["deep"], kernel_shape=[1, 1]),
        helper.make_node("Flatten", ["deep"], ["scores"]),
    ]
    graph = helper.make_graph(
        nodes,
        "colour",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 16, 16])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 3])],
        [numpy_helper.from_array(weight[:, :, None, None].astype(np.float32), "weight")],
    )
    return bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]).SerializeToString())


def _write(onnx: bytes, path: Path) -> Path:
    from openrknn import save
    from openrknn.compiler import compile_onnx

    save(compile_onnx(onnx, mean=[0, 0, 0], std=[255, 255, 255]), path)
    return path


def write_detector(path: Path) -> Path:
    """The detector as a .rknn file, and its labels beside it."""
    path.with_suffix(".txt").write_text("\n".join(LABELS) + "\n", encoding="utf-8")
    return _write(_detector(), path)


def write_classifier(path: Path) -> Path:
    """Red, green or blue."""
    path.with_suffix(".txt").write_text("red\ngreen\nblue\n", encoding="utf-8")
    return _write(_classifier(), path)
