"""Sessions on kernel drivers, tested on the emulated kernel through the same ioctls that a board would see."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from openrknn.chips import CHIPS
from openrknn.device import open_device
from openrknn.device.kernel import Driver, SystemKernel
from openrknn.errors import DeviceError, UnsupportedError
from openrknn.uapi import drm, rknpu
from tests.container.places import GOLDENS

ROOT = Path(__file__).resolve().parents[2]
ANSWERED = [path for path in GOLDENS if "_rk3588_" in path.stem and path.with_suffix(".npz").exists()]
PROGRAM = """
import sys
import numpy as np
import openrknn

device, *models = sys.argv[1:]
for model in models:
    answers = np.load(model[:-5] + ".npz")
    inputs = [answers[name] for name in sorted(answers) if name.startswith("x")]
    with openrknn.Session(model) as session:
        expected = session.run(inputs, outputs="raw")
    with openrknn.Session(model, device=device) as session:
        for _ in range(2):
            found = session.run(inputs, outputs="raw")
    same = all(np.array_equal(expected[name], found[name]) for name in expected)
    print(model, "same" if same else "different")
"""


def on_emulated_kernel(driver: str, models: list[Path]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "openrknn.cli", "exec", "--driver", driver, "--"]
    command += [sys.executable, "-c", PROGRAM, driver, *map(str, models)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=ROOT)


@pytest.mark.parametrize("driver", ["rknpu", "rocket"])
def test_sessions_give_the_bytes_of_the_software_npu(driver: str) -> None:
    result = on_emulated_kernel(driver, ANSWERED)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.split("\n")[:-1]
    assert lines == [f"{path} same" for path in ANSWERED]


class Refusing(SystemKernel):
    """A kernel that opens everything and answers nothing."""

    def open(self, path: str) -> int:
        return 99

    def close(self, descriptor: int) -> None:
        pass

    def ioctl(self, descriptor: int, request: int, argument: bytearray) -> None:
        raise OSError(25, "Inappropriate ioctl for device")


def test_errors_name_the_call() -> None:
    driver = Driver(Refusing(), "/dev/dri/card9")
    with pytest.raises(DeviceError, match="MEM_CREATE failed") as caught:
        driver.call(rknpu.MEM_CREATE, {"size": 4096})
    assert (caught.value.errno, caught.value.call) == (25, "MEM_CREATE")
    assert drm.VERSION.name == "VERSION"


@pytest.mark.parametrize("name", ["rknpu:/dev/does-not-exist", "rocket:/dev/null"])
def test_a_missing_device_says_what_was_tried(name: str) -> None:
    with pytest.raises(DeviceError, match="device='software'"):
        open_device(name, CHIPS["rk3588"])


def test_rocket_serves_one_chip() -> None:
    with pytest.raises(UnsupportedError, match="RK3588"):
        open_device("rocket", CHIPS["rk3566"])
