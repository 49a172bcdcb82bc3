"""The estimate in words and for programs, the same wherever it is shown."""

from __future__ import annotations

import dataclasses
from typing import Any

from openrknn.analysis.reports import EstimateReport
from openrknn.container.model import Model
from openrknn.cost.model import Cost
from openrknn.quantities import count_of
from openrknn.runtime.cost import cost_of

_WHOLE, _TENTHS = 100, 10
_SMALL_SHARE = 0.005
_GIGA = 10**9


def estimate(model: Model, *, cores: int = 1) -> EstimateReport:
    """How long a board takes for one run, from the commands in the file."""
    return estimate_of(cost_of(model, cores))


def estimate_of(cost: Cost) -> EstimateReport:
    """Plain numbers; times are None where no board figure exists."""
    return EstimateReport(
        time_ms=cost.time_ms,
        low_ms=cost.low_ms,
        high_ms=cost.high_ms,
        bound=str(cost.spent.bound) if cost.operators else "",
        bound_shares={str(bound): share for bound, share in cost.shares.items()},
        board_hertz=cost.board.hertz,
        board_figures=cost.board.figures,
        board_mean_error=cost.board.mean_error,
        board_source=cost.board.source,
        assumed_driver="vendor",
        submit_us=_micro(cost.board.submit_seconds),
        task_us=_micro(cost.board.task_seconds),
        open_driver_ms=cost.open_driver_ms,
        open_submit_us=None if cost.board.open_submit_seconds is None else _micro(cost.board.open_submit_seconds),
        open_source=cost.board.open_source,
        cpu_operators=cost.cpu_operators,
        unknown_operators=cost.unknown,
    )


def as_facts(cost: Cost, *without: str) -> dict[str, Any]:
    """For JSON, without the fields that the rest of it has already."""
    return {name: value for name, value in dataclasses.asdict(estimate_of(cost)).items() if name not in without}


def range_text(estimate: EstimateReport) -> str:
    """`13.2 ms on a board (11.9 to 14.4)`, or why there is no time."""
    time, low, high = estimate.time_ms, estimate.low_ms, estimate.high_ms
    if not estimate.bound:
        return "no work for the NPU"
    if time is None:
        return "no estimate: no timing from a board with this chip has been published"
    text = f"about {_number(time)} ms on a board"
    if low is not None and high is not None:
        text += f" ({_number(low)} to {_number(high)})"
    left_out = []
    if estimate.cpu_operators:
        left_out.append(f"{estimate.cpu_operators} on the CPU")
    if estimate.unknown_operators:
        left_out.append(f"{estimate.unknown_operators} of unknown work")
    return f"{text}, without {' and '.join(left_out)}" if left_out else text


def where_text(estimate: EstimateReport) -> str:
    """`table 50 %, array 23 %, memory 17 %, start 7 %`."""
    shown = {name: share for name, share in estimate.bound_shares.items() if share > _SMALL_SHARE}
    return ", ".join(f"{name} {100 * share:.0f} %" for name, share in shown.items())


def clock_text(estimate: EstimateReport) -> str:
    """`1 GHz`, `900 MHz`."""
    hertz = estimate.board_hertz
    return f"{hertz // _GIGA} GHz" if hertz % _GIGA == 0 else f"{hertz / 1e6:g} MHz"


def source_text(estimate: EstimateReport) -> str:
    """What the range is based on."""
    if estimate.board_mean_error is None:
        return f"no board figure is known for this chip: cycles compare, they are no time ({estimate.board_source})"
    error = f"{100 * estimate.board_mean_error:.0f} %"
    return f"rates fitted to {estimate.board_figures} published figures, mean error {error} on a network not among them"


def driver_text(estimate: EstimateReport, jobs: int) -> str:
    """Whose start of jobs is in the time, and what another one would make of it."""
    text = f"assumes the vendor's runtime and driver: {estimate.submit_us:g} us for each job"
    if estimate.open_driver_ms is None or estimate.open_submit_us is None:
        return text
    each = f"{estimate.open_submit_us:g} us for each of {count_of(jobs, 'job')}"
    return f"{text}. With an open driver, {each}: about {_number(estimate.open_driver_ms)} ms ({estimate.open_source})"


def _micro(seconds: float) -> float:
    return round(seconds * 1e6, 3)


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= _WHOLE else f"{value:.1f}" if value >= _TENTHS else f"{value:.2f}"
