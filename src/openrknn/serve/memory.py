"""How the C library keeps memory for tensors."""

from __future__ import annotations

import ctypes

__all__ = ["keep_freed_memory"]

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # of glibc's malloc.h
_ARENAS = 2
_MEBIBYTE = 1024 * 1024


def keep_freed_memory(largest_mebibytes: int = 2) -> bool:
    """Let malloc keep what is freed for the next request; whether it does.

    By default a tensor of some hundred kilobytes is a mapping of its own, which goes back to the kernel when it is
    freed: each request then pays for hundreds of new pages, several times over. What is larger than
    `largest_mebibytes` still goes back at once, and few arenas keep anything: a budget of memory means nothing where
    every thread keeps what it once had.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):  # not glibc
        return False
    mallopt.argtypes, mallopt.restype = [ctypes.c_int, ctypes.c_int], ctypes.c_int
    wanted = {
        _MMAP_THRESHOLD: largest_mebibytes * _MEBIBYTE,
        _TRIM_THRESHOLD: 2 * largest_mebibytes * _MEBIBYTE,
        _ARENA_MAX: _ARENAS,
    }
    return all(mallopt(option, value) for option, value in wanted.items())
