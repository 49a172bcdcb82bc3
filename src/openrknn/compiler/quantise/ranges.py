"""From what was seen of a value to the range that int8 should cover."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from openrknn.compiler.forms import Conv
from openrknn.compiler.ir import Array, Graph, Op, Quantization
from openrknn.compiler.quantise.statistics import Statistics

Range = tuple[float, float]

_PERCENTILE = 99.99
_FACTORS = np.geomspace(0.1, 1.0, 60)
_BINS = 2048
_LEVELS = 256


SMALLEST_STEP = 2.0**-22
"""A range that ends at fp16's smallest normal number. Finer steps are beyond the NPU: a lookup table's unit times
2**15, and fp16 multipliers from fp16 to int8. Values that are so small (of untrained weights) are about 0."""


def quantization_for(low: float, high: float) -> Quantization:
    """Asymmetric int8 that has 0 exactly: scale = (high - low) / 255, the zero point represents 0."""
    low, high = min(low, 0.0), max(high, 0.0)
    step = (high - low or 1.0) / 255  # what is always 0 in calibration may be a probability in use
    step = max(step, SMALLEST_STEP)
    return Quantization(float(np.float32(step)), int(np.clip(round(-128 - low / step), -128, 127)))


def _minmax(seen: Statistics, importance: Array | None = None) -> Range:
    return seen.low, seen.high


def _percentile(seen: Statistics, importance: Array | None = None) -> Range:
    values = seen.sample
    return float(np.percentile(values, 100 - _PERCENTILE)), float(np.percentile(values, _PERCENTILE))


def _mse(seen: Statistics, importance: Array | None = None) -> Range:
    """The fraction of the full range with the smallest squared error, rounding and clipping together."""
    counts, centres = _histogram(seen, importance)
    best, chosen = np.inf, (seen.low, seen.high)
    for factor in _FACTORS[::-1]:
        low, high = seen.low * factor, seen.high * factor
        made = quantization_for(low, high)
        beyond = np.maximum(np.maximum(made.low - centres, centres - made.high), 0)
        error = float(np.sum(counts * np.where(beyond > 0, beyond**2, made.scale**2 / 12)))
        if error < best * 0.999:
            best, chosen = error, (low, high)
    return chosen


def _histogram(seen: Statistics, importance: Array | None) -> tuple[Array, Array]:
    """How often which numbers occur, each as much as its channel matters."""
    parts = [*seen.samples, *seen.extremes]
    weights = [np.full(len(part.values), part.each) for part in parts]
    if importance is not None and len(importance) > max(int(part.channels.max()) for part in parts):
        weights = [weight * importance[part.channels] for weight, part in zip(weights, parts, strict=True)]
    bounds = min(seen.low, 0.0), max(seen.high, 0.0)
    counts, edges = np.histogram(
        np.concatenate([part.values for part in parts]), bins=_BINS, range=bounds, weights=np.concatenate(weights)
    )
    return counts, (edges[1:] + edges[:-1]) / 2


def _entropy(seen: Statistics, importance: Array | None = None) -> Range:
    """The clipped histogram that is closest to the true one once it is quantized (Kullback-Leibler)."""
    values = np.abs(seen.sample)
    limit = max(abs(seen.low), abs(seen.high))
    if not limit:
        return seen.low, seen.high
    counts, _ = np.histogram(values, bins=_BINS, range=(0.0, limit))
    best, kept = np.inf, _BINS
    levels = _LEVELS // 2
    for stop in range(levels, _BINS + 1, 16):
        divergence = _divergence(counts, stop, levels)
        if divergence < best:
            best, kept = divergence, stop
    reach = limit * kept / _BINS
    return max(seen.low, -reach), min(seen.high, reach)


def _divergence(counts: Array, stop: int, levels: int) -> float:
    clipped = counts[:stop].astype(np.float64)
    clipped[-1] += counts[stop:].sum()
    groups = np.minimum(np.arange(stop) * levels // stop, levels - 1)
    filled = counts[:stop] > 0
    mass = np.bincount(groups, weights=counts[:stop], minlength=levels)
    members = np.bincount(groups, weights=filled, minlength=levels)
    spread = np.where(filled, mass[groups] / np.maximum(members[groups], 1), 0)
    p, q = clipped / clipped.sum(), spread / max(spread.sum(), 1)
    valid = p > 0
    return float(np.sum(p[valid] * np.log(p[valid] / np.maximum(q[valid], 1e-12))))


def squared_error(values: Array, quantization: Quantization) -> float:
    """Mean squared error of rounding to int8 and back."""
    stored = np.clip(np.rint(values / quantization.scale) + quantization.zero_point, -128, 127)
    return float(np.mean(((stored - quantization.zero_point) * quantization.scale - values) ** 2))


METHODS: Mapping[str, Callable[[Statistics, Array | None], Range]] = MappingProxyType(
    {"minmax": _minmax, "percentile": _percentile, "mse": _mse, "entropy": _entropy}
)


def importance(graph: Graph) -> dict[str, Array]:
    """Value -> one number per channel, 1 on average; only where every reader is a convolution."""
    found: dict[str, Array] = {}
    for name, readers in graph.readers().items():
        shares = [_share(graph, op, name) for op in readers]
        known = [share for share in shares if share is not None]
        if not known or len(known) < len(shares) or name in graph.outputs:
            continue
        total = np.sum(known, axis=0)
        if total.max() > 0:
            found[name] = total / total.mean()
    return found


def _share(graph: Graph, op: Op, name: str) -> Array | None:
    """The squares of the weights that each channel meets."""
    if op.type != "Conv" or op.inputs[0] != name or name in op.inputs[1:]:
        return None
    weights = graph.constants[op.inputs[1]].astype(np.float64)
    group = op.get(Conv).group
    if group == 1:
        result: Array = (weights**2).sum((0, 2, 3))
        return result
    if weights.shape[1] == 1 and group == len(weights):
        result = (weights**2).sum((1, 2, 3))
        return result
    return None
