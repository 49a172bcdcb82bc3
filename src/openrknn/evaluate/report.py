"""`Report`: what an evaluation found."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from openrknn.evaluate.metrics.names import METRICS, Metric
from openrknn.evaluate.metrics.scores import Scores


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """One of the models that were evaluated."""

    model: str
    about: str
    """Its type and device: "int8 on software:rk3588"."""
    scores: Scores
    interval: tuple[float, float] | None
    """95 % confidence interval of the main metric (bootstrap over samples)."""
    seconds: float
    """Spent in this model."""

    @property
    def value(self) -> float | None:
        """The main metric."""
        return self.scores.value


@dataclass(frozen=True, slots=True, eq=False)
class Worst:
    """A sample that went badly."""

    name: str
    quality: float
    """0 to 1: F1 of an image's boxes, the probability of the right class, 1 - error rate ..."""
    reference_quality: float | None
    expected: str
    said: str
    reference_said: str
    image: bytes = b""
    """JPEG with objects and detections drawn; empty for sounds and arrays."""


@dataclass(frozen=True, slots=True, eq=False)
class Report:
    """The numbers of a model on a dataset, and beside them those of its float version."""

    task: str
    dataset: str
    kind: str
    """Of the dataset, in words."""
    total: int
    """Samples in the dataset."""
    evaluated: int
    problems: Sequence[tuple[str, str]]
    """Samples that were left out, and why."""
    model: Side
    reference: Side | None
    drop_interval: tuple[float, float] | None
    """Of `drop`, from the same resamples of both."""
    worst: Sequence[Worst]
    notes: Sequence[str]
    seconds: float
    end: str = "complete"
    """complete, limit, budget or interrupted: why it ended."""
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def primary(self) -> str:
        """The name of the main metric: map, top1, wer ..."""
        return self.model.scores.primary

    @property
    def metric(self) -> Metric:
        """The main metric."""
        return METRICS[self.primary]

    @property
    def value(self) -> float | None:
        """The main metric of the model."""
        return self.model.value

    @property
    def drop(self) -> float | None:
        """How much worse than its reference the model is: 0.01 is one point of 100. None without a reference."""
        return self.drop_of(self.primary)

    def drop_of(self, name: str) -> float | None:
        """The same for any metric; positive is worse."""
        if self.reference is None:
            return None
        value, other = self.model.scores.values.get(name), self.reference.scores.values.get(name)
        return None if value is None or other is None else METRICS[name].loss(value, other)

    @property
    def relative_drop(self) -> float | None:
        """`drop` as a part of the reference's value."""
        other = self.reference.value if self.reference is not None else None
        return None if self.drop is None or not other else self.drop / other

    def failures(self, max_drop: float | None = None, minimum: dict[str, float] | None = None) -> list[str]:
        """What a pipeline should stop for, in words; empty if nothing."""
        found = []
        if max_drop is not None:
            if self.drop is None:
                found.append("there is no loss to judge: without samples or a float model nothing can be compared")
            elif self.drop > max_drop:
                loss = f"{100 * self.drop:.2f} points" if self.metric.is_share else f"{self.drop:.3g}"
                most = f"{100 * max_drop:g}" if self.metric.is_share else f"{max_drop:g}"
                found.append(f"{self.metric.title} is {loss} worse than float; allowed are {most}")
        for name, limit in (minimum or {}).items():
            metric, value = METRICS[name], self.model.scores.values.get(name)
            if value is None:
                found.append(f"{metric.title} was not measured")
            elif value > limit if metric.is_error else value < limit:
                found.append(f"{metric.title} is {metric.text(value)}; required is {metric.text(limit)}")
        return found

    def as_json(self) -> dict[str, Any]:
        """Plain values, without images."""
        return {
            "task": self.task,
            "dataset": {"path": self.dataset, "kind": self.kind, "samples": self.total},
            "evaluated": self.evaluated,
            "end": self.end,
            "seconds": round(self.seconds, 3),
            "primary": self.primary,
            "drop": _number(self.drop),
            "relative_drop": _number(self.relative_drop),
            "drop_interval": _pair(self.drop_interval),
            "model": _side(self.model),
            "float": None if self.reference is None else _side(self.reference),
            "worst": [
                {"sample": one.name, "quality": _number(one.quality), "float_quality": _number(one.reference_quality),
                 "expected": one.expected, "found": one.said, "float_found": one.reference_said}
                for one in self.worst
            ],
            "problems": [{"sample": name, "why": why} for name, why in self.problems],
            "notes": list(self.notes),
            "settings": self.settings,
        }  # fmt: skip


def _number(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else round(float(value), 6)


def _pair(value: tuple[float, float] | None) -> list[float | None] | None:
    return None if value is None else [_number(value[0]), _number(value[1])]


def _side(side: Side) -> dict[str, Any]:
    scores = side.scores
    return {
        "path": side.model,
        "about": side.about,
        "seconds": round(side.seconds, 3),
        "metrics": {name: _number(value) for name, value in scores.values.items()},
        "interval": _pair(side.interval),
        "classes": [
            {"name": row.name, "count": row.count, scores.primary: _number(row.value),
             **{name: _number(value) for name, value in row.more.items()}}
            for row in scores.classes
        ],
        "confusion": None if scores.confusion is None else scores.confusion.tolist(),
    }  # fmt: skip
