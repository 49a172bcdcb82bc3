"""In the child process: Ultralytics' own package reads one of its checkpoints and exports it to ONNX.

A checkpoint is a pickle of Python classes, and loading it runs code. That happens in the confined child only: it can
reach neither files outside its private folder nor the network.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from openrknn.compiler.errors import ModelError

__all__ = ["ENVIRONMENT", "convert"]

ENVIRONMENT = {"YOLO_AUTOINSTALL": "false", "YOLO_OFFLINE": "true", "YOLO_VERBOSE": "false", "MPLCONFIGDIR": "."}
"""The package must not install others, ask the network, or write outside the private folder."""
_LARGEST_SIDE = 8192


def convert(request: Mapping[str, Any]) -> bytes:
    """The checkpoint `path` as ONNX, with names, task, image size and stride in its metadata."""
    options: dict[str, Any] = {"format": "onnx", "simplify": False, "dynamic": False, "device": "cpu"}
    if size := image_size(request["shapes"]):
        options["imgsz"] = size
    with open(os.devnull, "w", encoding="utf-8") as nowhere, contextlib.redirect_stdout(nowhere):
        from ultralytics import YOLO  # type: ignore[attr-defined,import-not-found,unused-ignore]

        made = Path(YOLO(request["path"]).export(**options))
    return made.read_bytes()


def image_size(shapes: Any) -> list[int]:
    """Height and width of the only input, from what `shapes` says of it; empty: as the checkpoint was trained."""
    if not shapes:
        return []
    found = list(shapes.values()) if isinstance(shapes, Mapping) else list(shapes)
    if len(found) != 1 or not _is_image(found[0]):
        raise ModelError(
            f"is a checkpoint of ultralytics with one input, images: its shape is 1,3,HEIGHT,WIDTH, not {found!r:.80}"
        )
    return [int(side) for side in found[0][2:]]


def _is_image(shape: Sequence[int]) -> bool:
    return len(shape) == 4 and shape[0] == 1 and all(1 <= side <= _LARGEST_SIDE for side in shape[2:])
