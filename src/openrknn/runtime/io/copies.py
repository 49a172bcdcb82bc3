"""Copies between tensors in device memory whose places are always the same: worked out once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import numpy as np

from openrknn.runtime.io.tensors import Array, StoredTensor

Places: TypeAlias = slice | Array


def copier(source: StoredTensor, taken: Array, target: StoredTensor, given: Array) -> Callable[[], None]:
    """Copies the elements at places `taken` of the memory of `source` to the places `given` of that of `target`.

    Lanes of `target` that hold no channel become 0.
    """
    a, b = source.elements, target.elements
    of, to = _selection(taken.reshape(-1)), _selection(given.reshape(-1))
    is_apart, spare = not np.may_share_memory(a, b), target.spare_lanes()
    if isinstance(of, slice) and isinstance(to, slice) and is_apart and not spare:
        return partial(np.copyto, b[to], a[of])

    def copy() -> None:
        values = a[of]
        if not is_apart and isinstance(of, slice):
            values = values.copy()
        for lanes in spare:
            lanes[...] = 0
        b[to] = values

    return copy


def _selection(places: Array) -> Places:
    """These places of an array; a slice where they are equally far apart."""
    steps = np.diff(places)
    step = int(steps[0]) if steps.size else 1
    if step < 1 or np.any(steps != step):
        return places
    return slice(int(places[0]), int(places[-1]) + 1, step)
