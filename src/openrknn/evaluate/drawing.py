"""The worst samples as small images: objects that were found, missed, and what is wrong."""

from __future__ import annotations

from io import BytesIO
from typing import Any

from openrknn.errors import RknnError
from openrknn.evaluate.metrics.detection import Image, judge_image, shown_objects
from openrknn.evaluate.truth import Array, Sample
from openrknn.pictures import pillow
from openrknn.vision.pictures import read_picture, to_image

_LONGEST = 520
_QUALITY = 80
COLORS = {"found": (46, 160, 67), "missed": (218, 54, 51), "wrong": (230, 150, 20)}
"""Of boxes: detections that are right, objects that were missed, detections that are wrong."""


def draw_sample(sample: Sample, record: Any, task: str) -> bytes:
    """JPEG; nothing where the sample is no image, or cannot be read any more."""
    if sample.path is None or task in ("speech", "tensors"):
        return b""
    try:
        image = to_image(read_picture(sample.path))
    except (RknnError, OSError):
        return b""
    scale = min(1.0, _LONGEST / max(image.size))
    if scale < 1:
        size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
        image = image.resize(size, pillow().Resampling.BILINEAR)
    if isinstance(record, Image):
        _draw_boxes(image, record, scale)
    written = BytesIO()
    image.save(written, "JPEG", quality=_QUALITY)
    return written.getvalue()


def _draw_boxes(image: Any, record: Image, scale: float) -> None:
    from PIL import ImageDraw

    pen = ImageDraw.Draw(image)
    shown = shown_objects(record.found)
    right, wrong, missed = judge_image(record.truth, shown)
    for at in missed:
        _outline(pen, record.truth.boxes[at], _corners(record.truth.corners, at), scale, COLORS["missed"])
    for kind, rows in (("wrong", wrong), ("found", right)):
        for row in rows:
            _outline(pen, shown.boxes[row], _corners(shown.corners, row), scale, COLORS[kind])


def _corners(values: Array | None, row: int) -> Array | None:
    return None if values is None else values[row]


def _outline(pen: Any, box: Array, corners: Array | None, scale: float, color: tuple[int, int, int]) -> None:
    if corners is not None:
        points = [(float(x) * scale, float(y) * scale) for x, y in corners]
        pen.polygon(points, outline=color, width=3)
        return
    left, top, right, bottom = (float(value) * scale for value in box)
    pen.rectangle((left, top, max(right, left + 1), max(bottom, top + 1)), outline=color, width=3)
