"""The library is built without warnings for every machine, and exports the C API and nothing else."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from openrknn.vendor.tables.functions import FUNCTIONS
from openrknn.vendor.tables.versions import Version, version_in_file
from tests.capi.building import NATIVE, cross_compiler
from tests.vendor.compiler import native_compiler

EXPORTED = {signature.name for function in FUNCTIONS.values() for signature in function.signatures}
FLAGS = ["-std=gnu11", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror", "-O2", "-fPIC", "-shared",
         "-fvisibility=hidden", f"-Wl,--version-script={NATIVE / 'exports.map'}", "-Wl,-z,defs"]  # fmt: skip


def built(compiler: str, folder: Path, *more: str) -> Path:
    target = folder / "librknnrt.so"
    words = [compiler, *FLAGS, *more, "-o", str(target), *map(str, sorted(NATIVE.glob("*.c"))), "-pthread", "-ldl"]
    result = subprocess.run(words, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return target


def exported(library: Path, nm: str = "nm") -> set[str]:
    words = [nm, "--dynamic", "--defined-only", "--format=posix", str(library)]
    result = subprocess.run(words, capture_output=True, text=True, check=True)
    return {line.split()[0].partition("@")[0] for line in result.stdout.splitlines()}


@pytest.mark.parametrize("machine", ["aarch64-linux-gnu", "arm-linux-gnueabihf"])
def test_cross_built(machine: str, tmp_path: Path) -> None:
    """The generated assertions compare every struct with the tables while it compiles."""
    library = built(cross_compiler(machine), tmp_path)
    assert exported(library, f"{machine}-nm") == EXPORTED


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_no_warnings(compiler: str, tmp_path: Path) -> None:
    if not shutil.which(compiler):
        pytest.skip(f"no {compiler} (Debian: apt install clang)")
    assert exported(built(compiler, tmp_path)) == EXPORTED


def test_the_installed_library(library: Path) -> None:
    for name in ("librknnrt.so", "librknnmrt.so"):
        path = library.with_name(name)
        assert exported(path) == EXPORTED
        assert version_in_file(path) == Version(2, 5, 0)
        dynamic = subprocess.run(["readelf", "-d", str(path)], capture_output=True, text=True, check=True).stdout
        assert f"[{name}]" in dynamic
        needed = {line.rpartition("[")[2].rstrip("]") for line in dynamic.splitlines() if "(NEEDED)" in line}
        assert needed <= {"libc.so.6", "libpthread.so.0", "libdl.so.2", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}


def test_an_older_default(tmp_path: Path) -> None:
    library = built(native_compiler(), tmp_path, '-DOPENRKNN_DEFAULT_ABI="1.5.2"')
    assert version_in_file(library) == Version(1, 5, 2)
