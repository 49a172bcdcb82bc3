"""What each output of a model means, from its last operators, its shape and the float model's numbers; what it loses.

    classes      the largest along an axis counts: behind a Softmax, or one long row of logits
    scores       behind a Sigmoid, or one number for each row of another output (anchors of a detector)
    detections   boxes and scores in one output, as Ultralytics exports them: [1, 4 + classes, anchors]
    numbers      everything else: landmarks, offsets, embeddings, maps
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from openrknn.compiler.accuracy.losses import (
    box_loss,
    class_loss,
    joined,
    number_loss,
    score_loss,
    sigmoid,
    softmax,
)
from openrknn.compiler.answers import decision_of
from openrknn.compiler.ir import Array, Graph
from openrknn.distance import measure

Kind = Literal["classes", "scores", "detections", "numbers"]
Runs = Mapping[str, Sequence[Array]]
"""Output -> its numbers in each run."""

_BOX = 4
_PIXELS = 1.5
"""Boxes in pixels reach further; scores do not."""
_MANY_CLASSES, _SURE = 100, 0.2
"""Classes of a row of logits, and how sure of one the model is on average: an embedding is not."""
_FARTHEST = 60.0
"""Logits do not reach it; landmarks in pixels do."""
_UNIT = 1e-3
_WORDS = {
    "classes": "expected accuracy of the classes", "scores": "expected average precision and decisions of the scores",
    "detections": "expected average precision of the scores, IoU of the boxes",
    "numbers": "mean error as a share of the output's range",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class OutputLoss:
    """What one output loses against float on some data."""

    output: str
    kind: Kind
    loss: float
    """A share: 0.01 is 1 %."""
    snr_db: float

    @property
    def measure(self) -> str:
        """What the loss is one of, in words."""
        return _WORDS[self.kind]

    @property
    def text(self) -> str:
        return f"{self.output}: {self.loss:.2%} ({self.measure}), {self.snr_db:.1f} dB"

    def as_json(self) -> dict[str, Any]:
        return {"output": self.output, "kind": self.kind, "loss": self.loss, "snr_db": self.snr_db}


def losses_of(source: Any, graph: Graph, found: Runs, wanted: Runs) -> list[OutputLoss]:
    """Of all outputs in `wanted`; integers (indices that float decides) are compared as numbers are."""
    kinds = {name: kind_of(source, graph, name, wanted) for name in wanted}
    scores = {name: _scores(source, graph, name, wanted[name]) for name, kind in kinds.items() if kind == "scores"}
    made = []
    for name, kind in kinds.items():
        right = joined(wanted[name])
        ours = joined([array.reshape(right.shape[1:]) for array in found[name]])
        overflowed = [~np.isfinite(np.asarray(array, np.float64)).all() for array in found[name]]
        loss = _loss(source, graph, name, kind, (ours, right), scores)
        if any(overflowed) and all(np.isfinite(np.asarray(array, np.float64)).all() for array in wanted[name]):
            loss = 1.0
        made.append(OutputLoss(name, kind, min(max(loss, 0.0), 1.0), measure(ours, right).snr_db))
    return made


def _loss(
    source: Any, graph: Graph, name: str, kind: Kind, pair: tuple[Array, Array], scores: Mapping[str, Array]
) -> float:
    ours, right = pair
    if kind == "classes":
        decision = decision_of(source, graph, name)
        axis = -1 if decision is None or decision.axis is None else decision.axis
        axis = axis if axis < 0 else axis + 1  # runs are the first axis
        rows = [np.moveaxis(values, axis, -1).reshape(-1, values.shape[axis]) for values in (ours, right)]
        probabilities = rows[1] if _is_unit(rows[1]) else softmax(rows[1])
        return class_loss(rows[0], probabilities)
    if kind == "scores":
        is_logit = _is_logit(source, graph, name, right)
        return score_loss(_as_scores(ours, is_logit=is_logit), _as_scores(right, is_logit=is_logit))
    if kind == "detections":
        return _detection_loss(ours, right)
    fitting = [entry for entry in scores.values() if entry.shape[:-1] == right.shape[:-1] and _rows(right) > 1]
    weights = fitting[0] if fitting else None
    columns = right.shape[-1] if weights is not None else int(np.prod(right.shape[1:]))
    each = None if weights is None else weights.reshape(-1, weights.shape[-1]).max(1)
    return number_loss(ours.reshape(-1, columns), right.reshape(-1, columns), each)


def kind_of(source: Any, graph: Graph, name: str, wanted: Runs) -> Kind:
    """What the output means."""
    values = joined(wanted[name])
    decision = decision_of(source, graph, name)
    if values.ndim == 4 and _is_detections(values):
        return "detections"
    if decision is not None and decision.axis is not None:
        return "classes"
    if decision is not None and (decision.limit == 0.0 or _is_unit(values)):
        return "scores"
    if _is_beside_boxes(name, values, wanted):
        return "scores"
    return "classes" if _is_row_of_logits(values) else "numbers"


def _is_detections(values: Array) -> bool:
    rows = _by_channel(values)
    if len(rows) <= _BOX or rows.shape[1] <= len(rows):
        return False
    return bool(rows[:_BOX].max() > _PIXELS and _is_unit(rows[_BOX:][:1]))


def _by_channel(values: Array) -> Array:
    """[channels, anchors of all runs] of [runs, 1, channels, anchors] or [runs, 1, anchors, channels]."""
    axis = 2 if values.shape[2] < values.shape[3] else 3
    return np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1)


def _detection_loss(ours: Array, right: Array) -> float:
    found, wanted = _by_channel(ours), _by_channel(right)
    rest = np.arange(_BOX, len(wanted))
    is_score = np.array([_is_unit(wanted[row][None]) for row in rest])
    scores, numbers = rest[is_score], rest[~is_score]
    weights = wanted[scores].max(0)
    loss = max(score_loss(found[scores], wanted[scores]), box_loss(found[:_BOX], wanted[:_BOX], weights))
    return max(loss, number_loss(found[numbers].T, wanted[numbers].T, weights)) if len(numbers) else loss


def _is_beside_boxes(name: str, values: Array, wanted: Runs) -> bool:
    """Whether another output has several numbers for each row of this one: boxes or keypoints of the same anchors."""
    if values.ndim < 4 or _rows(values) < _BOX:
        return False
    others = [joined(arrays[:1]) for other, arrays in wanted.items() if other != name]
    wide = [entry for entry in others if entry.shape[1:-1] == values.shape[1:-1]]
    if values.shape[-1] == 1:
        return any(entry.shape[-1] >= _BOX for entry in wide)
    return _is_unit(values) and any(entry.shape[-1] % _BOX == 0 and not _is_unit(entry) for entry in wide)


def _is_row_of_logits(values: Array) -> bool:
    if max(values.shape[1:]) != int(np.prod(values.shape[1:])) or values[0].size < _MANY_CLASSES:
        return False
    rows = values.reshape(len(values), -1)
    chosen = softmax(rows)
    is_even = abs(float(rows.mean())) < float(rows.std()) and float(np.abs(rows).max()) < _FARTHEST
    differs = 2 * len(set(rows.argmax(1).tolist())) >= len(rows)
    return is_even and differs and float(chosen.max(1).mean()) > _SURE


def _scores(source: Any, graph: Graph, name: str, arrays: Sequence[Array]) -> Array:
    values = joined(arrays)
    return _as_scores(values, is_logit=_is_logit(source, graph, name, values))


def _is_logit(source: Any, graph: Graph, name: str, wanted: Array) -> bool:
    decision = decision_of(source, graph, name)
    return not _is_unit(wanted) if decision is None else decision.limit == 0.0


def _as_scores(values: Array, *, is_logit: bool) -> Array:
    result: Array = sigmoid(values) if is_logit else np.clip(values, 0.0, 1.0)
    return result


def _is_unit(values: Array) -> bool:
    return bool(values.min(initial=0.0) >= -_UNIT and values.max(initial=0.0) <= 1 + _UNIT)


def _rows(values: Array) -> int:
    """Numbers of the axis before the last: anchors."""
    return int(values.shape[-2]) if values.ndim > 3 else 1
