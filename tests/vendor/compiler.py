"""Compiles C for the tests, once for each state of the sources."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


def native_compiler() -> str:
    """A C compiler for this machine; the test is skipped without one."""
    for name in (os.environ.get("CC", ""), "cc", "gcc", "clang"):
        if name and (path := shutil.which(name)):
            return path
    pytest.skip("no C compiler (Debian: apt install gcc)")


def compiled(compiler: str, source: Path, name: str, options: Sequence[str] = ()) -> Path:
    """The compiled file, in the user's cache; safe when several test processes start together."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "openrknn-vendor-tests"
    words = [compiler, *options]
    headers = (path.read_bytes() for path in sorted(HERE.glob("*.h")))
    parts = [source.read_bytes(), *headers, *(word.encode() for word in words)]
    target = base / hashlib.sha256(b"\0".join(parts)).hexdigest()[:16] / name
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        built = Path(folder) / name
        command = [compiler, "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", f"-I{HERE}", *options]
        result = subprocess.run(
            [*command, "-o", str(built), str(source), "-lpthread"], capture_output=True, text=True, check=False
        )
        assert result.returncode == 0, result.stderr
        built.replace(target)
    return target
