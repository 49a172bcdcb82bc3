"""A detector without training: finds the squares of `test:` cameras exactly, for a first try and for tests.

    image [1, 3, h, w] -> Conv 8x8, stride 8: how red, green and blue each cell is, 0 to 1
                       -> Conv 3x3: the mean of nine cells, made steep -> Sigmoid: score [1, 3, h/8, w/8]
    box [1, 4, h/8, w/8] is 1.5 cells to each side, everywhere.

A second stride, where nothing is ever found, makes it a detector in the form of YOLOv8 (`vision.decoders.yolov8`).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from openrknn.watch.scene import CELL, LABELS

__all__ = ["detector_onnx", "write_demo", "write_detector"]

_STEEP, _EDGE = 40.0, 0.8
"""A square that is a cell off has two thirds of its cells, and with it a score of about zero."""
_NOTHING = -12.0
_CONFIG = """\
# Two simulated cameras and a detector that finds their coloured squares: try `openrknn watch` without hardware.
spool = "spool"

[models.squares]
path = "squares.rknn"
threshold = 0.5
labels = ["person", "car", "cat"]

[cameras.yard]
source = "test:1"
model = "squares"

[[cameras.yard.zones]]
name = "left"
polygon = [[0, 0], [0.5, 0], [0.5, 1], [0, 1]]
loiter_seconds = 2

[cameras.gate]
source = "test:2"
model = "squares"

[[cameras.gate.lines]]
name = "middle"
points = [[0.5, 0], [0.5, 1]]

[events.file]
path = "events.jsonl"

[page]
port = 8018
"""


def detector_onnx(width: int = 160, height: int = 96, *, steep: float = _STEEP) -> bytes:
    """The detector as an ONNX file; `steep` changes its scores a little, so that two of them differ."""
    from onnx import TensorProto, ValueInfoProto, checker, helper, numpy_helper

    colours = np.full((3, 3), -1.0) + 2.0 * np.eye(3)
    cells = np.broadcast_to((colours / CELL**2)[:, :, None, None], (3, 3, CELL, CELL))
    mean = np.zeros((3, 3, 3, 3))
    mean[range(3), range(3)] = steep / 9
    weights = {
        "cells": cells, "mean": mean, "edge": np.full(3, -_EDGE * steep),
        "none": np.zeros((3, 3, 2, 2)), "nothing": np.full(3, _NOTHING),
        "side": np.zeros((4, 3, 1, 1)), "coarse_side": np.zeros((4, 3, 2, 2)), "reach": np.full(4, 1.5),
    }  # fmt: skip
    conv = helper.make_node
    nodes = [
        conv("Conv", ["image", "cells"], ["colour"], kernel_shape=[CELL, CELL], strides=[CELL, CELL]),
        conv("Conv", ["colour", "mean", "edge"], ["fine"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        conv("Sigmoid", ["fine"], ["score8"]),
        conv("Conv", ["colour", "side", "reach"], ["box8"], kernel_shape=[1, 1]),
        conv("Conv", ["colour", "none", "nothing"], ["rough"], kernel_shape=[2, 2], strides=[2, 2]),
        conv("Sigmoid", ["rough"], ["score16"]),
        conv("Conv", ["colour", "coarse_side", "reach"], ["box16"], kernel_shape=[2, 2], strides=[2, 2]),
    ]

    def value(name: str, channels: int, step: int) -> ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, channels, height // step, width // step])

    outputs = [value("box8", 4, CELL), value("score8", 3, CELL), value("box16", 4, 16), value("score16", 3, 16)]
    stored = [numpy_helper.from_array(one.astype(np.float32), name) for name, one in weights.items()]
    graph = helper.make_graph(nodes, "squares", [value("image", 3, 1)], outputs, stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    names = "{" + ", ".join(f"{number}: '{name}'" for number, name in enumerate(LABELS)) + "}"
    helper.set_model_props(model, {"names": names, "task": "detect"})
    checker.check_model(model)
    data: bytes = model.SerializeToString()
    return data


def write_detector(
    path: str | Path, *, target: str = "rk3588", steep: float = _STEEP, size: tuple[int, int] = (160, 96),
    check: bool = True,
) -> Path:  # fmt: skip
    """Compile it."""
    from openrknn.compiler.api import compile_model
    from openrknn.wholefiles import write_atomically

    place = Path(path)
    onnx = detector_onnx(*size, steep=steep)
    made = compile_model(onnx, target=target, mean=[0, 0, 0], std=[255, 255, 255], check=check)
    write_atomically(place, made.data)
    return place


def write_demo(folder: str | Path, *, target: str = "rk3588") -> Path:
    """A folder with the detector and a configuration for two simulated cameras; gives the configuration's path."""
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    write_detector(place / "squares.rknn", target=target)
    config = place / "watch.toml"
    config.write_text(_CONFIG, "utf-8")
    return config
