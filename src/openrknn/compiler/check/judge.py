"""Whether numbers are as close to float as their format allows: limits, and what honest rounding costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from openrknn.compiler.check.boundaries import Boundary
from openrknn.compiler.float_model import FloatModel
from openrknn.compiler.ir import Array
from openrknn.compiler.result import Variant
from openrknn.compiler.rounded import local_model, round_feed, round_value, rounded_model
from openrknn.distance import Distance, measure


class _Limit(NamedTuple):
    decibels: float
    """Of an output; below it is a warning."""
    share: float
    """Largest error, of the largest number."""
    alone: float
    """Decibels of one operator on exact inputs below which its rounding is computed."""


CLOSE = {"fp16": _Limit(30.0, 0.02, 30.0), "int8": _Limit(20.0, 0.25, 15.0), "mixed": _Limit(20.0, 0.25, 15.0)}
"""fp16 has 11 bits (66 dB), lookup tables 8 to 10: 2 % is far beyond both. A tensor of 8 bits whose range is 4 sigma
has 41 dB, weights have about as much; a hundred such roundings one after the other leave 20 dB."""
TINY = 1e-4
"""Errors of this size are accepted: equal numbers can differ by as much. `is_faint` reports what they destroy."""
_SPARE_DB = 12.0
"""Two ways of rounding the same numbers differ by a few decibels."""
_SPARE_ERROR = 4.0


def is_close(distance: Distance, form: str) -> bool:
    """Nothing to explain."""
    limit = CLOSE[form]
    if distance.overflowed:
        return False
    if distance.largest_error <= TINY:
        return True
    return distance.snr_db >= limit.decibels and distance.largest_error <= limit.share * distance.reference_max


def is_faint(distance: Distance, form: str) -> bool:
    """Numbers so small that no error is large, of which little or nothing is left."""
    return distance.reference_max > 0 and distance.snr_db < CLOSE[form].decibels and is_close(distance, form)


def is_honest(found: Distance, rounded: Distance) -> bool:
    """As far from float as rounding alone is."""
    if found.overflowed:
        return bool(rounded.overflowed)
    if rounded.overflowed:
        return True
    error = _SPARE_ERROR * rounded.largest_error + TINY
    return found.snr_db >= rounded.snr_db - _SPARE_DB and found.largest_error <= error


def honest_outputs(
    variant: Variant, feed: dict[str, Array], wanted: dict[str, Array], names: Sequence[str], *, is_int8: bool
) -> dict[str, Distance]:  # fmt: skip
    """What rounding every value and weight of the float model costs these outputs."""
    model = rounded_model(variant, wanted, is_int8=is_int8)
    if model is None:
        return {}
    given = dict(FloatModel(model, list(names)).run(round_feed(feed, variant.graph)))
    return {name: measure(given[name], wanted[name]) for name in names if name in given}


def departing(
    variant: Variant, feed: dict[str, Array], teacher: dict[str, Array], found: Sequence[Boundary], form: str
) -> list[Boundary]:
    """Operators that are further from float on exact inputs than rounding their inputs and weights explains."""
    low = [entry for entry in found if _is_low(entry, form)]
    if not low:
        return []
    honest = _honest_alone(variant, feed, teacher, [entry.value for entry in low], is_int8=form != "fp16")
    return [entry for entry in low if entry.value not in honest or not is_honest(entry.distance, honest[entry.value])]


def _is_low(entry: Boundary, form: str) -> bool:
    distance = entry.distance
    if distance.overflowed:
        return True
    return distance.snr_db < CLOSE[form].alone and distance.largest_error > max(TINY, 2 * entry.step)


def _honest_alone(
    variant: Variant, feed: dict[str, Array], teacher: dict[str, Array], names: Sequence[str], *, is_int8: bool
) -> dict[str, Distance]:  # fmt: skip
    model, locals_of = local_model(variant, teacher, is_int8=is_int8)
    if model is None:
        return {}
    graph = variant.graph
    origin = {name: name if name in locals_of else graph.derived.get(name, ("",))[0] for name in names}
    asked = sorted({locals_of[source] for source in origin.values() if source in locals_of})
    given = dict(FloatModel(model, asked).run(feed))
    found = {}
    for name, source in origin.items():
        if source not in locals_of:
            continue
        values = given[locals_of[source]]
        if source != name:
            values = graph.derived[name][1](values)
        found[name] = measure(round_value(values, graph.values[name]), teacher[name])
    return found


def decibels_text(distance: Distance) -> str:
    """In words."""
    if distance.overflowed:
        return f"{distance.overflowed} numbers that are infinite or NaN"
    return f"{distance.snr_db:.1f} dB"
