"""Finds the native library and loads it, when somebody first asks for it.

The library is optional: an install without a C compiler has none, and then the NumPy twins do the work.
`OPENRKNN_KERNELS` chooses: `auto` (the fastest kernels that the processor can run), `numpy` (the twins, although the
library is there), or a set of kernels by name. `OPENRKNN_THREADS` says how many threads work, default one for each core
that this process may use. That is the most: a step that is soon done gets fewer, and no two work on one core.
"""

from __future__ import annotations

import ctypes
import enum
import functools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from openrknn.compute import processors
from openrknn.errors import UnsupportedError
from openrknn.nativelib import ABI_VERSION, ENVIRONMENT, LIBRARY_NAME, find, opened, structures

__all__ = [
    "ABI_VERSION", "ENVIRONMENT", "LIBRARY_NAME", "CpuFeature", "Kernels", "available", "choose", "cpu_features",
    "find", "load", "set_threads", "sharing", "threads",
]  # fmt: skip

THREADS_ENVIRONMENT = "OPENRKNN_THREADS"
_USUAL_PRICE = -1


class CpuFeature(enum.Flag):
    """Instruction sets that kernels are written for; the same bits as in native/openrknn.h."""

    NEON = 1 << 0
    DOTPROD = 1 << 1
    I8MM = 1 << 2
    AVX2 = 1 << 8
    F16C = 1 << 9
    AVX512VNNI = 1 << 10
    AVXVNNI = 1 << 11
    AMXINT8 = 1 << 12


class Kernels(enum.IntEnum):
    """Sets of kernels, for each family of processors from slow to fast; the numbers of native/openrknn.h.

    TILES are those of AMX with tiles in plain C: slow, and there so that they are tested on every processor.
    """

    TILES = 7
    SCALAR = 0
    AVX2 = 1
    AVXVNNI = 8
    VNNI = 2
    AMX = 3
    NEON = 4
    DOTPROD = 5
    I8MM = 6


def load() -> ctypes.CDLL | None:
    """The native library, or None when it is absent or switched off."""
    path = None if _choice() == "numpy" else find()
    return None if path is None else _open(path)


def cpu_features() -> CpuFeature:
    """The instruction sets of this processor; none of them without the native library."""
    library = load()
    return CpuFeature(0) if library is None else CpuFeature(library.openrknn_cpu_features())


def available() -> tuple[Kernels, ...]:
    """The sets of kernels that this library has and this processor can run, from slow to fast."""
    library = load()
    mask = 0 if library is None else library.openrknn_kernels_available()
    return tuple(kernels for kernels in Kernels if mask >> kernels & 1)


def choose() -> Kernels | None:
    """The set of kernels to use; None: the NumPy twins."""
    choice, usable = _choice(), available()
    if choice in ("auto", "numpy") or not usable:
        return usable[-1] if usable else None
    kernels = Kernels[choice.upper()]
    if kernels not in usable:
        names = ", ".join(found.name.lower() for found in usable)
        raise UnsupportedError(f"{ENVIRONMENT}={choice}: this processor or library has only {names}")
    return kernels


def threads() -> int:
    """How many threads work on a step."""
    library = load()
    return 1 if library is None else int(library.openrknn_threads())


def set_threads(count: int | None) -> None:
    """Say how many threads work on a step; None: what `OPENRKNN_THREADS` says, or one for each core."""
    library = load()
    if count is not None and count < 1:
        raise ValueError(f"{count} threads cannot work; at least 1 is needed")
    if library is not None:
        library.openrknn_set_threads(_default_threads() if count is None else count)


@contextmanager
def sharing(*, cores: int, nanoseconds: int) -> Iterator[ctypes.CDLL]:
    """For tests and measurements: as if there were so many cores, and one more thread cost so much (0: nothing)."""
    library = load()
    if library is None:
        raise UnsupportedError("the native library is not there, or switched off")
    library.openrknn_set_sharing(cores, nanoseconds)
    try:
        yield library
    finally:
        library.openrknn_set_sharing(processors.cores(), _USUAL_PRICE)


def _choice() -> str:
    choice = os.environ.get(ENVIRONMENT, "") or "auto"
    names = [kernels.name.lower() for kernels in Kernels]
    if choice not in ("auto", "numpy", *names):
        raise ValueError(f"{ENVIRONMENT}={choice!r} is not known; use auto, numpy, {', '.join(names)}")
    return choice


def _default_threads() -> int:
    text = os.environ.get(THREADS_ENVIRONMENT, "")
    if not text:
        return processors.cores()
    if not text.isdigit() or int(text) < 1:
        raise ValueError(f"{THREADS_ENVIRONMENT}={text!r} is not a number of threads; use 1 or more")
    return int(text)


@functools.cache
def _open(path: Path) -> ctypes.CDLL:
    """Load the library and declare its functions."""
    library = opened(path)
    structures.declare(library)
    library.openrknn_set_sharing(processors.cores(), _USUAL_PRICE)
    library.openrknn_set_threads(_default_threads())
    return library
