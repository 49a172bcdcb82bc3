"""Whether two sets of outputs say the same to a user; the first is ONNX Runtime in float."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from acceptance.data import Array
from openrknn.vision import FAMILIES, Frame, Head, Settings
from openrknn.vision.results import Objects, Reading

Outputs = Sequence[Array]
"""Of one run, in the order and with the shapes of the ONNX file."""
_IOU = 0.5
_SCORE = {"boxes": 0.35, "lines": 0.6}
_FAMILY = {"boxes": "yolox", "lines": "ppocr-det", "letters": "ppocr-rec"}


@dataclass(frozen=True)
class Answer:
    """In words, and whether it is what float says."""

    text: str
    is_same: bool


def compare(kind: str, frame: tuple[int, int], wanted: Sequence[Outputs], found: Sequence[Outputs]) -> Answer:
    """`frame` is the width and height of the input."""
    if kind == "classes":
        return _classes(wanted, found)
    if kind in {"boxes", "lines"}:
        return _boxes(kind, frame, wanted, found)
    if kind == "letters":
        return _letters(frame, wanted, found)
    if kind == "score":
        pairs = [(float(a[0].ravel()[0]), float(b[0].ravel()[0])) for a, b in zip(wanted, found, strict=True)]
        off = max(abs(a - b) for a, b in pairs)
        return Answer(f"{off:.3f} off at most (scores {min(pairs)[0]:.2f} to {max(pairs)[0]:.2f})", off < 0.1)
    cosines = [_cosine(a[0].ravel(), b[0].ravel()) for a, b in zip(wanted, found, strict=True)]
    return Answer(f"cosine {min(cosines):.4f} or more", min(cosines) > 0.98)


def _cosine(a: Array, b: Array) -> float:
    return float(a @ b / max(1e-30, float(np.linalg.norm(a) * np.linalg.norm(b))))


def _classes(wanted: Sequence[Outputs], found: Sequence[Outputs]) -> Answer:
    first, common = 0, []
    for a, b in zip(wanted, found, strict=True):
        count = min(5, a[0].size)
        best = [np.argsort(-part[0].ravel(), kind="stable")[:count] for part in (a, b)]
        first += int(best[0][0] == best[1][0])
        common.append(len(set(best[0]) & set(best[1])) if a[0].size > 5 else count)
    text = f"first {first}/{len(wanted)}"
    if wanted[0][0].size > 5:
        text += f", {np.mean(common):.1f} of the first 5"
    return Answer(text, first == len(wanted))


def _decoded(kind: str, frame: tuple[int, int], outputs: Outputs) -> Objects | Reading:
    family = next(entry for entry in FAMILIES if entry.name == _FAMILY[kind])
    heads = [Head(str(number), np.asarray(array, np.float32)) for number, array in enumerate(outputs)]
    settings = Settings(threshold=_SCORE.get(kind, 0.0))
    return family.decode(heads, Frame(*frame), settings)  # type: ignore[return-value]


def _boxes(kind: str, frame: tuple[int, int], wanted: Sequence[Outputs], found: Sequence[Outputs]) -> Answer:
    """Each box of float is to be there: same class, at least half of the union."""
    total = extra = 0
    overlaps = []
    for a, b in zip(wanted, found, strict=True):
        mine, other = _decoded(kind, frame, a), _decoded(kind, frame, b)
        assert isinstance(mine, Objects)
        assert isinstance(other, Objects)
        left = set(range(len(other)))
        total += len(mine)
        for box, label in zip(mine.boxes, mine.classes, strict=True):
            best = max(((_iou(box, other.boxes[n]), n) for n in left if other.classes[n] == label), default=(0.0, -1))
            if best[0] >= _IOU:
                left.discard(best[1])
                overlaps.append(best[0])
        extra += len(left)
    iou = f", IoU {np.mean(overlaps):.2f}" if overlaps else ""
    return Answer(f"{len(overlaps)}/{total}{iou}, {extra} more", len(overlaps) == total and not extra)


def _iou(a: Array, b: Array) -> float:
    width = max(0.0, float(min(a[2], b[2]) - max(a[0], b[0])))
    height = max(0.0, float(min(a[3], b[3]) - max(a[1], b[1])))
    areas = [float((box[2] - box[0]) * (box[3] - box[1])) for box in (a, b)]
    return width * height / max(1e-9, sum(areas) - width * height)


def _letters(frame: tuple[int, int], wanted: Sequence[Outputs], found: Sequence[Outputs]) -> Answer:
    pairs = []
    for a, b in zip(wanted, found, strict=True):
        texts = [_decoded("letters", frame, part) for part in (a, b)]
        pairs.append(tuple(text.text for text in texts if isinstance(text, Reading)))
    same = sum(a == b for a, b in pairs)
    text = f"{same}/{len(pairs)} lines"
    other = next((pair for pair in pairs if pair[0] != pair[1]), None)
    return Answer(text + (f" ({other[0]!r} read as {other[1]!r})" if other else ""), same == len(pairs))
