"""What the builders of steps share."""

from __future__ import annotations

import ctypes

import numpy as np
import numpy.typing as npt

from openrknn.compute import structures
from openrknn.compute.native import Kernels
from openrknn.npu.blocks.dpu import pipeline
from openrknn.npu.native import table
from openrknn.npu.native.places import RefusedError

__all__ = ["INT8_MAGNITUDE", "Context", "refuse_general"]

INT8_MAGNITUDE = 128


class Context:
    """What the steps of one program share: the library, tables, packed weights."""

    def __init__(self, library: ctypes.CDLL, kernels: Kernels) -> None:
        self.library = library
        self.kernels = kernels
        self.tables: table.Cache = {}
        self.packed: dict[object, npt.NDArray[np.uint8]] = {}


def refuse_general(dpu: structures.Dpu, config: pipeline.Config) -> None:
    """What only chains can do: atoms of 8 bytes, and lookups with more than one slope beyond each end."""
    if dpu.halves and not dpu.chain.flags:
        raise RefusedError("atoms of 8 bytes without a chain")
    table = config.element_wise.table if config.element_wise is not None else None
    if table is not None and (table.further_below or table.further_above) and not dpu.chain.flags:
        raise RefusedError("a lookup with several slopes beyond its ends")
