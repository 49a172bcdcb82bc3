"""What "auto" takes, wherever it is said: by what is in the machine, never by trying."""

from __future__ import annotations

import importlib.util
import logging
import re
import subprocess
import sys
from pathlib import Path

import pytest

from openrknn.chips import CHIPS
from openrknn.device import open_device
from openrknn.device.automatic import DEVICE_VARIABLE, automatic_device
from openrknn.errors import UnsupportedError
from openrknn.monitor.variables import NPU_VARIABLE
from openrknn.runtime import automatic
from openrknn.runtime.matmul.matmul import Matmul
from openrknn.runtime.session import Session
from tests.container.places import golden
from tests.machines import Machine, rknpu_board, rocket_board

CHIP = CHIPS["rk3588"]
MODEL = golden("residual_rk3588_i8")
ALL_PROGRAM = """
import sys
import openrknn
from openrknn.chips import CHIPS
from openrknn.runtime.inspector import Inspector
from openrknn.device import open_device

with openrknn.Session(sys.argv[1]) as session, openrknn.Matmul(4, 64, 32, "int8", device="auto") as matmul:
    print(session.device.name, matmul.device_name)
with open_device("auto", CHIPS["rk3588"]) as device, Inspector(openrknn.load(sys.argv[1])) as inspector:
    print(device.name, inspector.device.name)
"""


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
    monkeypatch.setenv(NPU_VARIABLE, "auto")
    assert automatic_device(CHIP, tmp_path, lambda: True) == "vendor", "nothing new was said"


@pytest.mark.parametrize("device", ["rknpu:/dev/dri/card1", "rocket:/dev/accel/accel0"])
def test_everybody_means_the_same_board(device: str) -> None:
    driver = device.partition(":")[0]
    command = [sys.executable, "-m", "openrknn.cli", "exec", "-q", "--driver", driver, "--", sys.executable, "-c"]
    command += [ALL_PROGRAM, str(MODEL)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=3000, check=False)
    whole, own = result.stdout.splitlines()
    assert own == f"{device} {device}", result.stderr
    if driver == "rknpu" and importlib.util.find_spec("rknpu"):  # which runs models as a whole, where it is installed
        assert re.fullmatch(r"vendor:\S*librknnrt\S* vendor", whole), result.stderr
    else:
        assert whole == f"{device} {device}", result.stderr


def test_everybody_means_the_same_without_a_board() -> None:
    multiplied = Matmul(4, 64, 32, "int8", device="auto")
    with Session(MODEL) as session, open_device("auto", CHIP) as device, multiplied as matmul:
        assert session.device.name == matmul.device_name == device.name == "software:rk3588"


def test_the_library_is_for_those_who_can_use_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models and matrix products as a whole; tasks of one's own need a driver, and the message says who is asked."""
    monkeypatch.setenv(NPU_VARIABLE, "vendor")
    assert automatic.named_device("auto", CHIP) == "vendor"
    assert automatic.named_device("software", CHIP) == "software"
    with pytest.raises(UnsupportedError, match="the vendor's library"):
        open_device("auto", CHIP)


@pytest.mark.parametrize(
    ("wanted", "given", "device"),
    [
        ("software", "rknpu", "software"),
        ("", "rknpu", "rknpu"),
        ("auto", "rknpu", "rknpu"),
        ("/run/folder-of-an-emulated-board", "", "software"),
        ("rknpu:/dev/dri/card1", "", "rknpu:/dev/dri/card1"),
    ],
)
def test_the_users_variable_comes_first(
    wanted: str, given: str, device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path is the folder of an emulated board, as OPENRKNN_DEVICE meant before."""
    monkeypatch.setenv(DEVICE_VARIABLE, wanted)
    monkeypatch.setenv(NPU_VARIABLE, given)
    assert automatic_device(CHIPS["rk3588"], tmp_path) == device
