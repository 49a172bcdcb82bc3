"""Progress without a terminal: lines after two seconds, not more than one in ten for a stage. Evidence: a clock."""

from __future__ import annotations

import threading

import pytest

from openrknn.cli.common.output import Mode, Output
from openrknn.cli.common.progress import ProgressLines, lines_for, stages, waiting


def test_short_work_prints_nothing_and_long_work_a_line_now_and_then() -> None:
    now = [0.0]
    written: list[str] = []
    tell = ProgressLines(written.append, lambda: now[0])
    for now[0], stage, done in (
        (1.9, "read", 1), (2.1, "read", 2), (5.0, "read", 3), (5.1, "pack ", 1), (14.0, "pack ", 2), (15.2, "pack ", 9),
    ):  # fmt: skip
        tell(stage, done, 9)
    assert written == ["read 2/9", "pack 1/9", "pack 9/9"]
    now[0] = 40.0
    tell("waiting")
    assert written[-1] == "waiting ..."


def test_quiet_json_and_the_variable_switch_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lines_for(Output()) is None  # the tests themselves
    monkeypatch.delenv("OPENRKNN_PROGRESS")
    assert lines_for(Output()) is not None
    assert lines_for(Output(Mode.QUIET)) is None
    assert lines_for(Output(Mode.JSON)) is None


def test_stages_without_a_terminal_are_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENRKNN_PROGRESS")
    with stages(Output()) as tell:
        assert isinstance(tell, ProgressLines)
        tell("read", 1, 2)


def test_work_in_one_piece_prints_lines_while_it_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENRKNN_PROGRESS")
    written: list[str] = []
    seen = threading.Event()

    def write(text: str) -> None:
        written.append(text)
        seen.set()

    with waiting(Output(), "profiling", first=0.0, write=write):
        assert seen.wait(60)
    assert written[0].startswith("profiling ... ")
    for output, stage in ((Output(Mode.QUIET), "profiling"), (Output(Mode.JSON), "profiling"), (Output(), "")):
        with waiting(output, stage, first=0.0, write=write):
            assert threading.current_thread() is threading.main_thread()
    assert not any(thread.name == "progress" for thread in threading.enumerate())
