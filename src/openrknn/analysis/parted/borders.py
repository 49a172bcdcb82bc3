"""Which part loses accuracy: every value that crosses a border, beside the same value of the ONNX model.

A value is compared twice. `free`: all parts ran, so errors of the parts before it are in it. `alone`: the part was
given the reference's numbers, so only its own error is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from openrknn.analysis.accuracy.reference import Reference
from openrknn.container.bundle import Bundle
from openrknn.distance import EQUAL_DB, measure
from openrknn.errors import ComparisonError
from openrknn.runtime.parted.session import PartedSession

_UNKNOWN = "which part adds most cannot be told: the ONNX model has no values of these names between them"


@dataclass(frozen=True, slots=True)
class Closeness:
    """One value against the reference."""

    cosine: float | None
    snr_db: float
    """200: equal; -200: something overflowed, or there is no signal."""
    max_error: float
    equal: float
    """Share of the elements that are the same."""
    overflowed: int


@dataclass(frozen=True, slots=True)
class Border:
    """One value that a part makes for another one, or for the user."""

    part: int
    kind: str
    value: str
    shape: tuple[int, ...]
    dtype: str
    is_output: bool
    free: Closeness | None
    """None: the ONNX model does not have the value, or in another shape."""
    alone: Closeness | None

    @property
    def is_exact_type(self) -> bool:
        """Whole numbers and truths: shares of equal elements say more than decibels."""
        return np.dtype(self.dtype).kind in "biu"


@dataclass(frozen=True, slots=True)
class PartedComparison:
    """All borders, in the order in which the parts run."""

    model: str
    onnx: str
    engine: str
    device: str
    limit: float
    borders: tuple[Border, ...]

    @property
    def weakest(self) -> Border | None:
        """The one whose part adds the largest error of its own; None where no part changes anything."""
        own = [entry for entry in self.borders if entry.alone is not None and entry.alone.snr_db < EQUAL_DB]
        return min(own, key=lambda entry: entry.alone.snr_db if entry.alone else 0.0, default=None)

    @property
    def bad_outputs(self) -> tuple[Border, ...]:
        """Outputs below the limit, or with overflows, or whose whole numbers differ more than it allows."""
        return tuple(entry for entry in self.borders if entry.is_output and self._is_bad(entry))

    @property
    def is_bad(self) -> bool:
        return bool(self.bad_outputs)

    def _is_bad(self, entry: Border) -> bool:
        if entry.free is None:
            return False
        if entry.is_exact_type:
            return entry.free.equal < self.limit
        # A cosine says nothing where one side is all zeros.
        cosine = entry.free.cosine if entry.free.cosine is not None else float(entry.free.snr_db > 0)
        return bool(entry.free.overflowed) or cosine < self.limit


def compare_parts(
    bundle: Bundle, onnx: str, feed: Mapping[str, Any], *, limit: float = 0.99, device: str = "auto"
) -> PartedComparison:
    """Run both on the same inputs. Those that were made constants are fed to the ONNX model only."""
    reference = Reference.load(onnx)
    lost = [port.name for port in bundle.outputs if port.name not in reference.tensors]
    if lost:
        raise ComparisonError(f"{onnx} has no value {lost[0]!r}, which the model in parts gives: it is another model")
    missing = [name for name in reference.inputs if name not in feed]
    if missing:
        raise ComparisonError(
            f"{onnx} takes {missing[0]!r}, too, which the model in parts has as a constant: give its value as an input"
        )
    with PartedSession(bundle, device) as session:
        feed = {**feed, **session.filled({port.name: feed[port.name] for port in bundle.inputs})}
        ours = session.values({port.name: feed[port.name] for port in bundle.inputs})
        plan = session.plan
        wanted = [name for number in plan.parts for name in _touched(bundle, number)]
        fed = {name: value for name, value in feed.items() if name in reference.inputs}
        known = reference.run(fed, [name for name in dict.fromkeys(wanted) if name in reference.tensors])
        borders = []
        for number in plan.parts:
            alone = _alone(session, number, known, feed)
            borders += _borders(bundle, number, (ours, alone, known))
            if bundle.parts[number].kind == "cpu":
                # Values that the ONNX model does not name (of an If that was opened): ONNX Runtime is the reference.
                known = {**alone, **known}
        where = session.device.name
    return PartedComparison(bundle.path or "", onnx, reference.engine, where, limit, tuple(borders))


def _touched(bundle: Bundle, number: int) -> tuple[str, ...]:
    return (*bundle.parts[number].inputs, *bundle.parts[number].outputs)


def _alone(
    session: PartedSession, number: int, known: Mapping[str, Any], feed: Mapping[str, Any]
) -> dict[str, Any]:  # fmt: skip
    """The part's results on the reference's numbers; empty where the reference does not have all of them."""
    there = {**feed, **known}
    part = session.bundle.parts[number]
    if any(name not in there for name in part.inputs):
        return {}
    try:
        return session.run_part(number, there)
    except ValueError:  # another shape than the part was made for
        return {}


def _borders(
    bundle: Bundle, number: int, values: tuple[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]]
) -> list[Border]:
    ours, alone, known = values
    outputs = {port.name for port in bundle.outputs}
    part, found = bundle.parts[number], []
    for name in part.outputs:
        value = ours.get(name)
        if not isinstance(value, np.ndarray) or value.dtype.kind not in "biuf":
            continue  # texts and sequences
        reference = known.get(name)
        found.append(Border(
            number, part.kind, name, value.shape, value.dtype.name, name in outputs, _closeness(value, reference),
            _closeness(alone.get(name), reference),
        ))  # fmt: skip
    return found


def _closeness(ours: Any, reference: Any) -> Closeness | None:
    if not isinstance(ours, np.ndarray) or not isinstance(reference, np.ndarray) or ours.size != reference.size:
        return None
    found = measure(ours, reference)
    equal = float(np.mean(ours.reshape(-1) == reference.reshape(-1))) if ours.size else 1.0
    return Closeness(found.cosine, found.snr_db, found.largest_error, equal, found.overflowed)


def comparison_json(found: PartedComparison) -> dict[str, Any]:
    """For programs."""
    from openrknn.analysis.reports import as_json

    fields = as_json(found)
    assert isinstance(fields, dict)
    weakest = found.weakest
    return {
        "kind": "parts",
        **fields,
        "weakest_part": None if weakest is None else weakest.part,
        "is_bad": found.is_bad,
    }


def decibels_text(entry: Border, found: Closeness | None) -> str:
    """ "61.2 dB", "equal", for whole numbers the share that is equal; "" where nothing can be compared."""
    if found is None:
        return ""
    if found.equal == 1.0:
        return "equal"
    if entry.is_exact_type:
        return f"{found.equal:.2%} equal"
    return f"{found.overflowed} overflow" if found.overflowed else f"{found.snr_db:.1f} dB"


def verdict(found: PartedComparison) -> str:
    """One line: whether the outputs are good, and which part adds most of the error."""
    bad, weakest = found.bad_outputs, found.weakest
    if weakest is None and not bad:
        free = [entry.free for entry in found.borders if entry.free is not None and entry.is_output]
        if all(one.equal == 1.0 for one in free):
            return "every part computes what the ONNX model does"
        return f"all outputs are within the limit ({min(one.snr_db for one in free):.1f} dB and more); {_UNKNOWN}"
    if weakest is None:
        return f"output {bad[0].value!r} has drifted ({decibels_text(bad[0], bad[0].free)}); {_UNKNOWN}"
    own = f"part {weakest.part} ({weakest.kind.upper()}) adds most: {weakest.value!r} has " + decibels_text(
        weakest, weakest.alone
    )
    if bad:
        worst = bad[0]
        return f"output {worst.value!r} has drifted ({decibels_text(worst, worst.free)}, limit {found.limit:g}); {own}"
    return f"all outputs are within the limit; {own}"
