"""What the builders of steps share."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.compute.native import Kernels
from openrknn.nativelib import structures
from openrknn.npu.native import table
from openrknn.npu.native.reading import Reading, RefusedError

INT8_MAGNITUDE = 128
_SINGLE_KERNELS = {Kernels.NEON, Kernels.DOTPROD, Kernels.I8MM}


class KernelContext:
    """What the steps of one program share: the library, tables, packed weights."""

    def __init__(self, library: ctypes.CDLL, kernels: Kernels) -> None:
        self.library = library
        self.kernels = kernels
        self.tables = table.Cache(has_singles=kernels in _SINGLE_KERNELS)
        self.packed: dict[object, npt.NDArray[np.uint8]] = {}


def choose_stages(dpu: structures.Dpu, reading: Reading[Any]) -> None:
    """The chain if there is one that knows every field of the stages, else the general form."""
    step = reading.original
    if dpu.chain.flags and any(reading.chain.unread((step.dpu, step.reader))):
        dpu.chain = structures.Chain()
    if dpu.halves and not dpu.chain.flags:
        raise RefusedError("atoms of 8 bytes without a chain")
    reading.used = reading.chain if dpu.chain.flags else reading.general
