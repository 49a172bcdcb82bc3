"""The safe objects on the vendor's unmodified library, in a Python process with a device.

`checks_*` run on the witness's device, which computes nothing. `computed_*` run on the software NPU, below `openrknn
exec`, and compare numbers with the vendor's simulator and with NumPy. Each script of `tests/vendor/inside` is a process
of its own, under emulation where this machine is not aarch64.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from openrknn.container.model import TensorSpec
from openrknn.runtime.session import Session
from tests.runtime.cases import GOLDENS
from tests.vendor.board import INSIDE, Board, Report

pytestmark = pytest.mark.witness

CHIPS = {"checks_rk3566.py": "rk3566"}
NOT_COMPARED = {
    "residual_rk3588_i8_mini": "a format of RV1103 and RV1106",
    "residual_rk3588_i8_no_weights": "needs a donor of weights",
    "residual_rk3588_w16a16i_dfp": "1.5.2 does not know the type of its input",
}
SCRIPTS = sorted(path.name for path in INSIDE.glob("checks_*.py"))


@pytest.mark.parametrize("script", SCRIPTS)
def test_checks(board: Board, script: str) -> None:
    assert_passed(board.run(script, chip=CHIPS.get(script, "rk3588")), script)


def test_numbers(board: Board) -> None:
    assert_passed(board.compute("computed_rk3588.py"), "computed_rk3588.py")


def test_numbers_of_another_chip(board: Board) -> None:
    assert_passed(board.compute("computed_rk3566.py", chip="rk3566"), "computed_rk3566.py")


def test_sessions(board: Board, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same class, the same answers: the vendor's library below it, or the software NPU."""
    for path in sorted(GOLDENS.glob("*_rk3588_*.rknn")):
        if path.stem not in NOT_COMPARED:
            with Session(path, device="software") as session:
                inputs = [made_up(spec) for spec in session.inputs]
                outputs = session.run(inputs)
            fed = {f"x{number}": value for number, value in enumerate(inputs)}
            got = {f"o{number}": value for number, value in enumerate(outputs.values())}
            np.savez(tmp_path / f"{path.stem}.npz", **fed, **got)  # type: ignore[arg-type]
    monkeypatch.setenv("BOARD_ANSWERS", str(tmp_path))
    assert_passed(board.compute("computed_session.py"), "computed_session.py")


def made_up(spec: TensorSpec) -> npt.NDArray[Any]:
    """A picture, or numbers around 0."""
    random = np.random.default_rng(7)
    if len(spec.shape) == 4 and spec.shape[3] == 3:
        return random.integers(0, 256, spec.shape, dtype=np.uint8)
    return random.standard_normal(spec.shape).astype(np.float32)


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
