"""YOLOv8, v11, v10, v6 and PP-YOLOE as rknn_model_zoo exports them: two to four outputs per stride.

    box    [1, 4 * bins, h, w]     left, top, right, bottom distances; `grids.distances`
    score  [1, classes, h, w]      probabilities (or what the sigmoid makes them from)
    total  [1, 1, h, w]            sum of the scores, cut off at one: a fast first test (optional)
    mask   [1, 32, h, w]           see `yolo_seg` (optional)

or box and score in one output [1, 4 * bins + classes, h, w]. For the cell in column x and row y

    left   = (x + 0.5 - d_left) * stride        right  = (x + 0.5 + d_right)  * stride
    top    = (y + 0.5 - d_top)  * stride        bottom = (y + 0.5 + d_bottom) * stride

bins: 16 in v8, v10, v11; 17 in PP-YOLOE and the large v6; 1 in the small v6. The formula is the same, so these families
need not be distinguished. v10 is trained to give one box per object; suppression does it no harm.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from openrknn.vision import native
from openrknn.vision.grids import cell_corners, distances, is_grid, sigmoid, stride_of
from openrknn.vision.heads import Array, Floats, Frame, Head, Settings
from openrknn.vision.nms import select
from openrknn.vision.results import Objects

BOX_CHANNELS = (4, 64, 68)
MERGED_BOX_CHANNELS = 64


@dataclass(frozen=True, slots=True)
class Branch:
    """The outputs of one stride."""

    box: Head
    score: Head
    total: Head | None = None
    mask: Head | None = None


@dataclass(frozen=True, slots=True)
class Picked:
    """The cells whose score passes, of all strides."""

    cells: Array
    """[n]: column and row numbered through all strides, the finest first; 0 to 8399 for 640x640."""
    centres: Floats
    """[2, n] in cells."""
    distances: Floats
    """[4, n] in cells."""
    strides: Floats
    """[2, n]: pixels per cell across and down."""
    scores: Floats
    classes: Array
    masks: Floats
    """[n, 32], or [n, 0] without masks."""


def matches(shapes: Sequence[tuple[int, ...]], frame: Frame) -> bool:
    """Every stride has a box and a score, and perhaps their sum."""
    if not shapes or not all(is_grid(shape, frame) for shape in shapes):
        return False
    groups = _by_stride(shapes)
    return len(groups) > 1 and all(
        len(group) in (2, 3) and _box_place(group) is not None and (len(group) == 2 or group[2][1] == 1)
        for group in groups
    )


def _by_stride(shapes: Iterable[tuple[int, ...]]) -> list[list[tuple[int, ...]]]:
    groups: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    for shape in shapes:
        groups.setdefault(shape[2:], []).append(shape)
    return list(groups.values())


def _box_place(group: Sequence[tuple[int, ...]]) -> int | None:
    """Which of the first two outputs of a stride is the box: the one with a known number of channels."""
    known = [place for place in (0, 1) if group[place][1] in BOX_CHANNELS]
    return known[0] if known else 0 if group[0][1] % 4 == 0 else None


def branches_of(heads: Sequence[Head]) -> list[Branch]:
    """The outputs by stride, the finest first."""
    groups: dict[tuple[int, ...], list[Head]] = {}
    for head in heads:
        groups.setdefault(head.shape[2:], []).append(head)
    result = []
    for _, group in sorted(groups.items(), reverse=True):
        place = _box_place([head.shape for head in group]) or 0
        rest = group[2:]
        total = next((head for head in rest if head.shape[1] == 1), None)
        mask = next((head for head in rest if head.shape[1] > 1), None)
        result.append(Branch(group[place], group[1 - place], total, mask))
    return result


def merged_branches(heads: Sequence[Head], box_channels: int = MERGED_BOX_CHANNELS) -> list[Branch]:
    """Outputs that hold box and score one after the other."""
    ordered = sorted(heads, key=lambda head: -head.shape[-1])
    return [
        Branch(
            box=replace(head, values=head.values[:, :box_channels]),
            score=replace(head, values=head.values[:, box_channels:]),
        )
        for head in ordered
    ]


def pick(branches: Sequence[Branch], frame: Frame, settings: Settings) -> Picked:
    """The cells that pass the threshold, compared as they are stored; only these become floats."""
    parts, first = [], 0
    for branch in branches:
        parts.append(_pick_branch(branch, frame, settings, first))
        first += branch.score.shape[2] * branch.score.shape[3]
    return joined(parts)


def joined(parts: Sequence[Picked]) -> Picked:
    """Several strides as one."""
    return Picked(
        cells=np.concatenate([part.cells for part in parts]),
        centres=np.concatenate([part.centres for part in parts], axis=1),
        distances=np.concatenate([part.distances for part in parts], axis=1),
        strides=np.concatenate([part.strides for part in parts], axis=1),
        scores=np.concatenate([part.scores for part in parts]),
        classes=np.concatenate([part.classes for part in parts]),
        masks=np.concatenate([part.masks for part in parts]),
    )


def _pick_branch(branch: Branch, frame: Frame, settings: Settings, first: int) -> Picked:
    head = branch.score
    stored = head.values.reshape(head.shape[1], -1)
    is_logits = head.is_logits(stored, settings)
    limit = head.score_limit(settings, is_logits=is_logits)
    picked = None if settings.every_class else native.pick(head, branch.box, limit)
    cells, best, classes, sides = picked or _pick(branch, stored, limit, settings)
    scores = head.real(best)
    across, down = stride_of(head.shape, frame)
    masks = np.zeros((len(cells), 0), np.float32)
    if branch.mask is not None:
        masks = branch.mask.real(branch.mask.values.reshape(branch.mask.shape[1], -1)[:, cells]).T
    return Picked(
        cells=cells + first,
        centres=cell_corners(cells, head.shape[3]) + np.float32(0.5),
        distances=sides,
        strides=np.repeat(np.array([[across], [down]], np.float32), len(cells), axis=1),
        scores=sigmoid(scores) if is_logits else scores,
        classes=classes,
        masks=masks,
    )


def _pick(branch: Branch, stored: Array, limit: float, settings: Settings) -> tuple[Array, Array, Array, Floats]:
    """Cells that pass, their best scores as stored, classes, and [4, n] distances."""
    if settings.every_class:
        classes, every = np.nonzero(stored >= limit)
        boxes = branch.box.values.reshape(branch.box.shape[1], -1)[:, every]
        return every, stored[classes, every], classes, distances(branch.box.real(boxes))
    cells = _promising(branch.total, settings, stored.shape[1])
    best = stored.max(axis=0) if cells is None else stored[:, cells].max(axis=0)
    passed = np.flatnonzero(best >= limit)
    cells = passed if cells is None else cells[passed]
    boxes = branch.box.values.reshape(branch.box.shape[1], -1)[:, cells]
    return cells, best[passed], stored[:, cells].argmax(axis=0), distances(branch.box.real(boxes))


def _promising(total: Head | None, settings: Settings, count: int) -> Array | None:
    """Cells whose sum of scores can hold one that passes; None: all of them have to be looked at."""
    if total is None or total.values.size != count:
        return None
    # The sum was rounded with a scale of its own: one step of slack.
    slack = total.scale if total.is_quantized else 1e-3
    return np.flatnonzero(total.values.reshape(-1) >= total.limit(settings.threshold - slack))


def boxes_of(picked: Picked) -> Floats:
    """[n, 4] in pixels of the frame."""
    low = (picked.centres - picked.distances[:2]) * picked.strides
    high = (picked.centres + picked.distances[2:]) * picked.strides
    return np.concatenate([low, high]).T


def decode(heads: Sequence[Head], frame: Frame, settings: Settings) -> Objects:
    """Objects from separate boxes and scores."""
    return _objects(pick(branches_of(heads), frame, settings), settings)


def _objects(picked: Picked, settings: Settings) -> Objects:
    return select(Objects(boxes_of(picked), picked.scores, picked.classes), settings)


def matches_merged(shapes: Sequence[tuple[int, ...]], frame: Frame) -> bool:
    """One output per stride, with box and score behind each other."""
    return (
        len(shapes) > 1
        and all(is_grid(shape, frame) for shape in shapes)
        and len({shape[2:] for shape in shapes}) == len(shapes)
        and len({shape[1] for shape in shapes}) == 1
        and shapes[0][1] > MERGED_BOX_CHANNELS
    )


def decode_merged(heads: Sequence[Head], frame: Frame, settings: Settings) -> Objects:
    """Objects from outputs that hold box and score."""
    return _objects(pick(merged_branches(heads), frame, settings), settings)
