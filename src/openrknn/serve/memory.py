"""How the C library keeps memory for tensors."""

from __future__ import annotations

import ctypes

__all__ = ["keep_freed_memory"]

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
_KEPT_BYTES, _LARGEST_BYTES = 64 * 1024 * 1024, 32 * 1024 * 1024


def keep_freed_memory() -> bool:
    """Let malloc keep up to 64 MiB for the next request; whether it did.

    By default a tensor of some hundred kilobytes is a mapping of its own, which goes back to the kernel when it is
    freed: each request then pays for hundreds of new pages, several times over.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):  # not glibc
        return False
    mallopt.argtypes, mallopt.restype = [ctypes.c_int, ctypes.c_int], ctypes.c_int
    return bool(mallopt(_MMAP_THRESHOLD, _LARGEST_BYTES) and mallopt(_TRIM_THRESHOLD, _KEPT_BYTES))
