"""What the builders of steps share."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.compute.native import Kernels
from openrknn.nativelib.structures import Convolution
from openrknn.npu.memory import pointer_to
from openrknn.npu.native import table
from openrknn.npu.native.packs import Packs, pack_name

INT8_MAGNITUDE = 128
_DOUBLE_KERNELS = {Kernels.TILES, Kernels.SCALAR}
"""Which compute chains in double precision alone."""


class KernelContext:
    """What the steps of one program share: the library, tables, packed weights."""

    def __init__(
        self, library: ctypes.CDLL, kernels: Kernels, packs: Packs | None = None, constants_digest: bytes = b""
    ) -> None:
        """`packs`: of other programs, which count where there is a digest of the constants."""
        self.library = library
        self.kernels = kernels
        self._others, self._digest = packs if constants_digest else None, constants_digest
        self.tables = table.Cache(has_singles=kernels not in _DOUBLE_KERNELS)
        self.converters: dict[object, npt.NDArray[np.int8]] = {}
        """Tables of input converters by what they were made from."""
        self._packed: dict[object, npt.NDArray[np.uint8]] = {}
        self._waiting: list[tuple[Convolution, npt.NDArray[Any], tuple[object, ...]]] = []
        self.waiting_bytes = 0
        """Of the weights that `pack_all` will read."""
        self._name = ""
        """Of what was asked for last."""

    def pack(self, step: Convolution, weights: npt.NDArray[Any], kept: Iterable[object]) -> None:
        """Rearrange these weights into `packed` of a step with the next `pack_all`; `kept`: what it refers to."""
        copy = type(step).from_buffer_copy(step)
        copy.weights = pointer_to(weights)
        self._waiting.append((copy, weights, tuple(kept)))
        self.waiting_bytes += weights.nbytes

    def pack_all(self) -> None:
        """Rearrange all weights that wait, on all threads."""
        if self._waiting:
            pointers = (ctypes.c_void_p * len(self._waiting))(*(ctypes.addressof(one) for one, *_ in self._waiting))
            if self.library.openrknn_pack_all(pointers, len(pointers)):
                raise MemoryError("no memory to widen the weights of a convolution in")
        self._waiting.clear()
        self.waiting_bytes = 0

    def packed(self, how: object) -> npt.NDArray[np.uint8] | None:
        """Weights that were packed in the same way for another step, or for another program with these constants."""
        found = self._packed.get(how)
        if found is None and self._others is not None:
            self._name = pack_name(self._digest, how)
            found = self._others.find(self._name)
        return found

    def keep_packed(self, how: object, packed: npt.NDArray[np.uint8]) -> None:
        """For steps and programs to come; `packed` was asked for the same just now."""
        self._packed[how] = packed
        if self._others is not None:
            self._others.add(self._name, packed)
