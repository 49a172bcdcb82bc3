"""`Arena`: memory that the server and a worker share, for the tensors of one context."""

from __future__ import annotations

import fcntl
import math
import mmap
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from openrknn.serve.datatypes import DATATYPES, Array, datatype_of
from openrknn.serve.shared.tensor import SharedTensor, Tensor
from openrknn.serve.worker.message_socket import MessageError

__all__ = ["Arena", "is_available"]

_ALIGNMENT = 64
_MOST_RANK = 16
# A file that cannot change its size cannot end the other side with SIGBUS.
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL if hasattr(fcntl, "F_SEAL_SEAL") else 0


def is_available() -> bool:
    """Whether this system has sealed memory files (Linux)."""
    return hasattr(os, "memfd_create") and bool(_SEALS)


class Arena:
    """A sealed memory file, mapped: inputs in its first part, outputs behind them. Pages exist once they are used."""

    def __init__(self, descriptor: int, input_bytes: int, output_bytes: int) -> None:
        self.descriptor = descriptor
        self.input_bytes, self.output_bytes = input_bytes, output_bytes
        self._map = mmap.mmap(descriptor, input_bytes + output_bytes)
        self._bytes = np.frombuffer(self._map, np.uint8)

    @classmethod
    def create(cls, input_bytes: int, output_bytes: int) -> Arena:
        """A new one; sizes are rounded up to whole pages."""
        sizes = [-(-max(size, 1) // mmap.PAGESIZE) * mmap.PAGESIZE for size in (input_bytes, output_bytes)]
        descriptor = os.memfd_create("openrknn-tensors", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(descriptor, sum(sizes))
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
            return cls(descriptor, *sizes)
        except BaseException:
            os.close(descriptor)
            raise

    def put_inputs(self, arrays: Mapping[str, Tensor]) -> list[list[Any]]:
        """Copy arrays in, or read them from a client's memory; the rows that say where they are."""
        return self._put({name: _bytes_for_booleans(array) for name, array in arrays.items()}, 0, self.input_bytes)

    def put_outputs(self, arrays: Mapping[str, Array]) -> list[list[Any]]:
        """Copy outputs in; the rows that say where they are."""
        return self._put(arrays, self.input_bytes, self.input_bytes + self.output_bytes)

    def _put(self, arrays: Mapping[str, Tensor], at: int, end: int) -> list[list[Any]]:
        rows: list[list[Any]] = []
        for name, given in arrays.items():
            dtype = given.dtype.newbyteorder("<")
            if given.nbytes > end - at:
                raise ValueError(f"tensor {name!r} has {given.nbytes} bytes; {max(end - at, 0)} are left for it")
            place = self._bytes[at : at + given.nbytes]
            if isinstance(given, SharedTensor):
                given.part.read_into(place.data)
            else:
                place.view(dtype).reshape(given.shape)[...] = given
            rows.append([name, datatype_of(dtype), list(given.shape), at])
            at += -(-given.nbytes // _ALIGNMENT) * _ALIGNMENT
        return rows

    def views(self, rows: object) -> dict[str, Array]:
        """The arrays that rows describe, without a copy. The rows may be hostile: every number is checked."""
        if not isinstance(rows, list):
            raise MessageError("the tensors are not a list")
        return dict(self._view(row) for row in rows)

    def _view(self, row: object) -> tuple[str, Array]:
        if not isinstance(row, list) or len(row) != 4:
            raise MessageError("a tensor is not described by four values")
        name, datatype, shape, at = row
        dtype = DATATYPES.get(datatype) if isinstance(datatype, str) else None
        sizes = [*shape, at] if isinstance(shape, list) and len(shape) <= _MOST_RANK else [None]
        if dtype is None or not isinstance(name, str) or not all(type(size) is int and size >= 0 for size in sizes):
            raise MessageError("a tensor is described in a form that cannot be")
        size = math.prod(shape) * dtype.itemsize
        if at % _ALIGNMENT or at + size > len(self._bytes):
            raise MessageError(f"tensor {name[:80]!r} is outside the shared memory")
        return name, self._bytes[at : at + size].view(dtype).reshape(shape)

    def close(self) -> None:
        """Close the descriptor; the mapping goes with the last array."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def _bytes_for_booleans(tensor: Tensor) -> Tensor:
    """As `Session` takes them."""
    return tensor if isinstance(tensor, SharedTensor) or tensor.dtype.kind != "b" else tensor.view(np.uint8)
