"""The kernels for Arm, made by a cross compiler and run under qemu: the same bytes as NumPy, as on this machine.

Needs a compiler for aarch64 (Debian: gcc-aarch64-linux-gnu), the emulator and an aarch64 Python
(`tools/setup-arm64-python`). On an Arm machine tests/npu/test_accelerate.py does the same without emulation.
"""

from __future__ import annotations

import os
import pickle
import platform
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.container.places import IS_WHOLE
from tests.npu.accelerate_cases import (
    TARGET,
    Case,
    convolutions,
    flights,
    float_convolutions,
    float_flights,
    poolings,
)

ROOT = Path(__file__).resolve().parents[2]
COMPILER = shutil.which("aarch64-linux-gnu-gcc")
EMULATOR = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
PYTHON_ROOT = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "openrknn-arm64-python" / "root"
EXAMPLES = 4 if IS_WHOLE else 2
"""Of each kind of step; emulation is slow."""
KINDS = {
    "convolutions": convolutions(depthwise=False),
    "depthwise": convolutions(depthwise=True),
    "pictures": convolutions(depthwise=False, picture=True),
    "unusual convolutions": convolutions(depthwise=False, usual=False),
    "element-wise": flights(usual=True),
    "unusual element-wise": flights(usual=False),
    "pooling": poolings(),
    "float convolutions": float_convolutions(depthwise=False),
    "float depthwise": float_convolutions(depthwise=True),
    "float pictures": float_convolutions(depthwise=False, picture=True),
    "float element-wise": float_flights(),
}

FLAGS = {
    "neon": ["-march=armv8-a"],
    "dotprod": ["-march=armv8.2-a+dotprod"],
    "i8mm": ["-march=armv8.2-a+dotprod+i8mm"],
}
OTHERS = {"amx", "avx2", "avxvnni", "avxvnni_evex", "vnni"}


def build(folder: Path) -> None:
    """The library as CMakeLists.txt makes it, without CMake: that one is asked for the machine it runs on."""
    assert COMPILER is not None
    common = ["-std=gnu11", "-O2", "-fPIC", "-ffp-contract=off", "-fno-math-errno", "-fvisibility=hidden"]
    common += [f"-DOPENRKNN_HAS_{name.upper()}" for name in FLAGS]
    jobs = []
    for source in sorted((ROOT / "native").glob("*.c")):
        if source.stem not in OTHERS:
            target = folder / f"{source.stem}.o"
            flags = [*common, *FLAGS.get(source.stem, [])]
            jobs.append((target, [COMPILER, *flags, "-c", str(source), "-o", str(target)]))
    processes = [subprocess.Popen(command) for _, command in jobs]
    assert all(process.wait() == 0 for process in processes)
    library = folder / "_native" / "libopenrknn.so"
    library.parent.mkdir()
    objects = [str(target) for target, _ in jobs]
    subprocess.run([COMPILER, "-shared", "-o", str(library), *objects, "-lpthread", "-lm"], check=True)


def examples(strategy: st.SearchStrategy[Case]) -> list[Case]:
    """The same ones every time; hypothesis itself does not run in there."""
    found: list[Case] = []

    @settings(
        max_examples=EXAMPLES, deadline=None, database=None, derandomize=True, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(strategy)
    def keep(case: Case) -> None:
        found.append(case)

    keep()
    return found


@pytest.mark.skipif(platform.machine() == "aarch64", reason="this is an Arm machine: test_accelerate runs them all")
@pytest.mark.skipif(COMPILER is None, reason="no compiler for Arm: apt install gcc-aarch64-linux-gnu")
@pytest.mark.skipif(EMULATOR is None, reason="no emulator: tools/setup-arm64-python --install")
@pytest.mark.skipif(not (PYTHON_ROOT / "packages/numpy").exists(), reason="no aarch64 Python: tools/setup-arm64-python")
def test_the_kernels_for_arm_give_the_bytes_of_numpy(tmp_path: Path) -> None:
    assert EMULATOR is not None
    build(tmp_path)
    cases = [
        (case.step, case.memory, TARGET, case.outcome(None)) for kind in KINDS.values() for case in examples(kind)
    ]
    assert len(cases) > (EXAMPLES // 2) * len(KINDS)
    (tmp_path / "cases").write_bytes(pickle.dumps(cases))
    # NumPy from the aarch64 Python, what is pure Python from this one.
    packages = [PYTHON_ROOT / "packages", ROOT / "src", ROOT, Path(sysconfig.get_path("purelib"))]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OPENRKNN_", "PYTHON"))}
    environment |= {
        "PYTHONPATH": os.pathsep.join(map(str, packages)),
        "PYTHONPYCACHEPREFIX": str(PYTHON_ROOT.parent / "bytecode"),
        "OPENRKNN_THREADS": "1",
    }
    script = ROOT / "tests/compute/inside/arm_kernels.py"
    done = subprocess.run(
        [EMULATOR, "-cpu", "max", "-L", str(PYTHON_ROOT), str(PYTHON_ROOT / "usr/bin/python3"), str(script),
         str(tmp_path), str(tmp_path / "cases")],
        env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == [str(len(cases)), "TILES", "SCALAR", "NEON", "DOTPROD", "I8MM"]
