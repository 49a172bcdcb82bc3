"""What the search for a model that holds a bound has found, for programs, the report and the command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol


class _Output(Protocol):
    """What one output loses."""

    @property
    def text(self) -> str: ...

    def as_json(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Attempt:
    """One recipe, measured."""

    name: str
    loss: float
    """A share: 0.01 is 1 %."""
    snr_db: float
    """Of the worst output."""
    time_ms: float | None
    """Of one run on a board, one core, by estimate; None: no board of this chip has been measured."""

    @property
    def text(self) -> str:
        time = "" if self.time_ms is None else f", about {self.time_ms:.2f} ms"
        return f"{self.name}: loses {self.loss:.2%}, worst output {self.snr_db:.1f} dB{time}"


@dataclass(slots=True)
class AccuracyResult:
    """What was tried, what was chosen, and whether the bound is held."""

    bound: float
    loss: float
    chosen: str
    inputs: int
    """Calibration inputs that it was measured on."""
    attempts: Sequence[Attempt] = ()
    outputs: Sequence[_Output] = ()
    against: str = "float"
    """float: its own answers are right. metric: the user's measure."""
    warning: str = ""

    @property
    def is_held(self) -> bool:
        return self.loss <= self.bound

    @property
    def text(self) -> str:
        """In one line."""
        held = "held" if self.is_held else "NOT held"
        what = "by your metric" if self.against == "metric" else "against float"
        return (
            f"{self.chosen}; loses {self.loss:.2%} {what} on {self.inputs} calibration inputs, the bound of "
            f"{self.bound:.2%} is {held}"
        )

    def as_json(self) -> dict[str, Any]:
        """For reports."""
        return {
            "bound": self.bound, "loss": self.loss, "is_held": self.is_held, "chosen": self.chosen,
            "inputs": self.inputs, "against": self.against, "warning": self.warning, "text": self.text,
            "attempts": [
                {"name": entry.name, "loss": entry.loss, "snr_db": entry.snr_db, "time_ms": entry.time_ms,
                 "text": entry.text} for entry in self.attempts
            ],
            "outputs": [entry.as_json() for entry in self.outputs],
        }  # fmt: skip
