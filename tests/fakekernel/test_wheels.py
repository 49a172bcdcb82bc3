"""The vendor's Python packages, unmodified, below `openrknn exec`: what a user of them would do.

rknn-toolkit-lite2 comes from `tools/setup-vendor-wheel`. rknn-toolkit2 is too large to fetch for a test:
OPENRKNN_TOOLKIT2 names the Python of an environment that has it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from openrknn.runtime.session import Session
from tests.compat.wheel import Wheel, WheelMissingError
from tests.runtime.cases import GOLDENS, answers

pytestmark = pytest.mark.witness

EXEC = [sys.executable, "-m", "openrknn.cli", "exec"]
LITE = """
import sys
sys.path[:0] = sys.argv[3:]  # not PYTHONPATH: the emulated device runs in another Python, perhaps of another processor
import numpy as np
from rknnlite.api import RKNNLite
values = np.load(sys.argv[2])
lite = RKNNLite()
assert lite.load_rknn(sys.argv[1]) == 0
for mask in (0, 1, 2, 4, 3, 7, 0xFFFF):
    assert lite.init_runtime(core_mask=mask) == 0, mask
    (output,) = lite.inference(inputs=[values["x0"]])
    print(mask, float(np.abs(output - values["o0"]).max()))
lite.release()
"""
BUILD = """
import sys
from rknn.api import RKNN
rknn = RKNN()
rknn.config(target_platform="rk3588")
assert rknn.load_onnx(model=sys.argv[1]) == 0
assert rknn.build(do_quantization=False) == 0
assert rknn.export_rknn(sys.argv[2]) == 0
"""


def test_the_lite_wheel_runs_on_every_core_mask(tmp_path: Path) -> None:
    try:
        wheel = Wheel.find()
    except WheelMissingError as missing:
        pytest.skip(f"no rknn-toolkit-lite2: {missing}")
    model = GOLDENS / "residual_rk3588_i8.rknn"
    command = [*EXEC, "--library", str(wheel.library), "--", str(wheel.python), "-c", LITE, str(model)]
    done = subprocess.run(
        [*command, str(model.with_suffix(".npz")), *map(str, wheel.packages)], env={**os.environ, **wheel.environment},
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    results = [line.split() for line in done.stdout.splitlines() if line[:1].isdigit()]
    assert [int(mask) for mask, _ in results] == [0, 1, 2, 4, 3, 7, 0xFFFF]
    assert all(float(error) < 1e-6 for _, error in results)  # as the simulator has it
    assert "failed" not in done.stderr.splitlines()[-1]


def test_the_toolkit_builds_a_model(tmp_path: Path) -> None:
    python = os.environ.get("OPENRKNN_TOOLKIT2")
    if not python:
        pytest.skip("OPENRKNN_TOOLKIT2 does not name the Python of an environment with rknn-toolkit2 2.5.0")
    target = tmp_path / "built.rknn"
    command = [*EXEC, "-q", "--", python, "-c", BUILD, str(GOLDENS / "conv.onnx"), str(target)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    golden = GOLDENS / "conv_rk3588_fp.rknn"  # the same model, built on a machine without our device
    inputs, _ = answers(golden)
    with Session(target) as built, Session(golden) as wanted:
        assert [array.tobytes() for array in built.run(inputs).values()] == [
            array.tobytes() for array in wanted.run(inputs).values()
        ]
