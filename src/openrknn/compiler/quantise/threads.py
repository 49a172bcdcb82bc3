"""One thread for NumPy's products of small matrices.

Its library starts as many threads as there are cores, and these wait for each other by spinning: on a machine that does
something else too, the Cholesky factor of 256 x 256 numbers takes 200 ms instead of 1. One thread also gives the same
sums on every machine.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

_FOLDERS = ("../numpy.libs", ".libs", ".dylibs")
_NAMES = ("scipy_openblas_{}_num_threads64_", "scipy_openblas_{}_num_threads", "openblas_{}_num_threads64_",
          "openblas_{}_num_threads")  # fmt: skip


@contextmanager
def one_thread() -> Iterator[None]:
    """Where NumPy has another library, everything stays as it is."""
    library = _library()
    name = next((entry for entry in _NAMES if library is not None and hasattr(library, entry.format("set"))), None)
    if library is None or name is None:
        yield
        return
    before = int(getattr(library, name.format("get"))())
    getattr(library, name.format("set"))(1)
    try:
        yield
    finally:
        getattr(library, name.format("set"))(before)


def _library() -> ctypes.CDLL | None:
    """NumPy has loaded it already; this only finds it."""
    home = Path(np.__file__).parent
    found = [path for folder in _FOLDERS for path in sorted((home / folder).glob("*openblas*"))]
    try:
        return ctypes.CDLL(str(found[0])) if found else None
    except OSError:
        return None
