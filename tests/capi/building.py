"""Compiles C programs against our headers and library."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from openrknn.capi.parts import header_folder
from tests.vendor.compiler import native_compiler

HERE = Path(__file__).resolve().parent
NATIVE = HERE.parents[1] / "native" / "capi"
GOLDENS = HERE.parent / "goldens"
TIMEOUT_S = 120


def cross_compiler(machine: str) -> str:
    """`machine` is a GNU triplet; the test is skipped without its compiler."""
    path = shutil.which(f"{machine}-gcc")
    if not path:
        pytest.skip(f"no compiler for {machine} (Debian: apt install gcc-{machine})")
    return path


@dataclass
class Ran:
    """What a program did."""

    code: int
    out: str
    err: str


@dataclass
class Programs:
    """Compiles and runs programs of this folder."""

    folder: Path
    library: Path
    short: Path
    """A folder with a short name: paths of sockets have 107 bytes."""
    environment: Mapping[str, str] = field(default_factory=dict)

    def compiled(self, name: str, options: Sequence[str] = (), *, linked: bool = True) -> Path:
        """tests/capi/NAME.c as a program; `linked` with librknnrt.so, or one that opens it itself."""
        target = self.folder / name
        words = [
            native_compiler(),
            "-std=gnu11",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-O1",
            f"-I{header_folder()}",
            *options,
        ]
        words += ["-o", str(target), str(HERE / f"{name}.c")]
        if linked:
            words += [str(self.library), f"-Wl,-rpath,{self.library.parent}"]
        result = subprocess.run([*words, "-pthread", "-ldl"], capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr
        return target

    def run(self, program: Path, *arguments: object, **environment: str) -> Ran:
        """Run it with our engine."""
        words = [str(program), *(str(one) for one in arguments)]
        found = {**os.environ, **self.environment, **environment}
        result = subprocess.run(words, capture_output=True, text=True, check=False, timeout=TIMEOUT_S, env=found)
        return Ran(result.returncode, result.stdout, result.stderr)
