"""Makes wheels of openrknn with and without native libraries, its sdist, and wheels of the two faces."""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from packing import archives, environment, sources
from packing.errors import PackingError

__all__ = ["GLIBC", "MACHINES", "build_native", "build_pure", "build_sdist"]

MACHINES = ("aarch64", "x86_64")
GLIBC = "2.17"
"""The oldest C library that the native libraries run on: CentOS 7's, which is also the first that knows aarch64."""
LIBRARIES = (
    "libopenrknn.so", "libopenrknn_ort.so", "libopenrknn_preload.so", "libopenrknn_spy.so",
    "librknnmrt.so", "librknnrt.so",
)  # fmt: skip
_HOOK = """
import json, sys
from scikit_build_core import build
print(getattr(build, sys.argv[1])(sys.argv[2], json.loads(sys.argv[3])))
"""


def build_pure(root: Path, out: Path) -> Path:
    """openrknn for every machine that has NumPy: no native library."""
    return _wheel(root, out, "py3-none-any", {"wheel.cmake": "false"}, {})


def build_native(root: Path, out: Path, machine: str) -> Path:
    """openrknn with its native libraries, compiled by zig for that machine."""
    spec = importlib.util.find_spec("ziglang")
    if spec is None or spec.origin is None:
        raise PackingError("the package ziglang is not here; start packaging/build without OPENRKNN_PACKAGING")
    settings = {
        "cmake.define.CMAKE_SYSTEM_NAME": "Linux",
        "cmake.define.CMAKE_SYSTEM_PROCESSOR": machine,
        "cmake.define.CMAKE_C_COMPILER": str(root / "packaging/zig-cc"),
        # Nothing of the machine that builds.
        "cmake.define.CMAKE_FIND_ROOT_PATH_MODE_PROGRAM": "NEVER",
        "install.strip": "false",  # by the linker: the strip of this machine may not know the other's files
    }
    flags = {
        "OPENRKNN_ZIG": str(Path(spec.origin).parent / "zig"),
        "OPENRKNN_ZIG_TARGET": f"{machine}-linux-gnu.{GLIBC}",
        "LDFLAGS": "-s",
        "CC": "",
    }
    platforms = f"manylinux_{GLIBC.replace('.', '_')}_{machine}"
    if GLIBC == "2.17":
        platforms += f".manylinux2014_{machine}"  # the name that older pips know
    wheel = _wheel(root, out, f"py3-none-{platforms}", settings, flags)
    inside = archives.read_wheel(wheel)
    if missing := [name for name in LIBRARIES if f"openrknn/_native/{name}" not in inside]:
        raise PackingError(f"{wheel.name} has no {', '.join(missing)}: read what the compiler said above")
    return wheel


def build_sdist(root: Path, out: Path) -> Path:
    """The sources that pip compiles itself where no wheel fits."""
    with tempfile.TemporaryDirectory() as work:
        source = sources.stage(root, Path(work) / "openrknn")
        return out / _run("build_sdist", source, out, {}, _clean(root, source, {}))


def _wheel(root: Path, out: Path, tag: str, settings: Mapping[str, str], flags: Mapping[str, str]) -> Path:
    with tempfile.TemporaryDirectory() as work:
        source = sources.stage(root, Path(work) / "openrknn")
        made = Path(work) / "wheel"
        made.mkdir()
        made /= _run("build_wheel", source, made, settings, _clean(root, source, flags))
        files = archives.read_wheel(made)
    return archives.write_wheel(out, "openrknn", sources.version(root), tag, files, epoch=sources.epoch(root))


def _clean(root: Path, source: Path, extra: Mapping[str, str]) -> dict[str, str]:
    """The environment of a build: nobody's compiler flags, one time, no path of this machine."""
    kept = {key: value for key, value in environment.tools().items() if key not in {"CFLAGS", "CMAKE_ARGS", "LDFLAGS"}}
    own = {
        "SOURCE_DATE_EPOCH": str(sources.epoch(root)),
        "CFLAGS": f"-ffile-prefix-map={source}=.",
        "PYTHONDONTWRITEBYTECODE": "1",
        **extra,
    }
    return {key: value for key, value in {**kept, **own}.items() if value}


def _run(hook: str, source: Path, target: Path, settings: Mapping[str, str], variables: Mapping[str, str]) -> str:
    """Run a hook of the build backend, and return the name of what it made."""
    command = [sys.executable, "-c", _HOOK, hook, str(target), json.dumps(dict(settings))]
    done = subprocess.run(command, cwd=source, env=dict(variables), capture_output=True, text=True, check=False)
    if done.returncode or os.environ.get("OPENRKNN_PACKAGING_VERBOSE"):
        sys.stderr.write(done.stdout + done.stderr)
    if done.returncode:
        raise PackingError(f"{hook} failed; what it said is above")
    return done.stdout.splitlines()[-1]
