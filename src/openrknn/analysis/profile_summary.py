"""The verdict of a profile: one sentence, three numbers, the next step. The text and the page show the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from openrknn.analysis.board_time import range_text
from openrknn.analysis.profiles import Row
from openrknn.analysis.reports import EstimateReport
from openrknn.cost.advice import ADVICE
from openrknn.quantities import count_of, duration

__all__ = ["Summary", "summary_of", "summary_of_parts"]

_CPU_SHARE = 0.2
"""Of the time here: operators on the CPU that take less are not worth a warning."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What the reader of a profile sees first."""

    level: str
    """good, fair or poor."""
    sentence: str
    numbers: tuple[tuple[str, str, str], ...]
    """Label, value, remark."""
    next_step: str


def summary_of(rows: Sequence[Row], estimate: EstimateReport | None, *, chip: str, device: str) -> Summary:
    """Of one model."""
    here = sum(row.here_us for row in rows)
    on_cpu = [row for row in rows if row.target == "CPU"]
    slow_cpu = sum(row.here_us for row in on_cpu) > _CPU_SHARE * here
    slowest, share = _slowest(rows)
    time = None if estimate is None else estimate.time_ms
    if time is None:
        level, sentence = "fair", f"No timing of a board with {chip} is published: compare cycles, not times"
        first = ("Time on a board", "unknown", chip)
    else:
        level = "fair" if slow_cpu else "good"
        sentence = f"{chip}: {range_text(estimate)}, {1e3 / time:.0f} inferences per second" if estimate else ""
        spread = "" if estimate is None or estimate.low_ms is None or estimate.high_ms is None else (
            f"{duration(estimate.low_ms / 1e3)} to {duration(estimate.high_ms / 1e3)}, "
        )  # fmt: skip
        first = ("Time on a board", duration(time / 1e3), f"{spread}estimated")
    return Summary(
        level,
        sentence,
        (
            first,
            ("Slowest operator", "none" if slowest is None else f"{share:.0%}", slowest.full_name if slowest else ""),
            ("Time here", duration(here / 1e6), f"on {device}, operator by operator"),
        ),
        _next_step(slowest, share, on_cpu if slow_cpu else []),
    )


def _slowest(rows: Sequence[Row]) -> tuple[Row | None, float]:
    """The operator with the largest share of the time on a board, or here where no board time is known."""
    total = sum(row.board_us or 0 for row in rows)
    if total:
        row = max(rows, key=lambda entry: entry.board_us or 0)
        return row, (row.board_us or 0) / total
    here = sum(row.here_us for row in rows)
    if not here:
        return None, 0.0
    row = max(rows, key=lambda entry: entry.here_us)
    return row, row.here_us / here


def _next_step(slowest: Row | None, share: float, on_cpu: Sequence[Row]) -> str:
    if on_cpu:
        names = ", ".join(sorted({row.op_type for row in on_cpu})[:4])
        return f"replace {count_of(len(on_cpu), 'operator')} on the CPU ({names}) by operators of docs/operators.md"
    if slowest is None:
        return "--runs 10 measures longer"
    advice = ADVICE.get(slowest.bound or "")
    if advice is None:
        return f"{slowest.full_name} takes {share:.0%} of the time"
    return f"{slowest.full_name} takes {share:.0%} of the time and is {advice}"


def summary_of_parts(
    parts: Sequence[tuple[str, int, float, float]], *, device: str, slowest: Summary | None = None
) -> Summary:
    """Of a model in parts: kind, operators, board time and time here of each, in microseconds."""
    board = sum(part[2] for part in parts)
    on_cpu = sum(part[2] for part in parts if part[0] == "cpu")
    share = on_cpu / board if board else 0.0
    operators = sum(part[1] for part in parts if part[0] == "cpu")
    if share > 0.5:
        step = f"move {count_of(operators, 'operator')} from the CPU to the NPU; docs/partition.md explains the split"
    else:
        step = slowest.next_step if slowest is not None else "`openrknn inspect --html` shows the parts"
    return Summary(
        "fair" if share > 0.5 else "good",
        f"About {duration(board / 1e6)} on a board: {count_of(len(parts), 'part')}, {share:.0%} of the time on the CPU",
        (
            ("Time on a board", duration(board / 1e6), "estimated, CPU included"),
            ("On the CPU", f"{share:.0%}", count_of(operators, "operator")),
            ("Time here", duration(sum(part[3] for part in parts) / 1e6), f"on {device} and in ONNX Runtime"),
        ),
        step,
    )
