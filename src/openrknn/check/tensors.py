"""Results between the operators: a short record of each, so that the first operator that differs can be named.

Integers have to be the same, bit for bit: the software NPU computes the same on every machine. Floats of the CPU's
operators may differ in their last bits from processor to processor, so they are compared by a few numbers instead.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from openrknn.analysis.accuracy.windows import windows_in
from openrknn.check.fingerprint import digest, place_of
from openrknn.check.result import OperatorPlace
from openrknn.container.model import Model
from openrknn.errors import ExecutionError, RknnError
from openrknn.runtime.inspector import Captured, Inspector

Array: TypeAlias = npt.NDArray[Any]

_SAMPLES = 8
_FLOAT_LIMIT = 1e-3
"""How far floats may be off, as a share of their root mean square."""
_SATURATION = 0.05
"""A share of elements at the end of the range that is so much larger than recorded is worth saying."""


@dataclass(frozen=True, slots=True)
class Trace:
    """One tensor of one case."""

    hash: str
    rms: float
    """Of the real numbers."""
    low: float
    """Share of elements that have the smallest number of an integer type."""
    high: float
    samples: tuple[float, ...]

    def as_json(self) -> list[Any]:
        return [self.hash, self.rms, self.low, self.high, list(self.samples)]


Traces: TypeAlias = dict[str, dict[str, Trace]]
"""Case -> tensor -> its record."""


@dataclass(frozen=True, slots=True)
class Changed:
    """A tensor that is not as recorded."""

    operator: OperatorPlace | None
    """None: the input itself."""
    tensor: str
    text: str
    saturated: bool


def traces_from_json(data: Any) -> Traces:
    """What a fingerprint file has of them."""
    cases = {str(case): dict(rows) for case, rows in dict(data).items()}
    return {case: {str(name): _trace(*entry) for name, entry in rows.items()} for case, rows in cases.items()}


def _trace(value: str, rms: float, low: float, high: float, samples: list[float]) -> Trace:
    return Trace(str(value), float(rms), float(low), float(high), tuple(float(entry) for entry in samples))


def trace(model: Model, arrays: Mapping[str, Array], layout: str | None) -> dict[str, Trace]:
    """Tensor -> its record, on the software NPU; empty for models that cannot be run operator by operator."""
    try:
        with _inspector(model) as inspector:
            inspector.feed(arrays, layout)
            return {item.tensor.name: _record(item) for item in inspector.captured()}
    except (ExecutionError, RknnError, ValueError):
        return {}


def compare_traces(
    model: Model, arrays: Mapping[str, Array], layout: str | None, then: Mapping[str, Trace]
) -> Iterator[Changed]:
    """Inputs that differ, and the first operator that does, in the order in which they run."""
    with _inspector(model) as inspector:
        inspector.feed(arrays, layout)
        for item in inspector.captured():
            before = then.get(item.tensor.name)
            if before is None:
                continue
            now = _record(item)
            if _differs(now, before, is_float=item.stored.dtype.kind not in "iu"):
                text, saturated = _words(now, before)
                if item.operator is not None:
                    yield Changed(place_of(item.operator), item.tensor.name, text, saturated)
                    return
                yield Changed(None, item.tensor.name, text, saturated)


def _inspector(model: Model) -> Inspector:
    return Inspector(model, f"software:{model.chip.name}", windows=windows_in(model))


def _record(item: Captured) -> Trace:
    stored = np.ascontiguousarray(item.stored)
    flat = stored.reshape(-1)
    low = high = 0.0
    if stored.dtype.kind in "iu" and flat.size:
        limits = np.iinfo(stored.dtype)
        low, high = float((flat == limits.min).mean()), float((flat == limits.max).mean())
    real = item.real.reshape(-1).astype(np.float64)
    finite = real[np.isfinite(real)]
    rms = float(np.sqrt(np.mean(finite**2))) if finite.size else 0.0
    at = np.linspace(0, max(real.size - 1, 0), min(_SAMPLES, real.size)).astype(np.int64)
    samples = tuple(_short(value) for value in np.nan_to_num(real[at]).tolist())
    return Trace(digest(stored.tobytes()), _short(rms), _short(low), _short(high), samples)


def _short(value: float) -> float:
    return float(f"{value:.6g}")


def _differs(now: Trace, before: Trace, *, is_float: bool) -> bool:
    if now.hash == before.hash:
        return False
    if not is_float or len(now.samples) != len(before.samples):
        return True
    limit = _FLOAT_LIMIT * max(before.rms, 1e-12)
    pairs = zip((now.rms, *now.samples), (before.rms, *before.samples), strict=True)
    return any(not math.isclose(one, other, rel_tol=_FLOAT_LIMIT, abs_tol=limit) for one, other in pairs)


def _words(now: Trace, before: Trace) -> tuple[str, bool]:
    parts = []
    for name, one, other in (("smallest", now.low, before.low), ("largest", now.high, before.high)):
        if one > other + _SATURATION:
            parts.append(f"{100 * one:.0f} % of it have the {name} number of the type, {100 * other:.0f} % had it")
    if parts:
        return f"and saturates: {'; '.join(parts)}", True
    return f"(root mean square {now.rms:.4g}, it was {before.rms:.4g})", False
