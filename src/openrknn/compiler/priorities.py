"""What to change first: the operators that lose most of the signal, and those that take most of the time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from openrknn.compiler.rows import Row
from openrknn.cost.advice import ADVICE

_MOST = 3
"""Of each kind: what comes after that can wait."""
_HEARD_DB = 40.0
"""An operator that adds less noise than that leaves int8's answers alone."""
_HALVES = ("fp16", "float16")
"""Nothing to gain from `--fp16-layers`."""
_LONG_SHARE = 0.05
"""Of the time of a run: less is not worth a change of the model."""


@dataclass(frozen=True, slots=True)
class Change:
    """One operator, why it stands here, and what to do."""

    number: int
    name: str
    kind: Literal["accuracy", "time"]
    size: str
    text: str

    def as_json(self) -> dict[str, str]:
        return {"operator": self.name, "kind": self.kind, "size": self.size, "text": self.text}


def changes(rows: Sequence[Row], *, can_mix: bool) -> list[Change]:
    """Accuracy first, then time; nothing where nothing stands out."""
    return [*_noisy(rows, can_mix=can_mix), *_slow(rows)]


def _noisy(rows: Sequence[Row], *, can_mix: bool) -> list[Change]:
    heard = [row for row in rows if row.own_noise > 10 ** (-_HEARD_DB / 10) and row.format not in _HALVES]
    found = []
    for row in sorted(heard, key=lambda entry: -entry.own_noise)[:_MOST]:
        text = f"--fp16-layers {row.sources[0] if row.sources else row.name} keeps it" if can_mix else (
            "this chip cannot mix formats: calibrate with more data as in real use, or compile for fp16"
        )  # fmt: skip
        if row.weights_db is not None and row.weights_db < 30:
            text += "; its weights have a few large numbers (--equalize may even them out)"
        level = -10 * math.log10(row.own_noise)
        found.append(Change(row.number, row.name, "accuracy", f"adds noise at {level:.1f} dB", text))
    return found


def _slow(rows: Sequence[Row]) -> list[Change]:
    total = sum(row.cycles for row in rows) or 1
    found = []
    for row in sorted(rows, key=lambda entry: -entry.cycles)[:_MOST]:
        if row.cycles >= _LONG_SHARE * total and row.bound in ADVICE:
            share = f"{row.cycles / total:.0%} of the time"
            found.append(Change(row.number, row.name, "time", share, ADVICE[row.bound]))
    on_cpu = [row for row in rows if row.is_cpu]
    if on_cpu:
        row = on_cpu[0]
        more = f" (and {len(on_cpu) - 1} more)" if len(on_cpu) > 1 else ""
        text = "the NPU waits while it runs, and the estimate does not count it: leave it to your program (--outputs)"
        found.append(Change(row.number, row.name, "time", f"on the CPU{more}", text))
    return found
