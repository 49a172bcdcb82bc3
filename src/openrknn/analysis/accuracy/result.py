"""What a comparison says: the layers, which of them deserve a look, and the sentences of the terminal and the page."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from openrknn.analysis.accuracy.measure import Layer
from openrknn.container.model import Model
from openrknn.quantities import count_of

_LARGE_LOSS_DB = 3.0
_ALL_LOST = 0.999
"""Relative error of a tensor of zeros, but for its rounding."""
_ROUNDING_DB = {"int8": 42.0}
_OTHER_ROUNDING_DB = 70.0
"""Best SNR of the format, for a signal that fills its range; losses beyond it cannot be measured."""


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


_MOST_LOSSES = 3
_MOST_NAMES = 4


def head(comparison: Comparison) -> list[tuple[str, str]]:
    """What was compared with what."""
    kind = "as it is, in float32" if comparison.reference == "float" else "with the weights and rounding of the file"
    compared = comparison.tensors - len(comparison.unmatched)
    return [
        ("model", f"{comparison.model} on the software NPU ({comparison.chip})"),
        ("reference", f"{comparison.onnx}, {kind}, by {comparison.engine}"),
        ("input", "; ".join(comparison.fed)),
        ("tensors", f"{compared} of {comparison.tensors} have a counterpart in the ONNX model"),
    ]


def verdict(comparison: Comparison) -> str:
    """One line: where it starts to drift, or that it does not."""
    drift = first_drift(comparison.layers, comparison.limit)
    if drift is None:
        ends = [layer for layer in comparison.layers if layer.tensor in comparison.outputs]
        worst = min((layer.metrics.cosine for layer in ends if layer.metrics.cosine is not None), default=None)
        said = "" if worst is None else f"; outputs have a cosine of {worst:.5f} or more"
        return f"No operator drifts below a cosine of {comparison.limit:g}{said}"
    mode = "The first operator that drifts" if comparison.free else "The first operator whose own error is large"
    how = "all zeros" if drift.metrics.cosine is None else f"cosine {drift.metrics.cosine:.5f}"
    return f"{mode}: {describe(drift)}, {how}"


def describe(layer: Layer) -> str:
    """ "#12 ConvRelu (t24)"."""
    number = "" if layer.operator is None else f"#{layer.operator} "
    return f"{number}{layer.op_type} ({layer.tensor})"


def remarks(comparison: Comparison) -> list[str]:
    """What else deserves a look, the most important first."""
    layers = comparison.layers
    found = [f"wrong by itself: {describe(layer)}, {_own_error(layer)}" for layer in comparison.culprits[:_MOST_LOSSES]]
    found += [f"lint: {line}" for line in comparison.lint[:_MOST_LOSSES]]
    found += [
        f"overflow: {count_of(layer.metrics.overflowed, 'element')} of {describe(layer)} are infinite or NaN"
        for layer in layers
        if layer.metrics.overflowed
    ][:_MOST_LOSSES]
    if comparison.free:
        for loss in losses(layers)[:_MOST_LOSSES]:
            after = loss.layer.metrics.snr_db or 0.0
            found.append(f"large loss: {describe(loss.layer)} from {loss.before_db:.1f} to {after:.1f} dB")
    clipped = sorted(layers, key=lambda layer: layer.metrics.clipped / layer.metrics.elements, reverse=True)
    for layer in clipped[:_MOST_LOSSES]:
        if layer.metrics.clipped:
            share = 100 * layer.metrics.clipped / layer.metrics.elements
            found.append(f"clipped: {share:.2g} % of {describe(layer)} do not fit into its range")
    pruned = [layer for layer in layers if layer.pruned]
    if pruned:
        count = sum(layer.pruned for layer in pruned)
        found.append(f"pruned by the compiler, left out here: {count_of(count, 'channel')} of {_names(pruned)}")
    if comparison.foreign_weights and comparison.reference == "quantized":
        names = ", ".join(comparison.foreign_weights[:_MOST_NAMES])
        found.append(f"weights that the compiler changed, so the ONNX model's are used: {names}")
    return found


def _own_error(layer: Layer) -> str:
    cosine = layer.metrics.cosine
    return "on the reference's numbers: " + (f"cosine {cosine:.5f}" if cosine is not None else "all zeros")


def _names(layers: Sequence[Layer]) -> str:
    shown = ", ".join(layer.tensor for layer in layers[:_MOST_NAMES])
    return f"{shown} and {len(layers) - _MOST_NAMES} more" if len(layers) > _MOST_NAMES else shown
