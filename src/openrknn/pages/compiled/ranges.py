"""Why each value of an int8 model got its range: the costliest first."""

from __future__ import annotations

from collections.abc import Sequence

from openrknn.compiler.quantise.range_choice import RangeChoice
from openrknn.pages.frame import decibels
from openrknn.pages.markup import Content, Markup, breakable, clean, join, tag

__all__ = ["RANGES", "ranges_table"]

RANGES = (
    "int8 has 256 steps for each range. Seen: the smallest and the largest number in calibration; a narrower range "
    "cuts rare numbers off and has finer steps. Outputs: what would be left of the signal if this value alone were "
    "int8, an estimate; where the whole range was worse, that stands behind it. Values that are only moved share one "
    "scale."
)
_COLUMNS = ("Value", "Range", "Seen", "Step", "Outputs dB", "With all dB", "Shared with", "Why")
_TEXT = {"Value", "Shared with", "Why"}
_MOST = 400
_NAMES = 3


def ranges_table(choices: Sequence[RangeChoice]) -> Markup | None:
    """None for models without ranges (fp16)."""
    if not choices:
        return None
    ordered = sorted(choices, key=lambda entry: (entry.snr_db is None, entry.snr_db or 0.0))
    head = tag("tr", join(tag("th", name, class_=None if name in _TEXT else "number") for name in _COLUMNS))
    rows = join(_row(choice) for choice in ordered[:_MOST])
    more = len(ordered) - _MOST
    rest = tag("p", f"{more} more cost less.", class_="muted") if more > 0 else None
    return tag("div", tag("table", tag("thead", head), tag("tbody", rows)), rest, class_="table")


def _row(choice: RangeChoice) -> Markup:
    shared = [clean(name, 40) for name in choice.shared_with[:_NAMES]]
    others = len(choice.shared_with) - len(shared)
    cells: tuple[Content, ...] = (
        breakable(clean(choice.value, 60)), _interval(choice.low, choice.high),
        _interval(choice.seen_low, choice.seen_high), f"{(choice.high - choice.low) / 255:.3g}",
        decibels(choice.snr_db), decibels(choice.whole_snr_db),
        ", ".join(shared) + (f" and {others} more" if others > 0 else ""), clean(choice.reason, 200),
    )  # fmt: skip
    return tag("tr", join(tag("td", cell, class_=None if name in _TEXT else "number")
                          for name, cell in zip(_COLUMNS, cells, strict=True)))  # fmt: skip


def _interval(low: float, high: float) -> str:
    return f"{low:.3g} … {high:.3g}"
