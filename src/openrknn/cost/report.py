"""The estimate in words and for programs, the same wherever it is shown."""

from __future__ import annotations

from typing import Any

from openrknn.cost.boards import Board
from openrknn.cost.model import Cost

__all__ = ["as_facts", "clock_text", "range_text", "source_text", "where_text"]

_WHOLE, _TENTHS = 100, 10
_SMALL_SHARE = 0.005


def as_facts(cost: Cost) -> dict[str, Any]:
    """For JSON. `time_ms` and its range are None where no board figure exists."""
    return {
        "time_ms": cost.time_ms,
        "low_ms": cost.low_ms,
        "high_ms": cost.high_ms,
        "bound": str(cost.spent.bound) if cost.operators else None,
        "bound_shares": {str(bound): share for bound, share in cost.shares.items()},
        "board": {
            "hertz": cost.board.hertz,
            "figures": cost.board.figures,
            "mean_error": cost.board.mean_error,
            "source": cost.board.source,
        },
        "cpu_operators": cost.cpu_operators,
        "unknown_operators": cost.unknown,
    }


def range_text(cost: Cost) -> str:
    """`13.2 ms on a board (11.9 to 14.4)`, or why there is no time."""
    time, low, high = cost.time_ms, cost.low_ms, cost.high_ms
    if not cost.operators:
        return "no work for the NPU"
    if time is None:
        return "no time: nobody has published what a board of this chip takes"
    text = f"{_number(time)} ms on a board"
    if low is not None and high is not None:
        text += f" ({_number(low)} to {_number(high)})"
    left_out = []
    if cost.cpu_operators:
        left_out.append(f"{cost.cpu_operators} on the CPU")
    if cost.unknown:
        left_out.append(f"{cost.unknown} of unknown work")
    return f"{text}, without {' and '.join(left_out)}" if left_out else text


def where_text(cost: Cost) -> str:
    """`table 50 %, array 23 %, memory 17 %, start 7 %`."""
    return ", ".join(f"{bound} {share:.0%}".replace("%", " %") for bound, share in cost.shares.items()
                     if share > _SMALL_SHARE)  # fmt: skip


def clock_text(board: Board) -> str:
    """`1 GHz`, `900 MHz`."""
    return f"{board.hertz / 1e9:g} GHz" if board.hertz % 10**9 == 0 else f"{board.hertz / 1e6:g} MHz"


def source_text(board: Board) -> str:
    """What the range stands on."""
    if not board.is_fitted or board.mean_error is None:
        return f"no board figure is known for this chip: cycles compare, they are no time (source: {board.source})"
    return f"{board.figures} published figures, mean error {board.mean_error:.0%}".replace("%", " %")


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= _WHOLE else f"{value:.1f}" if value >= _TENTHS else f"{value:.2f}"
