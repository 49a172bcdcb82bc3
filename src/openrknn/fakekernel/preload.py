"""Finds the library to preload for a program's machine; for another machine than this one it is compiled on demand."""

from __future__ import annotations

import hashlib
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from openrknn.errors import UnsupportedError
from openrknn.folders import cache_folder

__all__ = [
    "EMULATE", "LIBRARIES", "SPY", "build", "host_machine", "library_for", "package_folders", "source_folder",
]  # fmt: skip

EMULATE, SPY = "preload", "spy"
LIBRARIES = {EMULATE: "libopenrknn_preload.so", SPY: "libopenrknn_spy.so"}
_SOURCES = {EMULATE: ("preload/*.c",), SPY: ("spy/*.c", "preload/arguments.c", "preload/channel.c", "preload/user.c")}
FLAGS = ("-std=gnu11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-ldl")
_COMPILERS = {
    "x86_64": "x86_64-linux-gnu-gcc", "aarch64": "aarch64-linux-gnu-gcc", "armhf": "arm-linux-gnueabihf-gcc",
}  # fmt: skip
_PACKAGES = {
    "x86_64": "gcc-x86-64-linux-gnu", "aarch64": "gcc-aarch64-linux-gnu libc6-dev-arm64-cross",
    "armhf": "gcc-arm-linux-gnueabihf libc6-dev-armhf-cross",
}  # fmt: skip


def host_machine() -> str:
    """This machine, as `uname -m` has it."""
    return {"arm64": "aarch64", "amd64": "x86_64"}.get(platform.machine().lower(), platform.machine())


def library_for(machine: str, name: str = EMULATE) -> Path:
    """The library for programs of a machine (x86_64 or aarch64): the one that emulates, or the one that spies."""
    shipped = _shipped(name) if machine == host_machine() else None
    return shipped if shipped is not None else _compile(machine, name)


def package_folders() -> list[Path]:
    """Where the package is."""
    # An editable install has two: the sources and the built files. Not `import openrknn`: it is above this layer.
    return [Path(folder) for folder in sys.modules["openrknn"].__path__]


def _shipped(name: str) -> Path | None:
    """The library that was built with the package, unless a checkout has newer sources."""
    for folder in package_folders():
        library = folder / "_native" / LIBRARIES[name]
        if library.is_file():
            return library if _contents(folder / "_native") == _contents(_sources()) else None
    return None


def source_folder(file: str) -> Path | None:
    """native/ of a checkout, or its copy in an installed package: the first that has the file."""
    folders = package_folders()
    checkouts = [folder.parent.parent / "native" for folder in folders]
    places = (*checkouts, *(folder / "_native" for folder in folders))
    return next((place for place in places if (place / file).is_file()), None)


def _sources() -> Path:
    found = source_folder("preload/preload.h")
    if found is None:
        raise UnsupportedError("the sources of the preload library are not installed; install openrknn again")
    return found


def _contents(folder: Path) -> dict[str, bytes]:
    paths = (path for name in LIBRARIES for path in sorted((folder / name).glob("*.[ch]")))
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def _compile(machine: str, name: str) -> Path:
    folder = _sources()
    inputs = [path for pattern in _SOURCES[name] for path in sorted(folder.glob(pattern))]
    return build(machine, LIBRARIES[name], inputs, FLAGS, b"".join(_contents(folder).values()))


def build(machine: str, name: str, sources: Sequence[Path], flags: Sequence[str], state: bytes | None = None) -> Path:
    """Compile C sources for a machine, once for each `state` of them; safe when several processes start together."""
    compiler = _compiler(machine)
    state = b"".join(path.read_bytes() for path in sources) if state is None else state
    digest = hashlib.sha256(state + compiler.encode()).hexdigest()[:16]
    target = _cache() / f"{digest}-{machine}" / name
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as place:
        built = Path(place) / name
        command = [compiler, "-o", str(built), *map(str, sources), *flags]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise UnsupportedError(f"{compiler} cannot compile {name}: {done.stderr.strip()[:500]}")
        built.replace(target)
    return target


def _compiler(machine: str) -> str:
    names = ["cc", "gcc"] if machine == host_machine() else [_COMPILERS.get(machine, f"{machine}-linux-gnu-gcc")]
    for name in names:
        if found := shutil.which(name):
            return found
    package = "gcc" if machine == host_machine() else _PACKAGES.get(machine, f"gcc-{machine}-linux-gnu")
    raise UnsupportedError(
        f"a helper for {machine} programs has to be compiled, and {names[-1]} is not here "
        f"(Debian: apt install {package})"
    )


def _cache() -> Path:
    found = cache_folder("preload", may_be_off=False)
    if found is None:  # what lies there is loaded into programs: nobody else may be able to write it
        raise UnsupportedError(
            "there is no folder that is yours alone for compiled helpers; set OPENRKNN_CACHE to one (chmod 700)"
        )
    return found
