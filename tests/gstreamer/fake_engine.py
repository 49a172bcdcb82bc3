"""An engine whose model is a fake: the name of the model says what it finds in every frame."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np

from openrknn.gstreamer import engine
from openrknn.video import VideoFrame
from openrknn.vision.heads import Frame
from openrknn.vision.result import Result
from openrknn.vision.results import Areas, Found, Objects, Reading

_BOX = np.array([[8, 16, 40, 48]], np.float32)


def _found(model: str, frame: VideoFrame) -> Found:
    one: dict[str, Any] = {"boxes": _BOX, "scores": np.array([0.75], np.float32), "classes": np.array([3])}
    match model:
        case "pose":
            points = np.zeros((1, 17, 3), np.float32)
            points[0, :, 0], points[0, :, 1], points[0, :, 2] = 24, 32, 0.9
            return Objects(**one, keypoints=points)
        case "mask":
            masks = np.zeros((1, frame.height, frame.width), bool)
            masks[0, 16:32, 8:40] = True
            return Objects(**one, masks=masks)
        case "turned":
            return Objects(**one, corners=np.array([[[24, 16], [40, 32], [24, 48], [8, 32]]], np.float32))
        case "areas":
            return Areas(
                (np.arange(frame.height)[:, None] // 32 + np.zeros((1, frame.width), np.int64)).astype(np.int64)
            )
        case "text":
            return Reading("Grüße, 世界", 0.5)
        case "nothing":
            return Objects.none()
        case "box":
            return Objects(**one)
        case _:
            raise ValueError(f"the frame is not to the liking of {model}")


class _Fake:
    def __init__(self, options: dict[str, str]) -> None:
        self.model = options["model"]
        self.family, self.device, self.frame = SimpleNamespace(about="a fake"), "nowhere", Frame(64, 64)
        self.notes = ("it is a fake",)

    def __call__(self, frame: VideoFrame) -> Result:
        if self.model == "dies":
            print("no more", file=sys.stderr, flush=True)
            os._exit(7)
        notes = ("that is strange",) if self.model == "nothing" else ()
        return Result("frame", None, "detect", _found(self.model, frame), ("a", "b", "c", "d"), notes)

    def close(self) -> None:
        return None


def install() -> None:
    """Put it in the place of the pipeline."""
    replaced: Any = engine
    replaced.open_pipeline = _Fake


if __name__ == "__main__":
    install()
    sys.exit(engine.main())
