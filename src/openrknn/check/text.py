"""The text of a new golden.toml: what was recorded, with a line on what each part means."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from openrknn.analysis.lint import lint
from openrknn.analysis.reports import Severity
from openrknn.check.budgets import Costs
from openrknn.check.golden import FORMAT, Case
from openrknn.check.subject import Subject
from openrknn.check.tolerance import Tolerance

_ROOM = 1.1
"""Budgets that were recorded have a tenth of room."""
_OPTIONS = ("fit", "order", "layout", "task", "family", "threshold")


def golden_text(
    subject: Subject,
    cases: Sequence[tuple[Case, Tolerance | None, Sequence[str]]],
    costs: Costs,
    fingerprint: str,
    root: Path,
) -> str:
    """`cases`: each with its tolerance, if it is not the usual one, and notes."""
    lines = [
        "# What `openrknn check` expects of this model. Written by --record; change it as you like.",
        f"format = {FORMAT}",
        f"model = {value_text(Path(subject.path).name)}",
        f"chip = {value_text(subject.chip)}" if subject.chip else "",
        "",
        "[tolerance]  # of outputs: exact, absolute, relative, steps, cosine, snr_db, outliers",
        "steps = 1",
    ]
    for case, tolerance, notes in cases:
        lines += ["", *_case(case, tolerance, notes, root)]
    lines += ["", *_integrity(fingerprint), "", *_budget(costs), "", *_lint(subject)]
    return "\n".join(lines) + "\n"


def _case(case: Case, tolerance: Tolerance | None, notes: Sequence[str], root: Path) -> Iterator[str]:
    def inside(path: Path) -> str:
        return value_text(path.relative_to(root).as_posix())

    yield "[[case]]"
    yield f"name = {value_text(case.name)}"
    if set(case.inputs) == {""}:
        yield f"input = {inside(case.inputs[''])}"
    else:
        pairs = ", ".join(f"{key_text(name)} = {inside(path)}" for name, path in case.inputs.items())
        yield f"inputs = {{ {pairs} }}"
    default = Case("", {})
    for key in _OPTIONS:
        if getattr(case, key) != getattr(default, key):
            yield f"{key} = {value_text(getattr(case, key))}"
    for key in ("labels", "reader", "outputs"):
        path = getattr(case, key)
        if path is not None:
            yield f"{key} = {inside(path)}"
    if case.answer is not None and case.answer.file is not None:
        yield f"answer = {inside(case.answer.file)}"
    if tolerance is not None:
        yield f"tolerance = {value_text(_given(tolerance))}" + "".join(f"  # {note}" for note in notes)


def _given(tolerance: Tolerance) -> dict[str, Any]:
    default = Tolerance()
    names = [entry.name for entry in fields(tolerance)]
    return {name: getattr(tolerance, name) for name in names if getattr(tolerance, name) != getattr(default, name)}


def _integrity(fingerprint: str) -> Iterator[str]:
    yield "[integrity]  # what must not change: error, warning or off. Training again changes weights and scales."
    yield f"file = {value_text(fingerprint)}"
    for key in ("weights", "quantization", "operators"):
        yield f'{key} = "error"'
    yield 'commands = "warning"'
    yield 'tensors = "on-failure"  # name the first operator that differs: on-failure, always, off'


def _budget(costs: Costs) -> Iterator[str]:
    yield "[budget]  # a tenth more than it takes now"
    for key in ("bytes", "memory_bytes"):
        yield f"{key} = {math.ceil(getattr(costs, key) * _ROOM)}"
    yield f"macs = {costs.macs}"
    yield f"submits = {costs.submits}"
    yield f"cpu_operators = {costs.cpu_operators}" + _names(costs)
    if costs.ms is not None:
        yield f"ms = {{ {costs.chip} = {_up(costs.ms * _ROOM):g} }}  # of one run, by estimate"


def _names(costs: Costs) -> str:
    shown = ", ".join(f"{place.type} {place.name}".strip() for place in costs.cpu[:4])
    return f"  # {shown}{', ...' if len(costs.cpu) > 4 else ''}" if shown.isprintable() and shown else ""


def _up(value: float) -> float:
    """To three digits, upwards."""
    if value <= 0:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(value)) - 2)
    return float(f"{math.ceil(value / unit) * unit:.3g}")


def _lint(subject: Subject) -> Iterator[str]:
    """As strict as the model is clean; errors that a good model has are ignored by name."""
    found = [item for model in subject.parts.values() for item in lint(model)]
    warned = any(item.severity is Severity.WARNING for item in found)
    yield "[lint]  # see `openrknn lint`"
    yield f'fail_on = "{"error" if warned else "warning"}"'
    for code in sorted({item.code for item in found if item.severity is Severity.ERROR}):
        yield "[[lint.ignore]]"
        yield f"rule = {value_text(code)}"
        yield 'reason = "it was there when the golden was recorded"'


_BARE = re.compile(r"[A-Za-z0-9_-]+$")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_DELETE = 0x7F


def key_text(key: str) -> str:
    """A key, in quotes where it needs them."""
    return key if _BARE.match(key) else value_text(key)


def value_text(value: Any) -> str:
    """A text, number, list or inline table on one line."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return '"' + "".join(_character(letter) for letter in value) + '"'
        case int() | float():
            return f"{value!r}"
        case Mapping():
            return "{ " + ", ".join(f"{key_text(str(key))} = {value_text(item)}" for key, item in value.items()) + " }"
        case list() | tuple():
            return "[" + ", ".join(value_text(item) for item in value) + "]"
        case _:
            raise TypeError(f"TOML has no {type(value).__name__}")


def _character(letter: str) -> str:
    code = ord(letter)
    if letter in _ESCAPES:
        return _ESCAPES[letter]
    return f"\\u{code:04x}" if code < 0x20 or code == _DELETE else letter
