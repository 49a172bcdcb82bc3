"""What changed between a model and the fingerprint of a good one, operator by operator."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from openrknn.analysis.reports import Severity
from openrknn.check.errors import GoldenError
from openrknn.check.fingerprint import Fingerprint, OperatorPrint, from_json
from openrknn.check.golden import Integrity
from openrknn.check.result import Check, Finding, Status
from openrknn.check.tensors import Traces, traces_from_json
from openrknn.quantities import count_of

_LARGEST = 256 << 20
_AGAIN = "accept the change with --update"
_MOST_NAMED = 50
"""Operators that are listed one by one; a rebuilt model differs in all of them."""


def read_fingerprint(path: Path) -> tuple[Fingerprint, Traces]:
    """The file that `--record` writes beside golden.toml."""
    try:
        if path.stat().st_size > _LARGEST:
            raise GoldenError(f"larger than {_LARGEST >> 20} MiB; make it again with --update", path=str(path))
        data = json.loads(path.read_bytes())
        return from_json(data), traces_from_json(data.get("tensors", {}))
    except OSError as error:
        raise GoldenError(
            f"cannot be read ({error.strerror or error}); make it again with --update", path=str(path)
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise GoldenError(f"not a fingerprint ({error}); make it again with --update", path=str(path)) from None


def integrity_checks(now: Fingerprint, then: Fingerprint, rules: Integrity, path: str) -> Iterator[Check]:
    """Operators, weights, quantisation and commands, each as one check."""
    before, after = _by_name(then), _by_name(now)
    pairs = [(before[key], row) for key, row in after.items() if key in before]
    parts: tuple[tuple[str, str, Callable[[], Iterator[Finding]], str], ...] = (
        ("operators", rules.operators, lambda: _operators(then, now, before, after, path),
         count_of(len(now.operators), "operator")),
        ("weights", rules.weights, lambda: _weights(then, now, pairs, path),
         count_of(sum(len(row.weights) for row in now.operators), "tensor")),
        ("quantization", rules.quantization, lambda: _quantization(then, now, pairs, path),
         count_of(sum(len(row.quantization) for row in now.operators), "tensor")),
        ("commands", rules.commands, lambda: _commands(pairs, path),
         count_of(sum(bool(row.commands) for row in now.operators), "operator")),
    )  # fmt: skip
    is_same = True
    for name, weighs, find, counted in parts:
        if weighs == "off":
            continue
        found = _weighed(list(find()), weighs)
        is_same &= not found
        if not found:
            yield Check(name, Status.PASSED, f"{counted}, all as recorded")
            continue
        status = Status.FAILED if weighs == "error" else Status.PASSED
        named = {str(finding.operator) for finding in found if finding.operator}
        text = f"changed in {count_of(len(named), 'operator')}" if named else count_of(len(found), "change")
        yield Check(name, status, text, tuple(found))
    if is_same and then.sha256 and now.sha256 and then.sha256 != now.sha256:
        yield Check("file", Status.PASSED, "not the recorded bytes; they differ in texts or names, in no operator")


def _weighed(found: list[Finding], weighs: str) -> list[Finding]:
    severity = Severity.ERROR if weighs == "error" else Severity.WARNING
    shown = [
        Finding(item.code, severity, item.text, item.operator, file=item.file, do=item.do)
        for item in found[:_MOST_NAMED]
    ]
    if len(found) > _MOST_NAMED:
        rest = f"... and {len(found) - _MOST_NAMED} more: this is another model, or it was rebuilt"
        shown.append(Finding(found[0].code, severity, rest, file=found[0].file, do=_AGAIN))
    return shown


def _by_name(whole: Fingerprint) -> dict[tuple[str, int, str], OperatorPrint]:
    return {(row.part, row.graph, row.name or f"#{row.index} {row.type}"): row for row in whole.operators}


def _operators(
    then: Fingerprint,
    now: Fingerprint,
    before: Mapping[tuple[str, int, str], OperatorPrint],
    after: Mapping[tuple[str, int, str], OperatorPrint],
    path: str,
) -> Iterator[Finding]:
    if then.chip != now.chip:
        text = f"built for {now.chip}; the golden is of {then.chip}"
        yield Finding("chip-changed", Severity.ERROR, text, file=path, do="keep one golden folder for each chip")
    for what in dict.fromkeys((*then.interface, *now.interface)):
        one, other = then.interface.get(what, "missing"), now.interface.get(what, "missing")
        if one != other:
            yield Finding("interface-changed", Severity.ERROR, f"{what} is {other}; it was {one}", file=path, do=_AGAIN)
    for key, row in after.items():
        old = before.get(key)
        if old is None:
            text = f"is new, and runs on the {row.runs_on.upper()}"
            yield Finding("operator-added", Severity.ERROR, text, row.place, file=path, do=_AGAIN)
        elif old.runs_on != row.runs_on:
            text = f"runs on the {row.runs_on.upper()}; it ran on the {old.runs_on.upper()}"
            yield Finding("operator-moved", Severity.ERROR, text, row.place, file=path, do=_AGAIN)
        elif old.type != row.type:
            text = f"is a {row.type}; it was a {old.type}"
            yield Finding("operator-changed", Severity.ERROR, text, row.place, file=path, do=_AGAIN)
    for key, row in before.items():
        if key not in after:
            yield Finding("operator-removed", Severity.ERROR, "is not there any more", row.place, file=path, do=_AGAIN)


def _weights(
    then: Fingerprint, now: Fingerprint, pairs: list[tuple[OperatorPrint, OperatorPrint]], path: str
) -> Iterator[Finding]:
    do = "build the file again from its source, or copy it again: weights do not change by themselves; " + _AGAIN
    for old, row in pairs:
        changed = [name for name, value in row.weights.items() if old.weights.get(name, value) != value]
        missing = [name for name in old.weights if name not in row.weights]
        added = [name for name in row.weights if name not in old.weights]
        parts = [f"{', '.join(map(repr, names))} {what}" for names, what in
                 ((changed, "changed"), (missing, "gone"), (added, "new")) if names]  # fmt: skip
        if parts:
            yield Finding("weights-changed", Severity.ERROR, f"weights {'; '.join(parts)}", row.place, file=path, do=do)
    for name in dict.fromkeys((*then.files, *now.files)):
        if then.files.get(name) != now.files.get(name):
            yield Finding("weights-changed", Severity.ERROR, f"the part {name!r} is another one", file=path, do=do)


def _quantization(
    then: Fingerprint, now: Fingerprint, pairs: list[tuple[OperatorPrint, OperatorPrint]], path: str
) -> Iterator[Finding]:
    do = "calibrate with the same pictures and options as before; " + _AGAIN
    for name, value in now.inputs.items():
        was = then.inputs.get(name, value)
        if was != value:
            text = f"the input {name!r} is {value}; it was {was}{_factor(was, value)}"
            yield Finding("quantization-changed", Severity.ERROR, text, file=path, do=do)
    for old, row in pairs:
        for tensor, value in row.quantization.items():
            was = old.quantization.get(tensor, value)
            if was != value:
                text = f"{tensor!r} is {value}; it was {was}{_factor(was, value)}"
                yield Finding("quantization-changed", Severity.ERROR, text, row.place, file=path, do=do)


def _factor(was: str, value: str) -> str:
    """How much coarser or finer the steps are, which says how bad it is."""
    one, other = (text.partition(" scale ")[2].partition(" ")[0] for text in (was, value))
    try:
        ratio = float(other) / float(one)
    except (ValueError, ZeroDivisionError):
        return ""
    if ratio == 1:
        return ""
    if ratio > 1:
        return f" (steps {ratio:.3g} times as large)"
    return f" (holds {ratio:.3g} of the range: what is beyond saturates)"


def _commands(pairs: list[tuple[OperatorPrint, OperatorPrint]], path: str) -> Iterator[Finding]:
    do = "built with another compiler, other options or other scales? " + _AGAIN
    for old, row in pairs:
        if old.commands != row.commands:
            yield Finding("commands-changed", Severity.WARNING, "its commands changed", row.place, file=path, do=do)
