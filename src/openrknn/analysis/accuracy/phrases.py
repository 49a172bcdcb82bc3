"""A comparison in words: the same sentences in the terminal and on the page."""

from __future__ import annotations

from collections.abc import Sequence

from openrknn.analysis.accuracy.measure import Layer
from openrknn.analysis.accuracy.result import Comparison, first_drift, losses
from openrknn.quantities import count_of

__all__ = ["describe", "head", "remarks", "verdict"]

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
