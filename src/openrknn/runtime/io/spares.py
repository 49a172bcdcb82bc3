"""Arrays for results, reused when no other reference is left.

Fresh memory is the most expensive part of a large output: the kernel hands it over page by page, at its first touch.
Programs drop the outputs of one frame before they ask for the next, so the same memory can hold those. An array that
somebody still holds, or any view of it, is never written again.
"""

from __future__ import annotations

import sys
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

_KEPT = 3
"""Arrays that are kept: enough for a program that works on one result while it waits for the next."""
_SMALL_BYTES = 32 * 1024
"""Below this, new memory costs no more than looking for old."""


def _idle_references() -> int:
    """What `getrefcount` says of an array that only the list holds; it differs from Python to Python."""
    for array in [np.empty(1, np.float32)]:
        return sys.getrefcount(array)
    raise AssertionError("the loop above returns")


_IDLE = _idle_references() if sys.implementation.name == "cpython" else 0


class Spares:
    """Arrays of one shape and type. Not for several threads at once."""

    def __init__(self, shape: tuple[int, ...], dtype: npt.DTypeLike = np.float32) -> None:
        self.shape, self.dtype = shape, np.dtype(dtype)
        self.is_small = self.dtype.itemsize * prod(shape) < _SMALL_BYTES
        self._arrays: list[npt.NDArray[Any]] = []

    def take(self) -> npt.NDArray[Any]:
        """An array without other references; its contents are arbitrary."""
        if self.is_small:
            return np.empty(self.shape, self.dtype)
        for array in self._arrays:
            if sys.getrefcount(array) <= _IDLE:
                return array.view()
        made = np.empty(self.shape, self.dtype)
        if len(self._arrays) < _KEPT:
            self._arrays.append(made)
            return made.view()
        return made
