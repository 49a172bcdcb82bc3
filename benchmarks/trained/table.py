"""The results as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trained.network import Network

Rows = Mapping[str, Mapping[str, Any]]
_COLUMNS = (
    "network", "form", "ours", "vendor", "dB ours", "vendor", "answers ours", "vendor", "s ours", "vendor", "MB ours",
    "vendor", "ms ours", "vendor",
)  # fmt: skip
_HEAD = f"| {' | '.join(_COLUMNS)} |\n|{'---|' * len(_COLUMNS)}\n"


def markdown(found: Sequence[Network], rows: Rows) -> str:
    """One line per network and format; what was refused stands below."""
    lines, notes = [], []
    for network in found:
        for form in ("fp", "i8"):
            ours, theirs = (rows.get(f"{network.name} {form} {side}") for side in ("ours", "vendor"))
            if ours is None and theirs is None:
                continue
            cells = [network.name, form]
            for side, row in (("ours", ours), ("vendor", theirs)):
                reason = "" if row is None else str(row.get("error") or row.get("session") or "")
                cells.append("" if row is None else "refused" if "error" in row else "built")
                if reason:
                    notes.append(f"- {network.name} {form}, {side}: {reason}")
            for key, pattern in (("snr", "{:.1f}"), ("answer", "{}"), ("seconds", "{:.1f}"), ("peak_mb", "{:.0f}"),
                                 ("time_ms", "{:.2f}")):  # fmt: skip
                cells += [_cell(row, key, pattern) for row in (ours, theirs)]
            lines.append("| " + " | ".join(cells) + " |")
    return _HEAD + "\n".join(lines) + "\n\n" + "\n".join(notes) + "\n\n" + summary(found, rows) + "\n"


def _cell(row: Mapping[str, Any] | None, key: str, pattern: str) -> str:
    value = None if row is None else row.get(key)
    return "" if value is None else pattern.format(value)


def summary(found: Sequence[Network], rows: Rows) -> str:
    """How many of each, and what breaks the promise: the vendor builds it and we do not, or ours is worse."""
    told = []
    for form, slack in (("fp", 0.3), ("i8", 0.3)):
        pairs = [[rows.get(f"{network.name} {form} {side}", {}) for side in ("ours", "vendor")] for network in found]
        built = [sum(1 for pair in pairs if pair[n] and "error" not in pair[n]) for n in (0, 1)]
        told.append(f"{form}: {built[0]} of {len(found)} built, the vendor's {built[1]}")
        for network, (ours, theirs) in zip(found, pairs, strict=True):
            if theirs and "error" not in theirs and ours and "error" in ours:
                told.append(f"  {network.name} {form}: the vendor builds it, ours not: {ours['error']}")
            elif "snr" in ours and "snr" in theirs and ours["snr"] < theirs["snr"] - slack:
                told.append(f"  {network.name} {form}: {ours['snr']:.1f} dB, the vendor's {theirs['snr']:.1f}")
            if "score" in ours and "score" in theirs and ours["score"] < theirs["score"] - 1e-9:
                told.append(f"  {network.name} {form}: {ours['answer']}, the vendor's {theirs['answer']}")
    return "\n".join(told)
