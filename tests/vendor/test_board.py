"""The safe objects on the vendor's unmodified library, in a Python process with a device.

`checks_*` run on the witness's device, which computes nothing. `computed_*` run on the software NPU, below `openrknn
exec`, and compare numbers with the vendor's simulator and with NumPy. Each script of `tests/vendor/inside` is a process
of its own, under emulation where this machine is not aarch64.
"""

from __future__ import annotations

import pytest

from tests.vendor.board import INSIDE, Board, Report

pytestmark = pytest.mark.witness

CHIPS = {"checks_rk3566.py": "rk3566"}
SCRIPTS = sorted(path.name for path in INSIDE.glob("checks_*.py"))


@pytest.mark.parametrize("script", SCRIPTS)
def test_checks(board: Board, script: str) -> None:
    assert_passed(board.run(script, chip=CHIPS.get(script, "rk3588")), script)


def test_numbers(board: Board) -> None:
    assert_passed(board.compute("computed_rk3588.py"), "computed_rk3588.py")


def assert_passed(report: Report, script: str) -> None:
    failures = "\n\n".join(f"{name}:\n{trace}" for name, trace in report.failed.items())
    assert not report.failed, f"{failures}\n{report.output[-3000:]}"
    source = (INSIDE / script).read_text(encoding="utf-8")
    assert len(report.passed) == source.count("\ndef check_") > 0


def test_a_crash_names_its_check(board: Board) -> None:
    """The way in which crashes are reported works: this check destroys a context twice."""
    report = board.run("crash.py")
    assert list(report.failed) == ["check_crash"]
    assert report.passed == ("check_before",)
