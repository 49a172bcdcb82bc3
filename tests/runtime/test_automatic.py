"""What `device="auto"` takes: by what is in the machine, never by trying."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from openrknn.chips import CHIPS
from openrknn.device.choose import NPU_VARIABLE
from openrknn.runtime.automatic import automatic_device
from tests.machines import Machine, rknpu_board, rocket_board

CHIP = CHIPS["rk3588"]


@pytest.fixture(autouse=True)
def untold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(NPU_VARIABLE, raising=False)


def test_no_board(tmp_path: Path) -> None:
    assert automatic_device(CHIP, tmp_path) == "software"


def test_the_vendors_driver_with_and_without_its_library(tmp_path: Path) -> None:
    rknpu_board(tmp_path)
    assert automatic_device(CHIP, tmp_path, lambda: True) == "vendor"
    assert automatic_device(CHIP, tmp_path, lambda: False) == "rknpu"


def test_the_mainline_driver_does_not_need_the_library(tmp_path: Path) -> None:
    rocket_board(tmp_path)
    assert automatic_device(CHIP, tmp_path, lambda: True) == "rocket"


def test_a_small_board(tmp_path: Path) -> None:
    rknpu_board(tmp_path, "rv1106", misc=True)
    assert automatic_device(CHIPS["rv1106"], tmp_path, lambda: False) == "rknpu"


def test_a_model_for_another_chip(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rknpu_board(tmp_path, "rk3566")
    with caplog.at_level(logging.INFO):
        assert automatic_device(CHIP, tmp_path, lambda: True) == "software"
    assert "the model is for RK3588" in caplog.text


def test_a_board_without_a_driver(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    Machine(tmp_path).soc("rk3588")
    assert automatic_device(CHIP, tmp_path, lambda: True) == "software"
    assert "openrknn doctor" in caplog.text


def test_what_the_environment_says_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rknpu_board(tmp_path)
    monkeypatch.setenv(NPU_VARIABLE, "software")
    assert automatic_device(CHIP, tmp_path, lambda: True) == "software"
