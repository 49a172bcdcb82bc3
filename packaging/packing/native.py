"""The native libraries of a wheel: compiled by zig for any machine from any machine, and checked."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

from packing import archives, environment
from packing.errors import PackingError

__all__ = ["MACHINES", "check", "settings", "tag", "variables"]

MACHINES = ("aarch64", "x86_64")
GLIBC = "2.17"
"""The oldest C library that the native libraries run on: that of 2012, the first that knows aarch64."""
LIBRARIES = (
    "libopenrknn.so", "libopenrknn_ort.so", "libopenrknn_preload.so", "libopenrknn_spy.so",
    "librkllmrt.so", "librknnmrt.so", "librknnrt.so",
)  # fmt: skip
_PLATFORM = re.compile(r'"manylinux_(\d+)_(\d+)_(\w+)"')


def tag(machine: str) -> str:
    """The tag of a wheel for that machine; older pips know only the second name of the platform."""
    return f"py3-none-manylinux_{GLIBC.replace('.', '_')}_{machine}.manylinux2014_{machine}"


def settings(root: Path, machine: str) -> dict[str, str]:
    """What the build backend has to know."""
    return {
        "cmake.define.CMAKE_SYSTEM_NAME": "Linux",
        "cmake.define.CMAKE_SYSTEM_PROCESSOR": machine,
        "cmake.define.CMAKE_C_COMPILER": str(root / "packaging/zig-cc"),
        "cmake.define.OPENRKNN_ALL_KERNELS": "ON",
        # By the linker: the strip of this machine may not know the other's files.
        "install.strip": "false",
    }


def variables(machine: str, cache: Path) -> dict[str, str]:
    """The environment of the compiler, with a cache of its own: builds that are compared have nothing in common."""
    spec = importlib.util.find_spec("ziglang")
    if spec is None or spec.origin is None:
        raise PackingError("the package ziglang is not here; start packaging/build without OPENRKNN_PACKAGING")
    return {
        "OPENRKNN_ZIG": str(Path(spec.origin).parent / "zig"),
        "OPENRKNN_ZIG_TARGET": f"{machine}-linux-gnu.{GLIBC}",
        "ZIG_GLOBAL_CACHE_DIR": str(cache),
        "ZIG_LOCAL_CACHE_DIR": str(cache),
        "LDFLAGS": "-s",
        "CC": "",
    }


def check(wheel: Path, machine: str, paths: list[str]) -> None:
    """Refuse a wheel without all libraries, with paths of this machine, or of which auditwheel says something newer."""
    files = archives.read_wheel(wheel)
    if missing := [name for name in LIBRARIES if f"openrknn/_native/{name}" not in files]:
        raise PackingError(f"{wheel.name} has no {', '.join(missing)}; OPENRKNN_PACKAGING_VERBOSE=1 tells why")
    for name in LIBRARIES:
        if found := [path for path in paths if path.encode() in files[f"openrknn/_native/{name}"]]:
            raise PackingError(f"{name} of {wheel.name} names a path of this machine: {found[0]}")
    said = subprocess.run(
        [sys.executable, "-m", "auditwheel", "show", str(wheel)],
        env=environment.tools(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    allowed = _PLATFORM.search(said.stdout)
    oldest = tuple(int(part) for part in GLIBC.split("."))
    if not allowed or (int(allowed[1]), int(allowed[2])) > oldest or allowed[3] != machine:
        raise PackingError(f"auditwheel does not say manylinux_{GLIBC} of {wheel.name}:\n{said.stdout}{said.stderr}")
