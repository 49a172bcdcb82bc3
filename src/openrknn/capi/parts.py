"""Where the parts of the open library are: the file itself, for any machine, its headers, and what starts its engine.

The library is built with the package, for the machine that it is installed on. For another machine it is compiled on
demand from the sources that the package brings, as the preload library of `openrknn exec` is.
"""

from __future__ import annotations

import sys
from pathlib import Path

import openrknn
from openrknn.capi.structs import NEWEST
from openrknn.errors import UnsupportedError
from openrknn.fakekernel.preload import build, host_machine, package_folders, source_folder
from openrknn.fakekernel.protocol import LLM_NAME
from openrknn.vendor.library.find import NAMES

__all__ = [
    "API_VERSION", "HEADERS", "LLM_HEADER", "LLM_NAME", "MACHINES", "NAMES", "PYTHON_ENGINE", "engine_command",
    "header_folder", "header_path", "library_for",
]  # fmt: skip

HEADERS = ("rknn_api.h", "rknn_matmul_api.h", "rknn_custom_op.h")
LLM_HEADER = "rkllm.h"
"""Of the library for language models, `LLM_NAME`."""
MACHINES = ("x86_64", "aarch64", "armhf")
API_VERSION = str(NEWEST)
"""The newest version of the C API that the library has; `OPENRKNN_ABI` chooses an older one."""

_FLAGS = (
    "-std=gnu11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-pthread",
    "-Wl,-z,defs", "-Wl,-z,now", "-Wl,-z,noexecstack", "-ldl",
)  # fmt: skip
"""As native/capi/CMakeLists.txt has them."""
_LLM_SHARED = ("copy.c", "lifetime.c", "link.c", "log.c", "start.c")
"""What librkllmrt.so has of native/capi, as native/rkllm/CMakeLists.txt says."""
_NOT_BUILT = (
    "openrknn was installed without a C compiler, so its librknnrt.so was not built; install one "
    "(Debian: apt install gcc libc6-dev) and install openrknn again"
)
PYTHON_ENGINE = (sys.executable, "-m", "openrknn.capi.engine")
"""The engine of this interpreter, whatever scripts there are."""


def library_for(machine: str | None = None, name: str = NAMES[0]) -> Path:
    """A library for programs of a machine (this one if none is named)."""
    if machine is not None and machine != host_machine():
        return _compile(machine, name)
    for folder in package_folders():
        if (folder / "_native" / name).is_file():
            return folder / "_native" / name
    raise UnsupportedError(_NOT_BUILT)


def header_folder() -> Path:
    """The folder with the three headers of librknnrt.so; for `-I`."""
    return _sources() / "include"


def header_path(name: str) -> Path:
    """One of the headers."""
    return (_llm_sources() if name == LLM_HEADER else _sources()) / "include" / name


def engine_command() -> tuple[str, ...]:
    """What starts the engine of this installation: the script of its environment, or Python itself."""
    script = Path(sys.executable).parent / "openrknn-engine"
    return (str(script),) if script.is_file() else PYTHON_ENGINE


def _sources() -> Path:
    """native/capi of a checkout, or beside the library in an installed package."""
    found = source_folder(f"capi/include/{HEADERS[0]}")
    if found is None:
        raise UnsupportedError(_NOT_BUILT)
    return found / "capi"


def _llm_sources() -> Path:
    """native/rkllm of a checkout, or beside the library in an installed package."""
    found = source_folder(f"rkllm/include/{LLM_HEADER}")
    if found is None:
        raise UnsupportedError(_NOT_BUILT)
    return found / "rkllm"


def _compile(machine: str, name: str) -> Path:
    shared, folder = _sources(), _llm_sources() if name == LLM_NAME else _sources()
    sources, scripts = sorted(folder.glob("*.c")), sorted(folder.glob("*.map"))
    if name == LLM_NAME:
        sources += [shared / one for one in _LLM_SHARED]
    headers = [path for place in sorted({folder, shared}) for path in sorted(place.rglob("*.h"))]
    words = [f'-DOPENRKNN_VERSION="{openrknn.__version__}"', f"-I{folder / 'include'}", f"-Wl,-soname,{name}"]
    flags = (*_FLAGS, *words, *(f"-Wl,--version-script={script}" for script in scripts))
    state = b"".join(path.read_bytes() for path in (*sources, *headers, *scripts))
    state += openrknn.__version__.encode()
    return build(machine, name, sources, flags, state)
