"""How far outputs may be from what is expected, and how far they are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from openrknn.check.fields import Fields
from openrknn.container.model import TensorSpec
from openrknn.distance import Distance, in_bits, measure
from openrknn.quantities import count_of, shape_text

Array: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Everything that is given has to hold.

    `absolute` and `relative` together are one limit, as in `numpy.allclose`: absolute + relative * |expected|.
    """

    exact: bool = False
    absolute: float | None = None
    relative: float | None = None
    steps: float | None = None
    """Of the quantisation; for float outputs, of the last bit of their type."""
    cosine: float | None = None
    """At least."""
    snr_db: float | None = None
    """At least."""
    outliers: float = 0.0
    """The share of elements that may be beyond `absolute`, `relative` and `steps`."""


def read_tolerance(row: Fields | None, default: Tolerance) -> Tolerance:
    """A table of limits; the ones above count only where a table gives none of its own."""
    if row is None:
        return default
    found = Tolerance(
        exact=row.flag("exact"),
        absolute=row.number("absolute"),
        relative=row.number("relative"),
        steps=row.number("steps"),
        cosine=row.number("cosine", most=1),
        snr_db=row.number("snr_db"),
        outliers=row.number("outliers", 0.0, most=1) or 0.0,
    )
    row.finish()
    return replace(default, outliers=found.outliers) if found == Tolerance(outliers=found.outliers) else found


@dataclass(frozen=True, slots=True)
class Measured:
    """An output beside what is expected."""

    distance: Distance
    steps: int
    """The largest difference."""
    differing: int
    """Elements that are not the same."""

    def as_json(self) -> dict[str, Any]:
        return {
            "elements": self.distance.elements,
            "differing": self.differing,
            "largest_error": self.distance.largest_error,
            "relative_error": self.distance.relative_error,
            "steps": self.steps,
            "cosine": self.distance.cosine,
            "snr_db": self.distance.snr_db,
            "overflowed": self.distance.overflowed,
        }


def measured(values: Array, expected: Array, spec: TensorSpec | None) -> Measured:
    """Both as real numbers, of the same size."""
    steps = np.abs(_steps(values, expected, spec))
    same = (values.reshape(-1) == expected.reshape(-1)) | (np.isnan(values) & np.isnan(expected)).reshape(-1)
    return Measured(measure(values, expected), int(steps.max(initial=0)), int(values.size - np.count_nonzero(same)))


def judge(values: Array, expected: Array, limit: Tolerance, spec: TensorSpec | None = None) -> tuple[list[str], str]:
    """What is wrong, one text each, and what was measured in one line."""
    if values.size != expected.size or _squeezed(values) != _squeezed(expected):
        text = f"the shape is {shape_text(values.shape)}; {shape_text(expected.shape)} is expected"
        return [text], text
    values, expected = values.astype(np.float64).reshape(-1), expected.astype(np.float64).reshape(-1)
    found = measured(values, expected, spec)
    wrong: list[str] = []
    if limit.exact and found.differing:
        wrong.append(f"{count_of(found.differing, 'element')} of {values.size} differ; they should be equal")
    if limit.absolute is not None or limit.relative is not None:
        allowed = (limit.absolute or 0.0) + (limit.relative or 0.0) * np.abs(expected)
        with np.errstate(invalid="ignore"):
            over = ~(np.abs(values - expected) <= allowed) & ~((values == expected) | np.isnan(expected))
        wrong += _over(over, limit.outliers, f"off by up to {found.distance.largest_error:.4g}", _limits(limit))
    if limit.steps is not None:
        over = np.abs(_steps(values, expected, spec)) > limit.steps
        off = f"off by up to {count_of(found.steps, 'step')}"
        wrong += _over(over, limit.outliers, off, f"{limit.steps:g} allowed")
    cosine = found.distance.cosine
    if limit.cosine is not None and (cosine is None or cosine < limit.cosine) and found.differing:
        wrong.append(f"the cosine is {'undefined' if cosine is None else f'{cosine:.6f}'}; {limit.cosine:g} is allowed")
    if limit.snr_db is not None and found.distance.snr_db < limit.snr_db:
        wrong.append(f"signal to noise is {found.distance.snr_db:.1f} dB; {limit.snr_db:g} dB is allowed")
    if found.distance.overflowed:
        wrong.append(f"{count_of(found.distance.overflowed, 'element')} infinite or not a number")
    return wrong, _in_words(found)


def _over(over: Array, outliers: float, what: str, limits: str) -> list[str]:
    count = int(np.count_nonzero(over))
    if count <= outliers * over.size:
        return []
    share = f", and {100 * outliers:g} % may be beyond" if outliers else ""
    return [f"{count} of {over.size} elements {what}; {limits}{share}"]


def _limits(limit: Tolerance) -> str:
    parts = [f"{limit.absolute:g}"] if limit.absolute is not None else []
    parts += [f"{limit.relative:g} of the value"] if limit.relative is not None else []
    return f"{' + '.join(parts)} allowed"


def _in_words(found: Measured) -> str:
    if not found.differing:
        return "the same"
    cosine = "" if found.distance.cosine is None else f", cosine {found.distance.cosine:.6f}"
    steps = f"{count_of(found.steps, 'step')}, " if found.steps < 1 << 20 else ""
    return f"at most {steps}{found.distance.largest_error:.3g}; {found.distance.snr_db:.1f} dB{cosine}"


def _squeezed(values: Array) -> tuple[int, ...]:
    """A file written by hand may leave out dimensions of 1."""
    return tuple(size for size in values.shape if size != 1)


def _steps(values: Array, expected: Array, spec: TensorSpec | None) -> npt.NDArray[np.int64]:
    """In steps of the output's own type."""
    scale = _scale(spec)
    if scale > 0:
        with np.errstate(invalid="ignore", over="ignore"):
            ours, theirs = (np.nan_to_num(np.rint(side.reshape(-1) / scale)) for side in (values, expected))
        whole: npt.NDArray[np.int64] = np.clip(ours - theirs, -(2**53), 2**53).astype(np.int64)
        return whole
    kind = np.float16 if spec is not None and spec.dtype == "float16" else np.float32
    with np.errstate(over="ignore"):
        return in_bits(values.astype(kind).reshape(-1), expected.astype(kind).reshape(-1))


def _scale(spec: TensorSpec | None) -> float:
    """0 for floats, whose steps grow with the value."""
    if spec is None or spec.dtype.startswith(("float", "bfloat")):
        return 0.0
    return spec.quantization.scale[0] if spec.quantization is not None else 1.0
