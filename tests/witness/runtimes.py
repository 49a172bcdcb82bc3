"""Newer runtimes of the vendor that somebody supplied: recognised by what is in the files, kept in a folder.

    python -m tests.witness.runtimes FOLDER         what tools/setup-witness FOLDER does

None of them is part of this repository. They are for 32-bit Arm: librknnrt 1.6.0 and 2.0.0b8 (RK3588, RK3576,
RK3566/68, RK3562), and librknnmrt.a (RV1103, RV1106), which wants uClibc: the archive is linked here with the GNU C
library and the two tables that this lacks (uclibc.c).
"""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.witness.testimony import WitnessMissingError
from tests.witness.witness import HERE, compile_helper, find_cross_compiler

_VERSION = re.compile(rb"lib(rknnrt|rknnmrt) version: ([0-9][0-9A-Za-z.]*)")
_ELF = struct.Struct("<4sBB12xH")
_MACHINES = {(2, 183): "aarch64", (1, 40): "armhf", (2, 62): "x86_64"}
_ARCHIVE = b"!<arch>\n"
_C_LIBRARIES = {b"\0libc.so.6\0": "glibc", b"\0libc.so.0\0": "uClibc", b"\0libc.so\0": "bionic"}
_LARGEST = 64 << 20
MACHINE = "armhf"


@dataclass(frozen=True)
class Runtime:
    """What a file says of itself."""

    name: str
    """rknnrt or rknnmrt."""
    version: str
    machine: str
    c_library: str
    """glibc, uClibc, bionic, or none: an archive."""

    @property
    def file_name(self) -> str:
        return f"lib{self.name}-{self.version}-{self.machine}.so"


def recognise(data: bytes) -> Runtime | None:
    """The runtime in a file; None if it is none."""
    found = _VERSION.search(data)
    if found is None:
        return None
    is_archive = data.startswith(_ARCHIVE)
    start = data.find(b"\x7fELF") if is_archive else 0
    if start < 0 or len(data) - start < _ELF.size:
        return None
    magic, width, _, machine = _ELF.unpack_from(data, start)
    if magic != b"\x7fELF":
        return None
    known = next((name for mark, name in _C_LIBRARIES.items() if mark in data), "unknown")
    return Runtime(
        found[1].decode(), found[2].decode().rstrip("."), _MACHINES.get((width, machine), f"machine {machine}"),
        "none" if is_archive else known,
    )  # fmt: skip


def folder() -> Path:
    """Where `install` puts them."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "openrknn-runtimes"


def find(name: str, version: str) -> Path:
    """An installed runtime, or `WitnessMissingError`."""
    path = folder() / Runtime(name, version, MACHINE, "").file_name
    if not path.is_file():
        raise WitnessMissingError(f"lib{name} {version} for {MACHINE} is not here; run tools/setup-witness FOLDER")
    return path


def install(source: Path) -> list[str]:
    """Take what is in a folder; one line on each file that is a runtime."""
    said = []
    for path in sorted(source.rglob("*")):
        if not path.is_file() or path.stat().st_size > _LARGEST:
            continue
        data = path.read_bytes()
        runtime = recognise(data)
        if runtime is not None:
            about = f"lib{runtime.name} {runtime.version}, {runtime.machine}"
            said.append(f"{path}: {about}, {_taken(runtime, path, data)}")
    return said


def _taken(runtime: Runtime, path: Path, data: bytes) -> str:
    if runtime.machine != MACHINE or runtime.c_library not in {"glibc", "none"}:
        return f"{runtime.c_library}: not used, only {MACHINE} with glibc and archives are"
    folder().mkdir(parents=True, exist_ok=True)
    target = folder() / runtime.file_name
    with tempfile.TemporaryDirectory(dir=folder()) as place:
        made = Path(place) / "made.so"
        if runtime.c_library == "glibc":
            made.write_bytes(data)
        elif problem := _link(path, made):
            return f"an archive: not used, {problem}"
        made.replace(target)
    return f"{runtime.c_library}: taken as {target.name}"


def _link(archive: Path, target: Path) -> str:
    """An archive as a library; what went wrong."""
    try:
        compiler = find_cross_compiler(MACHINE)
    except WitnessMissingError as missing:
        return str(missing)
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place) / "library.a"  # the compiler goes by the name
        copy.write_bytes(archive.read_bytes())
        words = [compiler, "-shared", "-fPIC", "-O2", "-o", str(target), "-Wl,--whole-archive", str(copy)]
        words += ["-Wl,--no-whole-archive", str(HERE / "uclibc.c"), "-lm", "-Wl,-z,defs"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"it cannot be linked: {done.stderr.strip()[-300:]}"


def driver(source: str, cache: Path | None = None) -> Path:
    """A program of this folder, compiled for these runtimes."""
    compiler = find_cross_compiler(MACHINE)
    return compile_helper(compiler, HERE / f"{source}.c", cache or folder(), source, ())


if __name__ == "__main__":
    given = Path(sys.argv[1])
    lines = install(given) if given.is_dir() else []
    for line in lines:
        print(f"witness: {line}", file=sys.stderr)
    if not lines:
        print(f"witness: {given} holds no runtime (librknnrt.so, librknnmrt.a)", file=sys.stderr)
