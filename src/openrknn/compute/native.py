"""Finds the native library and loads it, when somebody first asks for it.

The library is optional: an install without a C compiler has none, and then the NumPy twins do the work.
`OPENRKNN_KERNELS=numpy` asks for the twins although the library is there.
"""

from __future__ import annotations

import ctypes
import enum
import functools
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from openrknn.errors import UnsupportedError

__all__ = ["CpuFeature", "cpu_features", "find", "load"]

# The same number as OPENRKNN_ABI_VERSION in native/openrknn.h.
ABI_VERSION = 1
LIBRARY_NAME = "libopenrknn.so"
ENVIRONMENT = "OPENRKNN_KERNELS"


class CpuFeature(enum.Flag):
    """Instruction sets that kernels are written for; the same bits as in native/openrknn.h."""

    NEON = 1 << 0
    DOTPROD = 1 << 1
    I8MM = 1 << 2
    AVX2 = 1 << 8
    F16C = 1 << 9
    AVX512VNNI = 1 << 10
    AVXVNNI = 1 << 11


def load() -> ctypes.CDLL | None:
    """The native library, or None when it is absent or switched off."""
    choice = os.environ.get(ENVIRONMENT, "")
    if choice not in ("", "auto", "numpy"):
        raise ValueError(f"{ENVIRONMENT}={choice!r} is not known; use auto or numpy")
    path = None if choice == "numpy" else find()
    return None if path is None else _open(path)


def find(folders: Iterable[str] | None = None) -> Path | None:
    """Where the library is, or None. An editable install has two folders: the sources and the built files."""
    if folders is None:
        # Not `import openrknn`: the face of the package is above this layer.
        folders = sys.modules["openrknn"].__path__
    for folder in folders:
        path = Path(folder, "_native", LIBRARY_NAME)
        if path.is_file():
            return path
    return None


def cpu_features() -> CpuFeature:
    """The instruction sets of this processor; none of them without the native library."""
    library = load()
    return CpuFeature(0) if library is None else CpuFeature(library.openrknn_cpu_features())


@functools.cache
def _open(path: Path) -> ctypes.CDLL:
    """Load the library and declare its functions. A broken or old library is an error, never a fallback."""
    advice = "install openrknn again, or set " + ENVIRONMENT + "=numpy"
    try:
        library = ctypes.CDLL(str(path))
        library.openrknn_abi_version.restype = ctypes.c_uint32
        library.openrknn_abi_version.argtypes = ()
        version = library.openrknn_abi_version()
    except (OSError, AttributeError) as error:
        raise UnsupportedError(f"cannot load the native library {path}: {error}; {advice}") from error
    if version != ABI_VERSION:
        raise UnsupportedError(f"{path} has ABI {version}, this package needs ABI {ABI_VERSION}; {advice}")
    library.openrknn_cpu_features.restype = ctypes.c_uint32
    library.openrknn_cpu_features.argtypes = ()
    return library
