"""Time from work: the slowest part counts, starts are added, cores share the memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from openrknn.analysis.board_time import as_facts, driver_text, estimate_of, range_text, source_text, where_text
from openrknn.chips import CHIPS
from openrknn.cost import BOARDS, Bound, Cost, Work, board_of, operator_cost, spent_by, total

RK3588 = CHIPS["rk3588"]
BOARD = replace(
    BOARDS["rk3588"], hertz=10**9, bytes_per_second=10e9, task_seconds=2e-6, submit_seconds=5e-6, table_rate=2,
    dpu_rate=8, memory_cores=1.6,
)  # fmt: skip


@pytest.mark.parametrize(
    ("work", "bound", "microseconds"),
    [
        (Work(1, array_cycles=9000, table_elements=2000, read_bytes=100), Bound.ARRAY, 9),
        (Work(1, array_cycles=900, table_elements=20000, dpu_elements=20000), Bound.TABLE, 10),
        (Work(1, dpu_elements=80000), Bound.DPU, 10),
        (Work(1, pooling_cycles=7000, written_bytes=100), Bound.POOLING, 7),
        (Work(1, array_cycles=100, read_bytes=50000, written_bytes=40000, command_bytes=10000), Bound.MEMORY, 10),
        (Work(1, array_cycles=100), Bound.START, 0.1),
    ],
)
def test_the_slowest_part_counts(work: Work, bound: Bound, microseconds: float) -> None:
    spent = spent_by(work, BOARD)
    assert spent.bound is bound
    assert spent.seconds == pytest.approx((microseconds + 2) * 1e-6)


def test_three_cores_share_the_memory() -> None:
    """On a board three cores add 1.65 and copy 1.56 times as fast as one (channyHuang's blog)."""
    whole, third = Work(1, read_bytes=9_000_000), Work(1, read_bytes=3_000_000)
    one, three = spent_by(whole, BOARD), spent_by(third, BOARD.shared_by(3))
    assert one.memory / three.memory == pytest.approx(1.6)
    arithmetic = spent_by(Work(1, array_cycles=9000), BOARD).array, spent_by(Work(1, array_cycles=3000), BOARD).array
    assert arithmetic[0] / arithmetic[1] == pytest.approx(3)


def test_weights_that_stream_have_rates_of_their_own() -> None:
    """As ork-driver measured products of one row: three cores get 28.5 GB/s together, one gets 22."""
    board = replace(BOARD, stream_bytes_per_second=22e9, stream_all_bytes_per_second=28.5e9)
    work = Work(1, read_bytes=66_000_000 + 10_000_000, streamed_bytes=66_000_000)
    assert spent_by(work, board).memory == pytest.approx(3e-3 + 1e-3)
    third = Work(1, read_bytes=9_500_000, streamed_bytes=9_500_000)
    assert spent_by(third, board.shared_by(3)).memory == pytest.approx(1e-3)
    assert spent_by(third, board.shared_by(1)).memory == pytest.approx(9.5e6 / 22e9)
    unknown = replace(board, stream_bytes_per_second=None)
    assert spent_by(work, unknown).memory == pytest.approx(7.6e-3)


def test_jobs_and_cores_of_an_operator() -> None:
    board = board_of(RK3588)
    work = Work(1, array_cycles=1_000_000)
    alone = operator_cost(3, "Conv", "a", [[work, work]], RK3588)
    assert alone.spent.seconds == pytest.approx(2e-3 + 2 * board.task_seconds + board.submit_seconds)
    shared = operator_cost(3, "Conv", "a", [[work], [work]], RK3588, submits=0)
    assert shared.spent.seconds == pytest.approx(1e-3 + board.task_seconds)
    assert (shared.tasks, shared.array_cycles) == (2, 1_000_000)
    assert alone.plus(shared).spent.seconds == pytest.approx(alone.spent.seconds + shared.spent.seconds)


def cost(chip: str) -> Cost:
    entry = operator_cost(1, "Conv", "a", [[Work(1, array_cycles=10_000_000)]], CHIPS[chip])
    return Cost((entry,), 1, BOARDS[chip], cpu_operators=2)


def test_a_board_with_figures_gives_a_range() -> None:
    made = cost("rk3588")
    assert made.time_ms is not None
    assert made.low_ms is not None
    assert made.high_ms is not None
    assert made.low_ms < made.time_ms < made.high_ms
    text = range_text(estimate_of(made))
    assert text.startswith("about 10.0 ms on a board (")
    assert text.endswith(", without 2 on the CPU")
    assert where_text(estimate_of(made)) == "array 100 %"
    assert "published figures, mean error" in source_text(estimate_of(made))
    assert as_facts(made, "cpu_operators").keys() >= {"time_ms", "low_ms", "high_ms", "bound"}
    assert "cpu_operators" not in as_facts(made, "cpu_operators")


@pytest.mark.parametrize("chip", ["rv1126b", "rv1106", "rv1103", "rv1106b", "rv1103b"])
def test_a_chip_without_figures_has_cycles_and_no_time(chip: str) -> None:
    made = cost(chip)
    assert made.cycles > 10_000_000
    assert (made.time_ms, made.low_ms, made.high_ms) == (None, None, None)
    assert "no timing from a board" in range_text(estimate_of(made))
    assert "no board figure" in source_text(estimate_of(made))


def test_every_chip_has_a_row() -> None:
    assert set(BOARDS) == set(CHIPS)
    assert total([]).seconds == 0


def test_the_estimate_says_whose_start_of_jobs_it_assumes() -> None:
    board, work = board_of(RK3588), Work(1, array_cycles=1_000_000)
    cost = Cost((operator_cost(3, "Conv", "a", [[work]], RK3588, submits=2),), 2, board)
    found = estimate_of(cost)
    assert (found.assumed_driver, found.submit_us, found.open_submit_us) == ("vendor", 3.3, 90)
    assert found.time_ms is not None
    assert found.open_driver_ms == pytest.approx(found.time_ms + 2 * (0.09 - 0.0033))
    assert driver_text(found, 2) == (
        "assumes the vendor's runtime and driver: 3.3 us for each job. With an open driver, 90 us for each of 2 jobs: "
        "about 1.18 ms (ork-driver on a Rock 5B: 80 to 100 us a job)"
    )


def test_open_drivers_of_other_chips_have_no_figure() -> None:
    assert {name for name, board in BOARDS.items() if board.open_submit_seconds is not None} == {"rk3588"}
    board = board_of(CHIPS["rk3566"])
    found = estimate_of(Cost((operator_cost(3, "Conv", "a", [[Work(1)]], CHIPS["rk3566"]),), 1, board))
    assert found.open_driver_ms is None
    assert driver_text(found, 1) == "assumes the vendor's runtime and driver: 3.3 us for each job"
