"""The golden folder: `golden.toml`, its inputs and what is expected of them. `docs/ci.md` has every key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openrknn.analysis.lint_codes import CODES
from openrknn.check.answer import Answer, read_answer
from openrknn.check.errors import GoldenError
from openrknn.check.fields import Fields, inside, near, read_toml
from openrknn.check.tolerance import Tolerance, read_tolerance
from openrknn.chips import CHIPS, find_chip

FILE = "golden.toml"
FORMAT = 1
AMOUNTS = ("bytes", "weight_bytes", "internal_bytes", "memory_bytes", "cpu_operators", "submits", "tasks", "macs")
"""Budgets that are whole numbers."""
_MOST_CASES = 10_000
_WEIGHS = ("error", "warning", "off")


@dataclass(frozen=True, slots=True)
class Case:
    """One input and what has to come of it."""

    name: str
    inputs: Mapping[str, Path]
    """Name of the input (or "" for the only one, and for a .npz with all) -> file."""
    outputs: Path | None = None
    """A .npz by the names of the outputs, or a .npy of the only one."""
    answer: Answer | None = None
    tolerance: Tolerance = field(default_factory=Tolerance)
    tolerances: Mapping[str, Tolerance] = field(default_factory=dict)
    """For single outputs."""
    fit: str = "auto"
    order: str = "auto"
    layout: str | None = None
    task: str | None = None
    family: str | None = None
    threshold: float | None = None
    labels: Path | None = None
    reader: Path | None = None
    """OCR: the model that reads the lines which the checked one finds."""
    line: int = 0


@dataclass(frozen=True, slots=True)
class Budget:
    """What a model may cost; None and empty: anything."""

    ms: Mapping[str, float] = field(default_factory=dict)
    """Chip -> milliseconds of one run by estimate."""
    band: str = "estimate"
    """Which number of the estimate counts: low, estimate or high."""
    bytes: int | None = None
    weight_bytes: int | None = None
    internal_bytes: int | None = None
    memory_bytes: int | None = None
    cpu_operators: int | None = None
    cpu_allowed: tuple[str, ...] | None = None
    """Names or types of the operators that may run on the CPU."""
    submits: int | None = None
    tasks: int | None = None
    macs: int | None = None
    lines: Mapping[str, int] = field(default_factory=dict)
    """Key -> line of golden.toml."""


@dataclass(frozen=True, slots=True)
class LintRules:
    """Which findings of `openrknn lint` fail the check."""

    fail_on: str = "error"
    ignored: Mapping[str, str] = field(default_factory=dict)
    """Code -> why."""


@dataclass(frozen=True, slots=True)
class Integrity:
    """What must not have changed since the golden was recorded, and how much it weighs."""

    file: Path | None = None
    weights: str = "error"
    quantization: str = "error"
    operators: str = "error"
    commands: str = "warning"
    tensors: str = "on-failure"
    """When results between the operators are compared: on-failure, always or off."""


@dataclass(frozen=True, slots=True)
class Golden:
    """What is known of a good model."""

    folder: Path
    cases: tuple[Case, ...] = ()
    model: str = ""
    """The name of the model's file, where several goldens lie side by side."""
    chip: str = ""
    budget: Budget = field(default_factory=Budget)
    lint: LintRules | None = None
    integrity: Integrity = field(default_factory=Integrity)

    @property
    def path(self) -> str:
        return str(self.folder / FILE)


def load_golden(folder: str | Path) -> Golden:
    """Read `golden.toml` of a folder; the files that it names are read when they are needed."""
    root = Path(folder)
    if root.name == FILE:
        root = root.parent
    path = root / FILE
    if not path.is_file():
        raise GoldenError(
            f"there is no {FILE} in it; make one from a model that is good: openrknn check MODEL --record {root}",
            path=str(root),
        )
    data, text = read_toml(path)
    fields = Fields(data, str(path), text)
    number = fields.whole("format", FORMAT)
    if number != FORMAT:
        raise fields.wrong("format", f"format {number} is not known, only {FORMAT}; a newer openrknn may know it")
    top = read_tolerance(fields.table("tolerance"), Tolerance(steps=1))
    golden = Golden(
        folder=root,
        model=fields.text("model"),
        chip=_chip(fields, fields.text("chip"), "chip"),
        cases=_cases(fields, root, top),
        budget=_budget(fields.table("budget")),
        lint=_lint(fields.table("lint")),
        integrity=_integrity(fields.table("integrity"), root),
    )
    fields.finish()
    return golden


def _chip(fields: Fields, name: str, key: str) -> str:
    chip = find_chip(name)
    if name and chip is None:
        raise fields.wrong(key, f"there is no chip {name!r:.40}{near(name, CHIPS)}")
    return "" if chip is None else chip.name


def _cases(fields: Fields, root: Path, top: Tolerance) -> tuple[Case, ...]:
    rows = fields.tables("case")
    if len(rows) > _MOST_CASES:
        raise fields.wrong("case", f"{len(rows)} cases; {_MOST_CASES} are allowed")
    cases: list[Case] = []
    for number, row in enumerate(rows):
        case = _case(row, root, top, f"case {number + 1}")
        if any(case.name == other.name for other in cases):
            raise row.wrong("name", f"two cases are called {case.name!r:.60}")
        cases.append(case)
    return tuple(cases)


def _case(row: Fields, root: Path, top: Tolerance, default: str) -> Case:
    name = row.text("name", default)
    if "/" in name or "\\" in name or not name.isprintable():
        raise row.wrong("name", f"name = {name!r:.60} cannot be a name: no slashes and no control characters")

    def file(key: str) -> Path | None:
        word = row.text(key)
        return inside(root, word, str(root / FILE), row.line(key)) if word else None

    outputs = row.table("tolerances")
    names = list(outputs._data) if outputs else []
    tolerance = read_tolerance(row.table("tolerance"), top)
    case = Case(
        name=name,
        inputs=_inputs(row, root),
        outputs=file("outputs"),
        answer=_answer(row, root),
        tolerance=tolerance,
        tolerances={word: read_tolerance(outputs.table(word), tolerance) for word in names} if outputs else {},
        fit=row.text("fit", "auto", choices=("auto", "letterbox", "crop", "stretch", "line")),
        order=row.text("order", "auto", choices=("auto", "rgb", "bgr")),
        layout=row.text("layout", choices=("nhwc", "nchw")) or None,
        task=row.text("task", choices=("classify", "detect", "segment", "pose", "ocr", "transcribe")) or None,
        family=row.text("family") or None,
        threshold=row.number("threshold", most=1),
        labels=file("labels"),
        reader=file("reader"),
        line=row.line("name"),
    )
    if not case.inputs:
        raise row.wrong("name", f"case {name!r:.60} has no input; write input = \"picture.jpg\" or inputs = {{...}}")
    if case.outputs is None and case.answer is None:
        raise row.wrong("name", f"case {name!r:.60} expects nothing; write outputs = \"expected.npz\" or an answer")
    row.finish()
    return case


def _inputs(row: Fields, root: Path) -> Mapping[str, Path]:
    path = str(root / FILE)
    single = row.text("input")
    several = row.take("inputs")
    found = {"": inside(root, single, path, row.line("input"))} if single else {}
    if several is None:
        return found
    if single:
        raise row.wrong("inputs", "input and inputs are both given; one is enough")
    if not isinstance(several, dict) or not all(isinstance(word, str) for word in several.values()):
        raise row.wrong("inputs", "inputs should be a table: inputs = { images = \"picture.jpg\" }")
    return {name: inside(root, word, path, row.line("inputs")) for name, word in several.items()}


def _answer(row: Fields, root: Path) -> Answer | None:
    value: Any = row.take("answer")
    if value is None:
        return None
    return read_answer(value, row, root, str(root / FILE))


def _budget(row: Fields | None) -> Budget:
    if row is None:
        return Budget()
    times = row.numbers("ms") or {}
    for name in times:
        _chip(row, name, name)
    found = {key: row.whole(key) for key in AMOUNTS}
    budget = Budget(
        ms=times,
        band=row.text("band", "estimate", choices=("low", "estimate", "high")),
        cpu_allowed=row.texts("cpu_allowed"),
        lines={key: row.line(key) for key in (*AMOUNTS, "ms", "cpu_allowed") if row.has(key)},
        **found,
    )
    row.finish()
    return budget


def _lint(row: Fields | None) -> LintRules | None:
    if row is None:
        return None
    ignored: dict[str, str] = {}
    for entry in row.tables("ignore"):
        code, reason = entry.text("rule"), entry.text("reason")
        if code not in CODES:
            raise entry.wrong("rule", f"there is no rule {code!r:.60}{near(code, CODES)}")
        if not reason.strip():
            raise entry.wrong("rule", f"say why {code!r} is ignored: reason = \"...\"")
        entry.finish()
        ignored[code] = reason
    rules = LintRules(row.text("fail_on", "error", choices=("error", "warning", "note", "never")), ignored)
    row.finish()
    return rules


def _integrity(row: Fields | None, root: Path) -> Integrity:
    if row is None:
        return Integrity()
    word = row.text("file")
    found = Integrity(
        file=inside(root, word, str(root / FILE), row.line("file")) if word else None,
        weights=row.text("weights", "error", choices=_WEIGHS),
        quantization=row.text("quantization", "error", choices=_WEIGHS),
        operators=row.text("operators", "error", choices=_WEIGHS),
        commands=row.text("commands", "warning", choices=_WEIGHS),
        tensors=row.text("tensors", "on-failure", choices=("on-failure", "always", "off")),
    )
    row.finish()
    return found
