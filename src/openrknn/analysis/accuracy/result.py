"""What a comparison says: the layers, and which of them deserve a look."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from openrknn.analysis.accuracy.measure import Layer
from openrknn.container.model import Model

__all__ = ["Comparison", "Loss", "as_json", "culprits", "first_drift", "lint_lines", "losses"]

_LARGE_LOSS_DB = 3.0
_ALL_LOST = 0.999
"""Relative error of a tensor of zeros, but for its rounding."""
_ROUNDING_DB = {"int8": 42.0}
_OTHER_ROUNDING_DB = 70.0
"""What rounding to the format leaves of a signal that fills its range: nobody can lose what is better than that."""


@dataclass(frozen=True, slots=True)
class Loss:
    """An operator whose result is worse than what it was given."""

    layer: Layer
    before_db: float
    """The signal-to-noise ratio of its worst input, or what rounding leaves of it."""

    @property
    def db(self) -> float:
        """How much got lost."""
        return self.before_db - (self.layer.metrics.snr_db or 0.0)


@dataclass
class Comparison:
    """Everything about one pair of models."""

    model: str
    onnx: str
    chip: str
    engine: str
    reference: str
    """"float" or "quantized"."""
    fed: list[str]
    """What the inputs were."""
    limit: float
    outputs: list[str]
    tensors: int
    """Of the .rknn, inputs included."""
    unmatched: list[str]
    """Tensors that the ONNX model does not have."""
    foreign_weights: list[str]
    """Weights that are none of the ONNX model's."""
    culprits: list[Layer] = field(default_factory=list)
    """Operators whose own error is large, if an output disagrees: each was given the reference's numbers."""
    lint: list[str] = field(default_factory=list)
    """What `openrknn lint` says about operators on the way to outputs that disagree."""
    free: list[Layer] = field(default_factory=list)
    isolated: list[Layer] = field(default_factory=list)

    @property
    def layers(self) -> list[Layer]:
        """The mode that was asked for."""
        return self.free or self.isolated

    @property
    def is_bad(self) -> bool:
        """Whether an output is below the limit, or something overflowed."""
        ends = [layer for layer in self.layers if layer.tensor in self.outputs]
        return any(is_below(layer, self.limit) for layer in ends) or any(
            layer.metrics.overflowed for layer in self.layers
        )


def is_below(layer: Layer, limit: float) -> bool:
    """Whether a tensor points elsewhere than its reference; zeros where it has numbers point nowhere."""
    if layer.metrics.cosine is None:
        return (layer.metrics.relative_error or 0.0) >= _ALL_LOST
    return layer.metrics.cosine < limit


def first_drift(layers: Sequence[Layer], limit: float) -> Layer | None:
    """The first tensor whose cosine is below the limit."""
    return next((layer for layer in layers if is_below(layer, limit)), None)


def losses(layers: Sequence[Layer]) -> list[Loss]:
    """Operators that lose at least 3 dB against their worst input, the largest loss first; for free runs."""
    known = {layer.tensor: layer.metrics.snr_db for layer in layers}
    found = []
    for layer in layers:
        before = [known[name] for name in layer.sources if known.get(name) is not None]
        if layer.metrics.snr_db is not None and before:
            worst = min(value for value in before if value is not None)
            loss = Loss(layer, min(worst, _ROUNDING_DB.get(layer.dtype, _OTHER_ROUNDING_DB)))
            if loss.db >= _LARGE_LOSS_DB:
                found.append(loss)
    return sorted(found, key=lambda loss: loss.db, reverse=True)


def culprits(isolated: Sequence[Layer], limit: float) -> list[Layer]:
    """The operators that are wrong on the reference's own numbers, the worst first."""
    found = [layer for layer in isolated if is_below(layer, limit) or layer.metrics.overflowed]
    return sorted(found, key=lambda layer: layer.metrics.cosine or 0.0)


def lint_lines(model: Model) -> list[str]:
    """The errors and warnings of `openrknn lint`, one line each."""
    from openrknn.analysis.lint import Severity, lint_commands

    return [
        f"{finding.code}: {finding.what} ({finding.where}); {finding.change}"
        for finding in lint_commands(model)
        if finding.severity is not Severity.NOTE
    ]


def as_json(comparison: Comparison) -> dict[str, Any]:
    """The whole comparison for programs."""
    drift = first_drift(comparison.layers, comparison.limit)
    plain = {
        entry.name: getattr(comparison, entry.name)
        for entry in dataclasses.fields(comparison)
        if entry.name not in {"culprits", "free", "isolated"}
    }
    return {
        **plain,
        "first_drift": drift.tensor if drift else None,
        "culprits": [_layer(layer) for layer in comparison.culprits],
        "free": [_layer(layer) for layer in comparison.free],
        "isolated": [_layer(layer) for layer in comparison.isolated],
    }


def _layer(layer: Layer) -> dict[str, Any]:
    found = dataclasses.asdict(layer)
    del found["cloud"]
    numbers = found.pop("metrics")
    return {**found, **{name: _finite(value) for name, value in numbers.items()}}


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
