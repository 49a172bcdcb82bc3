"""Threads that open, run and close sessions on a kernel driver at once, and what is left in the kernel afterwards."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "tests" / "goldens" / "residual_rk3588_i8.rknn"
COUNTING = """
import sys, threading
import numpy as np
import openrknn
from openrknn.chips import CHIPS
from openrknn.device.kernel import SystemKernel
from openrknn.device.rknpu import RknpuDevice
from openrknn.device.rocket import RocketDevice
from openrknn.uapi import drm, rknpu, rocket

NAMES = {rknpu.MEM_CREATE.request: "made", rknpu.MEM_DESTROY.request: "gone", rocket.CREATE_BO.request: "made",
         drm.GEM_CLOSE.request: "gone"}


class Counting(SystemKernel):
    def __init__(self):
        self.counts, self.lock = {"made": 0, "gone": 0}, threading.Lock()

    def ioctl(self, descriptor, request, argument):
        super().ioctl(descriptor, request, argument)
        if request in NAMES:
            with self.lock:
                self.counts[NAMES[request]] += 1


kernel = Counting()
device = {"rknpu": RknpuDevice, "rocket": RocketDevice}[sys.argv[1]](CHIPS["rk3588"], kernel=kernel)
"""
THREADS = (
    COUNTING
    + """
values = np.load(sys.argv[2][:-5] + ".npz")
inputs = [values[name] for name in sorted(values) if name.startswith("x")]
errors, same = [], []


def work(first, expected):
    try:
        for _ in range(8):
            with openrknn.Session(first.model, share_weights_with=first) as session:
                found = session.run(inputs, outputs="raw")
            same.append(all(np.array_equal(expected[name], found[name]) for name in expected))
    except Exception as error:
        errors.append(repr(error))


with device:
    with openrknn.Session(sys.argv[2], device=device) as first:
        expected = first.run(inputs, outputs="raw")
        threads = [threading.Thread(target=work, args=(first, expected)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
print(errors, len(same), all(same), kernel.counts["made"] == kernel.counts["gone"] > 0)
"""
)
PRODUCTS = (
    COUNTING
    + """
from openrknn import Matmul
rng = np.random.default_rng(0)
right = 0
with device, Matmul(4, 64, 32, "int8", device=device) as product:
    for _ in range(50):
        a, b = rng.integers(-128, 128, (4, 64), np.int8), rng.integers(-128, 128, (64, 32), np.int8)
        right += np.array_equal(product(a, b), a.astype(np.int32) @ b.astype(np.int32))
    alive = kernel.counts["made"] - kernel.counts["gone"]
print(right, alive, kernel.counts["made"] - kernel.counts["gone"])
"""
)


def run(driver: str, program: str, *words: str) -> str:
    command = [sys.executable, "-m", "openrknn.cli", "exec", "-q", "--driver", driver, "--"]
    command += [sys.executable, "-c", program, driver, *words]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=ROOT)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("driver", ["rknpu", "rocket"])
def test_threads_share_weights_while_others_open_and_close(driver: str) -> None:
    """FINDINGS 6: a job made caches of all buffers consistent, also of those that were just being destroyed."""
    assert run(driver, THREADS, str(MODEL)) == "[] 32 True True\n"


@pytest.mark.parametrize("driver", ["rknpu", "rocket"])
def test_a_new_matrix_leaves_nothing_in_the_kernel(driver: str) -> None:
    """FINDINGS 7: A, B, C, commands, and with rknpu the task records of the last job."""
    assert run(driver, PRODUCTS) == f"50 {5 if driver == 'rknpu' else 4} 0\n"
