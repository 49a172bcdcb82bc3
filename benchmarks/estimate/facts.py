"""The published figures, and which of them the constants are fitted to."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.estimate.features import Features, read
from benchmarks.estimate.fit import Case, Fitted, leave_one_out
from openrknn.cost import BOARDS

__all__ = ["CHIPS", "HERE", "ZOO", "Fact", "Known", "known"]

HERE = Path(__file__).parent
CHIPS = ("rk3588", "rk3566", "rk3562", "rk3576")
"""With figures of whole networks."""
ZOO = "airockchip/rknn_model_zoo"
"""One laboratory, all chips at their highest clock, inference only: the constants are fitted to these."""
_TO_MS = {"ms": 1.0, "us": 1e-3}


class Fact(NamedTuple):
    """One published figure."""

    network: str
    input: str
    precision: str
    chip: str
    cores: int
    ms: float
    source: str

    @property
    def name(self) -> str:
        """As networks are called in features.csv."""
        return self.network if self.precision == "int8" else f"{self.network} {self.precision}"


class Known(NamedTuple):
    """All of it."""

    facts: Sequence[Fact]
    features: Mapping[tuple[str, str], Features]
    fits: Mapping[str, Fitted]

    def fitted(self, fact: Fact) -> bool:
        """Whether the figure is one of those that the constants are fitted to."""
        found = self.features.get((fact.name, fact.chip))
        return found is not None and _counts(fact, found)


def known() -> Known:
    """Read the files and fit."""
    facts = list(_read(HERE / "facts.csv"))
    features = {(entry.network, entry.chip): entry for entry in read(HERE / "features.csv")}
    return Known(facts, features, {chip: _fit(chip, facts, features) for chip in CHIPS})


def _read(path: Path) -> Iterable[Fact]:
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            value = float(row["value"])
            ms = 1e3 / value if row["unit"] == "FPS" else value * _TO_MS[row["unit"]]
            yield Fact(row["network"], row["input"], row["precision"], row["chip"].lower(), int(row["cores"]), ms,
                       row["source"])  # fmt: skip


def _fit(chip: str, facts: Sequence[Fact], features: Mapping[tuple[str, str], Features]) -> Fitted:
    cases = []
    for fact in facts:
        found = features.get((fact.name, chip))
        if fact.chip == chip and found is not None and _counts(fact, found):
            cases.append(Case(found, fact.ms))
    return leave_one_out(cases, BOARDS[chip])


def _counts(fact: Fact, features: Features) -> bool:
    """One source, int8, and all of it on the NPU: what the CPU takes is not in the model."""
    return fact.source.startswith(ZOO) and fact.precision == "int8" and not features.cpu_operators
