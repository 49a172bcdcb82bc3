"""The same programs on the library for Arm (64 and 32 bits) under emulation, and on one that sanitizers watch.

The engine is the machine's own in every case: the protocol is the same. Under emulation the kernel's copies inside a
process are missing, so this is also the test of the other way (a pipe).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.capi.building import GOLDENS, HERE, NATIVE, TIMEOUT_S, cross_compiler
from tests.capi.conftest import RunningEngine
from tests.capi.test_build import built
from tests.vendor.compiler import native_compiler

MODEL = GOLDENS / "image_rk3588_i8.rknn"
MACHINES = {"aarch64-linux-gnu": "qemu-aarch64", "arm-linux-gnueabihf": "qemu-arm"}
SANITIZED = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer", "-g", "-O1"]


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """The library of a compiler, built once."""
    made: dict[str, Path] = {}

    def of(compiler: str, *options: str) -> Path:
        if compiler not in made:
            made[compiler] = built(compiler, tmp_path_factory.mktemp("library"), *options)
        return made[compiler]

    return of


def compiled(compiler: str, name: str, library: Path, *options: str) -> Path:
    target = library.parent / name
    words = [compiler, "-std=gnu11", *options, f"-I{NATIVE / 'include'}", "-o", str(target), str(HERE / f"{name}.c")]
    words += [str(library), f"-Wl,-rpath,{library.parent}", "-pthread", "-ldl"]
    result = subprocess.run(words, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return target


@pytest.mark.parametrize("name", ["whole", "hostile", "forks", "older"])
@pytest.mark.parametrize("machine", MACHINES)
def test_other_machines(machine: str, name: str, libraries: Callable[..., Path], shared_engine: RunningEngine) -> None:
    compiler = cross_compiler(machine)
    emulator, root = shutil.which(MACHINES[machine]), Path("/usr") / machine
    if not emulator or not (root / "lib" / "libc.so.6").exists():
        pytest.skip(f"no emulator {MACHINES[machine]} (Debian: apt install qemu-user) or no C library in {root}")
    program = compiled(compiler, name, libraries(compiler))
    words = [emulator, "-L", str(root), str(program), str(MODEL)]
    environment = {**os.environ, "OPENRKNN_ENGINE_SOCKET": str(shared_engine.path)}
    ran = subprocess.run(words, capture_output=True, text=True, check=False, timeout=TIMEOUT_S, env=environment)
    assert ran.returncode == 0, ran.stdout + ran.stderr[-2000:]
    assert all(line.startswith("E RKNN: [openrknn] rknn_") for line in ran.stderr.splitlines())


@pytest.mark.parametrize("name", ["whole", "hostile", "forks", "threads", "older"])
def test_sanitizers_find_nothing(
    name: str, tmp_path: Path, libraries: Callable[..., Path], shared_engine: RunningEngine
) -> None:
    """No access outside of what is allocated, nothing undefined, nothing lost at exit."""
    compiler = native_compiler()
    (tmp_path / "empty.c").write_text("int main(void) { return 0; }\n")
    probe = [compiler, *SANITIZED, "-o", str(tmp_path / "empty"), str(tmp_path / "empty.c")]
    if subprocess.run(probe, capture_output=True, check=False).returncode != 0:
        pytest.skip("this compiler has no sanitizers (Debian: apt install libasan8 libubsan1)")
    program = compiled(compiler, name, libraries(compiler, *SANITIZED), *SANITIZED)
    environment = {**os.environ, "OPENRKNN_ENGINE_SOCKET": str(shared_engine.path)}
    words = [str(program), str(MODEL)]
    ran = subprocess.run(words, capture_output=True, text=True, check=False, timeout=TIMEOUT_S, env=environment)
    assert ran.returncode == 0, ran.stdout + ran.stderr[-3000:]
    assert "Sanitizer" not in ran.stderr


def test_threads_do_not_race(tmp_path: Path, shared_engine: RunningEngine) -> None:
    """ThreadSanitizer watches the library while eight threads, a fork and signals are at work."""
    compiler = native_compiler()
    options = ["-fsanitize=thread", "-g", "-O1"]
    (tmp_path / "empty.c").write_text("int main(void) { return 0; }\n")
    empty = str(tmp_path / "empty")
    if subprocess.run([compiler, *options, "-o", empty, f"{empty}.c"], capture_output=True, check=False).returncode:
        pytest.skip("this compiler has no thread sanitizer (Debian: apt install libtsan2)")
    if subprocess.run([empty], capture_output=True, check=False).returncode:
        pytest.skip("the thread sanitizer does not work with this kernel's address space")
    program = compiled(compiler, "threads", built(compiler, tmp_path, *options), *options)
    words = {"OPENRKNN_ENGINE_SOCKET": str(shared_engine.path), "TSAN_OPTIONS": "report_signal_unsafe=0"}
    ran = subprocess.run(
        [str(program), str(MODEL)], capture_output=True, text=True, check=False, timeout=TIMEOUT_S,
        env={**os.environ, **words},
    )  # fmt: skip
    assert (ran.returncode, ran.stdout) == (0, "fine\n"), ran.stderr[-3000:]
