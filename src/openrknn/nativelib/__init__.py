"""Where the native library is, and whether it may be used; independent of its kernels.

The library is optional: an install without a C compiler has none, and then NumPy does the work. With
`OPENRKNN_KERNELS=numpy` it does so even where the library is there.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from openrknn.errors import UnsupportedError

__all__ = ["ABI_VERSION", "ENVIRONMENT", "LIBRARY_NAME", "find", "library", "opened"]

# The same number as OPENRKNN_ABI_VERSION in native/openrknn.h.
ABI_VERSION = 13
LIBRARY_NAME = "libopenrknn.so"
ENVIRONMENT = "OPENRKNN_KERNELS"


def library() -> ctypes.CDLL | None:
    """The native library, or None when it is absent or switched off."""
    path = None if os.environ.get(ENVIRONMENT) == "numpy" else find()
    return None if path is None else opened(path)


def find(folders: Iterable[str] | None = None) -> Path | None:
    """Where the library is, or None. An editable install has two folders: the sources and the built files."""
    if folders is None:
        # Not `import openrknn`: the face of the package is above this layer.
        return _found(tuple(sys.modules["openrknn"].__path__))
    return _found(tuple(folders))


@functools.cache
def _found(folders: tuple[str, ...]) -> Path | None:
    paths = (Path(folder, "_native", LIBRARY_NAME) for folder in folders)
    return next((path for path in paths if path.is_file()), None)


@functools.cache
def opened(path: Path) -> ctypes.CDLL:
    """Load the library. A broken or old one is an error, never a fallback."""
    advice = f"install openrknn again, or set {ENVIRONMENT}=numpy"
    try:
        loaded = ctypes.CDLL(str(path))
        loaded.openrknn_abi_version.restype = ctypes.c_uint32
        loaded.openrknn_abi_version.argtypes = ()
        version = loaded.openrknn_abi_version()
    except (OSError, AttributeError) as error:
        raise UnsupportedError(f"cannot load the native library {path}: {error}; {advice}") from error
    if version != ABI_VERSION:
        raise UnsupportedError(f"{path} has ABI {version}, this package needs ABI {ABI_VERSION}; {advice}")
    return loaded
