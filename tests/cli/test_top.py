"""`openrknn top`: one look for people and for programs, and the live screen."""

from __future__ import annotations

import json
import sys
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from openrknn import monitor
from openrknn.cli.top.text import History, screen
from tests.cli.run import program, run
from tests.machines import Machine, rknpu_board, rocket_board


def drawn(reading: monitor.Reading, history: History | None = None) -> str:
    console = Console(file=StringIO(), width=140, no_color=True)
    console.print(screen(reading, history))
    stream = console.file
    assert isinstance(stream, StringIO)
    return stream.getvalue()


def test_one_look_at_a_board(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rknpu_board(tmp_path).process(812, "frigate", "/dev/dri/renderD129").write(
        {"/sys/kernel/debug/rknpu/load": "NPU load:  Core0:  0%, Core1:  0%, Core2: 63%,\n"}
    )
    text = run(capsys, "top", "--once", "--root", tmp_path).out
    for part in ("RK3588 fdab0000.npu", "rknpu 0.9.8", "core 2", " 63.0 %", "1000 MHz", "48 °C", "frigate", "812"):
        assert part in text
    answer = json.loads(run(capsys, "top", "--once", "--json", "--root", tmp_path).out)
    assert [core["load_percent"] for core in answer["npus"][0]["cores"]] == [0, 0, 63]


def test_rocket_needs_two_looks(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rocket_board(tmp_path)
    text = run(capsys, "top", "--once", "--interval", "0.01", "--root", tmp_path).out
    assert text.count("at most") == 3


def test_no_npu(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    Machine(tmp_path)
    result = run(capsys, "top", "--once", "--root", tmp_path)
    assert (result.code, "There is no NPU here" in result.out) == (0, True)


def test_an_odd_load_is_called_odd(tmp_path: Path) -> None:
    rknpu_board(tmp_path).write({"/sys/kernel/debug/rknpu/load": "NPU load:  Core0: 20000%, Core1:  0%,\n"})
    assert "the driver reports 20000 %" in drawn(monitor.read(tmp_path))


def test_the_live_screen_has_curves(tmp_path: Path) -> None:
    rknpu_board(tmp_path).write({"/sys/kernel/debug/rknpu/load": "NPU load:  Core0: 100%, Core1: 50%,\n"})
    history = History()
    for _ in range(3):
        history.add(monitor.read(tmp_path))
    text = drawn(monitor.read(tmp_path), history)
    assert "███" in text
    assert "▄▄▄" in text


def test_below_an_emulated_board() -> None:
    """The files of the emulated kernel, through the preload library: the drivers' own texts from end to end."""
    command = ("-m", "openrknn.cli", "top", "--once", "--json")
    npu = json.loads(program("exec", "--quiet", "--", sys.executable, *command).out)["npus"][0]
    assert (npu["driver"], npu["version"], len(npu["cores"])) == ("rknpu", "0.9.8", 3)
    assert npu["clock"]["hz"] == 1_000_000_000
