"""Finds the preload library for a program's machine; for another machine than this one it is compiled on demand."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from openrknn.errors import UnsupportedError

__all__ = ["LIBRARY_NAME", "host_machine", "library_for"]

LIBRARY_NAME = "libopenrknn_preload.so"
FLAGS = ("-std=gnu11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-ldl")
_COMPILERS = {"x86_64": "x86_64-linux-gnu-gcc", "aarch64": "aarch64-linux-gnu-gcc"}
_PACKAGES = {"x86_64": "gcc-x86-64-linux-gnu", "aarch64": "gcc-aarch64-linux-gnu libc6-dev-arm64-cross"}


def host_machine() -> str:
    """This machine, as `uname -m` has it."""
    return {"arm64": "aarch64", "amd64": "x86_64"}.get(platform.machine().lower(), platform.machine())


def library_for(machine: str) -> Path:
    """The library for programs of a machine (x86_64 or aarch64)."""
    if machine == host_machine():
        for folder in _package_folders():
            if (shipped := folder / "_native" / LIBRARY_NAME).is_file():
                return shipped
    return _compile(machine)


def _package_folders() -> list[Path]:
    # An editable install has two: the sources and the built files. Not `import openrknn`: it is above this layer.
    return [Path(folder) for folder in sys.modules["openrknn"].__path__]


def _sources() -> list[Path]:
    """Beside the library in an installed package, in native/ of a checkout."""
    for folder in _package_folders():
        for place in (folder / "_native" / "preload", folder.parent.parent / "native" / "preload"):
            if (place / "preload.h").is_file():
                return sorted([*place.glob("*.c"), *place.glob("*.h")])
    raise UnsupportedError("the sources of the preload library are not installed; install openrknn again")


def _compile(machine: str) -> Path:
    """Compile once for each state of the sources; safe when several processes start together."""
    compiler = _compiler(machine)
    sources = _sources()
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources) + compiler.encode()).hexdigest()[:16]
    target = _cache() / f"{digest}-{machine}" / LIBRARY_NAME
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        built = Path(folder) / LIBRARY_NAME
        inputs = [str(source) for source in sources if source.suffix == ".c"]
        command = [compiler, *FLAGS, "-o", str(built), *inputs]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise UnsupportedError(f"{compiler} cannot compile the preload library: {done.stderr.strip()[:500]}")
        built.replace(target)
    return target


def _compiler(machine: str) -> str:
    names = ["cc", "gcc"] if machine == host_machine() else [_COMPILERS.get(machine, f"{machine}-linux-gnu-gcc")]
    for name in names:
        if found := shutil.which(name):
            return found
    package = "gcc" if machine == host_machine() else _PACKAGES.get(machine, f"gcc-{machine}-linux-gnu")
    raise UnsupportedError(
        f"the preload library for {machine} programs has to be compiled, and {names[-1]} is not here "
        f"(Debian: apt install {package})"
    )


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "openrknn" / "preload"
