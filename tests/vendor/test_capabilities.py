"""`openrknn capabilities`."""

from __future__ import annotations

import json

import pytest

from tests.cli.run import run
from tests.vendor.recording import Recorder


def row(text: str, name: str) -> list[str]:
    (line,) = [line for line in text.splitlines() if line.split()[:1] == [name]]
    return line.split()


def test_all_chips_beside_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    result = run(capsys, "capabilities")
    assert result.code == 0
    assert row(result.out, "rknn_set_core_mask") == ["rknn_set_core_mask", "no", "yes", "no", "no", "?", "1.3.0"]
    assert row(result.out, "rknn_mem_sync") == ["rknn_mem_sync", "yes", "yes", "yes", "yes", "?", "1.6.0"]
    assert row(result.out, "RKNN_QUERY_PERF_RUN")[1:4] == ["yes", "yes", "no"]
    assert row(result.out, "RKNN_FLAG_ENABLE_SRAM")[-1] == "1.6.0"
    assert "RK3562/66/68" in result.out
    assert max(len(line) for line in result.out.splitlines()) <= 120


def test_one_chip_with_reasons(capsys: pytest.CaptureFixture[str]) -> None:
    result = run(capsys, "capabilities", "--chip", "RK3566")
    assert "its NPU has one core" in " ".join(row(result.out, "rknn_set_core_mask"))
    assert row(result.out, "rknn_init") == ["rknn_init", "yes", "1.3.0"]
    assert run(capsys, "capabilities", "--chip", "rk9999").code == 2


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(run(capsys, "capabilities", "--json").out)
    assert len(data["functions"]) == 35
    assert len(data["queries"]) == 20
    mask = next(entry for entry in data["functions"] if entry["name"] == "rknn_set_core_mask")
    assert mask["support"]["rk3588"] is True
    assert mask["support"]["rk3566"] is False
    assert mask["support"]["rv1126b"] is None
    only = json.loads(run(capsys, "capabilities", "--json", "--chip", "rv1106").out)
    assert only["chips"] == ["rv1106"]


def test_a_library_beside_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    path = Recorder.build("1.5.2").library.path
    result = run(capsys, "capabilities", "--chip", "rk3588", "--library", path)
    assert "25 of 35 functions" in result.out
    assert row(result.out, "rknn_run")[1:4] == ["yes", "1.3.0", "yes"]
    assert row(result.out, "rknn_mem_sync")[1:4] == ["yes", "1.6.0", "no"]
    data = json.loads(run(capsys, "capabilities", "--json", "--library", path).out)
    assert data["library"]["version"] == "1.5.2"
    assert sum(entry["in_library"] for entry in data["functions"]) == 25


def test_no_library_is_one_line(capsys: pytest.CaptureFixture[str], tmp_path: object) -> None:
    result = run(capsys, "capabilities", "--library", f"{tmp_path}/nothing.so")
    assert result.code == 2
    assert "nothing.so is not there" in result.err


def test_quiet_lists_what_works(capsys: pytest.CaptureFixture[str]) -> None:
    names = run(capsys, "capabilities", "--quiet", "--chip", "rv1106").out.split()
    assert "rknn_run" in names
    assert "rknn_inputs_set" not in names
