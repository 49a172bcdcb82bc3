"""What the check of a build has found, for programs, the report and the command line."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from openrknn.distance import EQUAL_DB

LARGE_LOSS = 0.01
"""What int8 may lose of an output's own measure before it is a warning."""


@dataclass(slots=True)
class CheckResult:
    """What was run, on what, and how close it is to the float model."""

    reason: str = "no check was run"
    """Why nothing was checked; empty: it was."""
    data: list[str] = field(default_factory=list)
    """What the file was run on, in words."""
    runs: int = 0
    """Of the whole file."""
    snr_db: float = EQUAL_DB
    """Of the worst output, on calibration data or on inputs of the declared range."""
    output: str = ""
    """The worst output."""
    operators: int = 0
    """Operators that were compared with float, each on the float model's inputs."""
    of_operators: int = 0
    tasks: int = 0
    """Tasks that were run, of all task lists."""
    of_tasks: int = 0
    operator: str = ""
    """The worst operator on its own."""
    operator_db: float = EQUAL_DB
    import_db: float = EQUAL_DB
    """Of the imported model's worst output against the given model, both in float."""
    import_reason: str = ""
    """Why the two were not compared; empty: they were."""
    notes: list[str] = field(default_factory=list)
    """Loss that the number format explains."""
    warnings: list[str] = field(default_factory=list)
    loss: float = 0.0
    """int8: the largest loss of an output on calibration data, as a share (docs/accuracy.md)."""
    losses: list[dict[str, Any]] = field(default_factory=list)
    """int8: what each output loses, by what it means."""
    seconds: float = 0.0

    @property
    def is_checked(self) -> bool:
        return not self.reason

    @property
    def text(self) -> str:
        """In one line."""
        if self.reason:
            return f"not checked against float: {self.reason}"
        return "; ".join([*self.warnings, *([] if self.warnings else [self._right()]), *self.notes, self.extent])

    @property
    def brief(self) -> str:
        """The verdict alone."""
        return self.text if self.reason else self.warnings[0] if self.warnings else self._right()

    def _right(self) -> str:
        found = "equal" if self.snr_db >= EQUAL_DB else f"at least {self.snr_db:.1f} dB"
        return f"matches ONNX in float on {self.data[0] if self.data else 'nothing'}: {found}"

    @property
    def extent(self) -> str:
        """How much was run, and the worst operator."""
        worst = f", the worst is {self.operator} ({self.operator_db:.1f} dB)" if self.operator else ""
        more = f"; also on {', '.join(self.data[1:])}" if self.data[1:] else ""
        alone = f"{self.operators} of {self.of_operators} operators compared one by one{worst}"
        why = self.import_reason
        unseen = f"; the import was not compared with the given model: {why}" if why else ""
        return f"{alone}; {self.tasks} of {self.of_tasks} tasks run{more}{unseen}"

    def as_json(self) -> dict[str, Any]:
        """For reports."""
        return {
            "checked": self.is_checked, "reason": self.reason, "data": self.data, "runs": self.runs,
            "snr_db": self.snr_db, "output": self.output, "operators": self.operators,
            "of_operators": self.of_operators, "tasks": self.tasks, "of_tasks": self.of_tasks,
            "worst_operator": self.operator, "worst_operator_db": self.operator_db,
            "import_db": self.import_db, "import_reason": self.import_reason, "notes": self.notes,
            "warnings": self.warnings, "loss": self.loss, "losses": self.losses,
            "seconds": round(self.seconds, 2), "text": self.text,
            "verdict": self.brief, "extent": self.extent,
        }  # fmt: skip


def skipped() -> CheckResult:
    """The user asked for no check."""
    return CheckResult(reason="--no-check (check=False) was given")
