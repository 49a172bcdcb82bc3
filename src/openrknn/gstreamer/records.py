"""Results as the records of `openrknn.gstreamer.wire`."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from openrknn.gstreamer.wire import STRUCTS, Kind
from openrknn.vision.heads import Array
from openrknn.vision.result import Result
from openrknn.vision.results import Areas, Objects, Ranking, Reading

__all__ = ["packed"]

_RANKED = 5
"""Maximum number of classes to report for a ranking."""
_WHOLE_NUMBERS = 256
"""Classes that fit into a byte of a mask."""
_ALIGNMENT = 4
_INSIDE = 255


def packed(result: Result, region: int, origin: tuple[int, int], size: tuple[int, int]) -> list[bytes]:
    """What was found in a frame (region -1), or in the part of it that begins at `origin` and has this size."""
    left, top = origin
    place = (left, top, left + size[0], top + size[1])
    parts = [_record(Kind.NOTE, region, text=note) for note in result.notes]
    match result.found:
        case Objects():
            parts += [_object(result, result.found, row, region, origin) for row in range(len(result.found))]
        case Ranking():
            rows = zip(
                result.found.classes[:_RANKED].tolist(), result.found.probabilities[:_RANKED].tolist(), strict=True
            )
            parts += [
                _record(Kind.CLASS, region, number, score, place, label=result.label(number)) for number, score in rows
            ]
        case Areas():
            parts.append(_areas(result, result.found, region, place))
        case Reading():
            parts.append(_record(Kind.TEXT, region, -1, result.found.score, place, text=result.found.text))
        case None:
            parts.append(_record(Kind.NOTE, region, text=result.problem))
    return parts


def _object(result: Result, found: Objects, row: int, region: int, origin: tuple[int, int]) -> bytes:
    number = int(found.classes[row])
    box = found.boxes[row].astype(np.float32) + np.array((*origin, *origin), np.float32)
    mask, corner = None, (0, 0)
    if found.masks is not None:
        mask, corner = _inside(found.masks[row], found.boxes[row])
    return _record(
        Kind.OBJECT,
        region,
        number,
        float(found.scores[row]),
        tuple(box.tolist()),
        label="text" if result.task == "text" else result.label(number),
        text="" if found.texts is None else found.texts[row],
        keypoints=None if found.keypoints is None else found.keypoints[row] + np.array((*origin, 0), np.float32),
        corners=None if found.corners is None else found.corners[row] + np.array(origin, np.float32),
        mask=mask,
        mask_at=(corner[0] + origin[0], corner[1] + origin[1]),
    )


def _inside(mask: Array, box: Array) -> tuple[Array, tuple[int, int]]:
    """The part of a mask that its box covers, in whole pixels, and where that begins."""
    height, width = mask.shape
    left, top = (
        min(max(int(np.floor(value)), 0), limit) for value, limit in zip(box[:2], (width, height), strict=True)
    )
    right, bottom = (min(int(np.ceil(value)), limit) for value, limit in zip(box[2:], (width, height), strict=True))
    part = mask[top : max(bottom, top), left : max(right, left)]
    return np.where(part, np.uint8(_INSIDE), np.uint8(0)), (left, top)


def _areas(result: Result, found: Areas, region: int, place: tuple[int, int, int, int]) -> bytes:
    count = int(found.classes.max(initial=0)) + 1
    if count > _WHOLE_NUMBERS:
        raise ValueError(f"the model tells {count} classes of pixels apart; GRAY8 masks have {_WHOLE_NUMBERS}")
    return _record(
        Kind.AREAS,
        region,
        -1,
        1.0,
        place,
        text="\n".join(result.label(number) for number in range(count)),
        mask=found.classes.astype(np.uint8),
        mask_at=place[:2],
    )


def _record(
    kind: Kind,
    region: int,
    number: int = -1,
    score: float = 0.0,
    box: Iterable[float] = (0, 0, 0, 0),
    *,
    label: str = "",
    text: str = "",
    keypoints: Array | None = None,
    corners: Array | None = None,
    mask: Array | None = None,
    mask_at: tuple[int, int] = (0, 0),
) -> bytes:
    name, words = label.encode(errors="replace"), text.encode(errors="replace")
    points = b"" if keypoints is None else np.ascontiguousarray(keypoints, "<f4").tobytes()
    turned = b"" if corners is None else np.ascontiguousarray(corners, "<f4").tobytes()
    inside = b"" if mask is None else np.ascontiguousarray(mask, np.uint8).tobytes()
    header = STRUCTS["record"]
    size = header.size + len(name) + len(words) + len(points) + len(turned) + len(inside)
    fill = -size % _ALIGNMENT
    height, width = (0, 0) if mask is None else mask.shape
    head = header.pack(
        size + fill, kind, region, number, score, *box, len(name), len(words),
        0 if keypoints is None else len(keypoints), 0 if corners is None else len(corners), *mask_at, width, height,
    )  # fmt: skip
    return b"".join((head, name, words, points, turned, inside, bytes(fill)))
