"""What a check found: values that the command, the pytest plugin and the reports share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from openrknn.analysis.lint_codes import CODES, FILE_CODES
from openrknn.analysis.reports import Severity
from openrknn.backports import StrEnum

EXIT_FOUND = 1
EXIT_CANNOT = 2


class Status(StrEnum):
    """How one check ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    ERROR = "error"
    """It could not be done."""


@dataclass(frozen=True, slots=True)
class OperatorPlace:
    """An operator of a model."""

    index: int
    type: str
    name: str
    part: str = ""
    """The model in it, where a file or a folder holds several."""
    graph: int = 0

    def __str__(self) -> str:
        """ "#12 ConvRelu 'stem_conv'"."""
        part = f"{self.part}, " if self.part else ""
        graph = f"graph {self.graph}, " if self.graph else ""
        return f"{part}{graph}#{self.index} {self.type}" + (f" {self.name!r}" if self.name else "")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be."""

    code: str
    """Stable name: "weights-changed"; see `openrknn.check.result`."""
    severity: Severity
    text: str
    operator: OperatorPlace | None = None
    case: str = ""
    file: str = ""
    """The file that a reader should open: the model, or golden.toml."""
    line: int = 0
    do: str = ""
    """What to do about it."""

    def __str__(self) -> str:
        return f"{self.operator}: {self.text}" if self.operator else self.text


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the result."""

    name: str
    """ "outputs of cat", "weights", "budget ms"."""
    status: Status
    text: str
    """What was measured, in one line."""
    findings: tuple[Finding, ...] = ()
    seconds: float = 0.0
    numbers: Mapping[str, Any] = field(default_factory=dict)
    """What was measured, for programs."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One model against one golden folder."""

    model: str
    golden: str
    checks: tuple[Check, ...]
    chip: str = ""
    device: str = ""
    seconds: float = 0.0
    notes: tuple[str, ...] = ()

    def count(self, status: Status) -> int:
        """How many checks ended so."""
        return sum(check.status is status for check in self.checks)

    @property
    def passed(self) -> bool:
        return not self.count(Status.FAILED) and not self.count(Status.ERROR)

    @property
    def findings(self) -> Iterator[Finding]:
        return (finding for check in self.checks for finding in check.findings)

    def as_json(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "model": self.model,
            "golden": self.golden,
            "chip": self.chip,
            "device": self.device,
            "passed": self.passed,
            "seconds": round(self.seconds, 3),
            "notes": list(self.notes),
            "checks": [_plain(check) for check in self.checks],
        }


def _plain(check: Check) -> dict[str, Any]:
    row = asdict(check)
    row["status"] = str(check.status)
    row["seconds"] = round(check.seconds, 3)
    for entry, finding in zip(row["findings"], check.findings, strict=True):
        entry["severity"] = str(finding.severity)
    return row


def exit_code(outcomes: tuple[Outcome, ...] | list[Outcome]) -> int:
    """0: as it should be; 1: differences; 2: something could not be checked."""
    if any(outcome.count(Status.ERROR) for outcome in outcomes):
        return EXIT_CANNOT
    return EXIT_FOUND if any(outcome.count(Status.FAILED) for outcome in outcomes) else 0


LINT = "lint/"
"""In front of the codes of `openrknn lint`."""
HELP_URI = "https://openrknn.github.io/openrknn/ci.html"

RULES = {
    "output-differs": "An output is further from what is expected than the tolerance allows.",
    "answer-differs": "The answer (classes, boxes, areas, text, transcript) is not the expected one.",
    "first-difference": "The first operator whose result is not the recorded one.",
    "saturated": "Many elements of a tensor are at the end of their range, and were not when the golden was made.",
    "weights-changed": "The weights of an operator are not the recorded ones, bit for bit.",
    "quantization-changed": "A tensor has another type, scale or zero point than recorded.",
    "commands-changed": "The commands of an operator are not the recorded ones.",
    "operator-added": "An operator is there that was not recorded.",
    "operator-removed": "A recorded operator is not there any more.",
    "operator-moved": "An operator runs somewhere else than recorded: on the CPU, or on the NPU.",
    "operator-changed": "An operator has another type than recorded.",
    "interface-changed": "An input or output has another name, type or shape than recorded.",
    "chip-changed": "The model is built for another chip.",
    "cpu-operators-grew": "More operators run on the CPU than the budget allows.",
    "over-budget": "The model costs more than its budget.",
    "cannot-check": "The model, the golden folder or a case could not be read or run.",
}
"""Code -> what it means."""


def title_of(code: str) -> str:
    """One sentence for any code."""
    if code.startswith(LINT):
        name = code.removeprefix(LINT)
        return FILE_CODES.get(name) or (f"A finding of `openrknn lint`: {name}." if name in CODES else code)
    return RULES.get(code, code)
