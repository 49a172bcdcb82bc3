"""What the builders of steps share."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.compute.native import Kernels
from openrknn.nativelib import structures
from openrknn.npu.native import table
from openrknn.npu.native.packs import Packs, pack_name
from openrknn.npu.native.reading import Reading, RefusedError

INT8_MAGNITUDE = 128
_SINGLE_KERNELS = {Kernels.NEON, Kernels.DOTPROD, Kernels.I8MM}


class KernelContext:
    """What the steps of one program share: the library, tables, packed weights."""

    def __init__(
        self, library: ctypes.CDLL, kernels: Kernels, packs: Packs | None = None, constants_digest: bytes = b""
    ) -> None:
        """`packs`: of other programs, which count where there is a digest of the constants."""
        self.library = library
        self.kernels = kernels
        self._others, self._digest = packs if constants_digest else None, constants_digest
        self.tables = table.Cache(has_singles=kernels in _SINGLE_KERNELS)
        self._packed: dict[object, npt.NDArray[np.uint8]] = {}

    def packed(self, how: object) -> npt.NDArray[np.uint8] | None:
        """Weights that were packed in the same way for another step, or for another program with these constants."""
        found = self._packed.get(how)
        if found is None and self._others is not None:
            found = self._others.find(pack_name(self._digest, how))
        return found

    def keep_packed(self, how: object, packed: npt.NDArray[np.uint8]) -> None:
        """For steps and programs to come."""
        self._packed[how] = packed
        if self._others is not None:
            self._others.add(pack_name(self._digest, how), packed)


def choose_stages(dpu: structures.Dpu, reading: Reading[Any]) -> None:
    """The chain if there is one that knows every field of the stages, else the general form."""
    step = reading.original
    if dpu.chain.flags and any(reading.chain.unread((step.dpu, step.reader))):
        dpu.chain = structures.Chain()
    if dpu.halves and not dpu.chain.flags:
        raise RefusedError("atoms of 8 bytes without a chain")
    reading.used = reading.chain if dpu.chain.flags else reading.general
