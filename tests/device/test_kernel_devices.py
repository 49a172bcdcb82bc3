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
from openrknn.monitor.variables import MASK_VARIABLE, NPU_VARIABLE
from openrknn.uapi import drm, rknpu
from tests.container.places import GOLDENS, IS_WHOLE
from tests.runtime.cases import CORPUS, MODELS

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
    with openrknn.Session(model, device="software") as session:
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
    return subprocess.run(command, capture_output=True, text=True, timeout=3000, check=False, cwd=ROOT)


def corpus() -> list[Path]:
    """The shared corpus, if it is here: a choice of it, or all with OPENRKNN_CORPUS=all."""
    cases = sorted((CORPUS / "rk3588").glob("*.npz"))
    if IS_WHOLE:
        cases += sorted(MODELS.glob("*rk3588*.npz"))
    else:
        cases = [path for path in cases if path.stem.startswith(("dw_", "softmax", "matmul", "maxpool", "mbv2"))]
    return [path.with_suffix(".rknn") for path in cases]


@pytest.mark.parametrize("driver", ["rknpu", "rocket"])
def test_the_corpus_gives_the_bytes_of_the_software_npu(driver: str) -> None:
    if not (models := corpus()):
        pytest.skip("the shared corpus is not on this machine")
    result = on_emulated_kernel(driver, models)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [f"{path} same" for path in models]


@pytest.mark.parametrize("driver", ["rknpu", "rocket"])
def test_sessions_give_the_bytes_of_the_software_npu(driver: str) -> None:
    result = on_emulated_kernel(driver, ANSWERED)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.split("\n")[:-1]
    assert lines == [f"{path} same" for path in ANSWERED]


PROFILE_PROGRAM = """
import sys
import numpy as np
import openrknn
values = np.load(sys.argv[1][:-5] + ".npz")
with openrknn.Session(sys.argv[1], device="rocket") as session:
    rows = session.profile([values["x0"]]).operators
print([row.type for row in rows if row.software_tasks])
"""


def test_the_profile_says_what_rocket_could_not_do() -> None:
    """Pooling ends in a block whose interrupt the driver does not wait for."""
    command = [sys.executable, "-m", "openrknn.cli", "exec", "-q", "--driver", "rocket", "--", sys.executable, "-c"]
    command += [PROFILE_PROGRAM, str(ROOT / "tests" / "goldens" / "average_pool_rk3588_i8.rknn")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=3000, check=False, cwd=ROOT)
    assert result.stdout == "['AveragePool']\n", result.stderr


CHIP_PROGRAM = (
    """
import os
print(open("/proc/device-tree/compatible").read().rstrip("\\0").split("\\0")[-1])
print([path for path in ("/dev/dri/card1", "/dev/dri/renderD129", "/dev/rknpu") if os.path.exists(path)])
"""
    + PROGRAM
)


@pytest.mark.parametrize("chip", sorted(set(CHIPS) - {"rk3588"}))
def test_every_chip_has_its_driver(chip: str) -> None:
    """The nodes that its boards have, and an NPU behind them that runs its models."""
    answered = sorted((ROOT / "tests" / "goldens").glob(f"*_{chip.replace('rk3568', 'rk3566')}_*.npz"))
    models = [str(path.with_suffix(".rknn")) for path in answered]
    assert models
    command = [sys.executable, "-m", "openrknn.cli", "exec", "-q", "--chip", chip, "--"]
    command += [sys.executable, "-c", CHIP_PROGRAM, "rknpu", *models]
    result = subprocess.run(command, capture_output=True, text=True, timeout=3000, check=False, cwd=ROOT)
    lines = [f"rockchip,{chip}", str(list(CHIPS[chip].driver_nodes)), *(f"{model} same" for model in models)]
    assert result.stdout.splitlines() == lines, result.stderr


@pytest.mark.parametrize("mask", ["2", "0x4", "3"])
def test_a_process_keeps_to_the_cores_that_it_was_given(mask: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MASK_VARIABLE, mask)
    result = on_emulated_kernel("rknpu", ANSWERED[:1])
    assert result.stdout == f"{ANSWERED[0]} same\n", result.stderr


def test_more_cores_than_one_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MASK_VARIABLE, "2")
    monkeypatch.setenv(NPU_VARIABLE, "rknpu")
    program = f"import openrknn, numpy; s = openrknn.Session({str(ANSWERED[0])!r}, cores=2)\n"
    program += "s.run([numpy.zeros(spec.shape, 'float32') for spec in s.inputs])"
    command = [sys.executable, "-m", "openrknn.cli", "exec", "--", sys.executable, "-c", program]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=ROOT)
    assert "this process may use 1 (core mask 0x2); ask for fewer cores" in result.stderr


@pytest.mark.parametrize(("mask", "words"), [("many", "is not a number"), ("9", "does not have")])
def test_masks_that_make_no_sense(mask: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MASK_VARIABLE, mask)
    with pytest.raises(ValueError, match=words):
        open_device("rknpu", CHIPS["rk3588"])


def test_the_environment_says_what_auto_means(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NPU_VARIABLE, "rknpu:/dev/does-not-exist")
    with pytest.raises(DeviceError, match="does-not-exist"):
        open_device("auto", CHIPS["rk3588"])
    assert open_device("software", CHIPS["rk3588"]).name == "software:rk3588"


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
