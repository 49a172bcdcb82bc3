"""Where the parts of the open library are: the file itself, for any machine, its headers, and what starts its engine.

The library is built with the package, for the machine that it is installed on. For another machine it is compiled on
demand from the sources that the package brings, as the preload library of `openrknn exec` is.
"""

from __future__ import annotations

import sys
from pathlib import Path

from openrknn.capi.structs import NEWEST
from openrknn.errors import UnsupportedError
from openrknn.fakekernel.preload import build, host_machine

__all__ = ["API_VERSION", "HEADERS", "MACHINES", "NAMES", "engine_command", "header_folder", "library_for"]

NAMES = ("librknnrt.so", "librknnmrt.so")
"""The file, and the other name under which programs for RV1103 and RV1106 ask for it."""
HEADERS = ("rknn_api.h", "rknn_matmul_api.h", "rknn_custom_op.h")
MACHINES = ("x86_64", "aarch64", "armhf")
API_VERSION = str(NEWEST)
"""The newest version of the C API that the library has; `OPENRKNN_ABI` chooses an older one."""

_FLAGS = (
    "-std=gnu11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-pthread", f"-Wl,-soname,{NAMES[0]}",
    "-Wl,-z,defs", "-Wl,-z,now", "-Wl,-z,noexecstack", "-ldl",
)  # fmt: skip
"""As native/capi/CMakeLists.txt has them."""
_NOT_BUILT = (
    "openrknn was installed without a C compiler, so its librknnrt.so was not built; install one "
    "(Debian: apt install gcc libc6-dev) and install openrknn again"
)
_MODULE = "openrknn.capi.engine"


def library_for(machine: str | None = None) -> Path:
    """The library for programs of a machine (this one if none is named)."""
    if machine is not None and machine != host_machine():
        return _compile(machine)
    for folder in _native_folders():
        if (folder / NAMES[0]).is_file():
            return folder / NAMES[0]
    raise UnsupportedError(_NOT_BUILT)


def header_folder() -> Path:
    """The folder with the three headers; for `-I`."""
    return _sources() / "include"


def engine_command() -> tuple[str, ...]:
    """What starts the engine of this installation: the script of its environment, or Python itself."""
    script = Path(sys.executable).parent / "openrknn-engine"
    return (str(script),) if script.is_file() else (sys.executable, "-m", _MODULE)


def _native_folders() -> list[Path]:
    # An editable install has two: the sources and the built files.
    return [Path(folder) / "_native" for folder in sys.modules["openrknn"].__path__]


def _checkout_folders() -> list[Path]:
    return [folder.parents[2] / "native" for folder in _native_folders()]


def _sources() -> Path:
    """native/capi of a checkout, or beside the library in an installed package."""
    for place in (*_checkout_folders(), *_native_folders()):
        if (place / "capi" / "include" / HEADERS[0]).is_file():
            return place / "capi"
    raise UnsupportedError(_NOT_BUILT)


def _compile(machine: str) -> Path:
    folder = _sources()
    sources, scripts = sorted(folder.glob("*.c")), sorted(folder.glob("*.map"))
    headers = [*sorted(folder.glob("*.h")), *sorted((folder / "include").glob("*.h"))]
    flags = (*_FLAGS, f"-I{folder / 'include'}", *(f"-Wl,--version-script={script}" for script in scripts))
    state = b"".join(path.read_bytes() for path in (*sources, *headers, *scripts))
    return build(machine, NAMES[0], sources, flags, state)
