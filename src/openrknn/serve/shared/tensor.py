"""Tensors in a region of shared memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from openrknn.serve.datatypes import Array, datatype_of
from openrknn.serve.errors import BadRequestError
from openrknn.serve.shared.regions import Part

__all__ = ["Output", "SharedTensor", "Tensor", "Written", "loaded", "put"]


@dataclass(frozen=True, slots=True)
class SharedTensor:
    """An input that is read when it runs, not before: a request that waits takes no memory for it."""

    part: Part
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @classmethod
    def at(cls, part: Part, dtype: np.dtype[Any], shape: tuple[int, ...], name: str) -> SharedTensor:
        """Checked: as many bytes as the shape needs."""
        wanted = math.prod(shape) * dtype.itemsize
        if part.size_bytes != wanted:
            raise BadRequestError(
                f"input {name[:80]!r}: {datatype_of(dtype)}{list(shape)} has {wanted} bytes, and "
                f"shared_memory_byte_size is {part.size_bytes}"
            )
        # What Session takes has no booleans; one byte each is what they are.
        return cls(part, np.dtype(np.uint8) if dtype.kind == "b" else dtype, shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        return self.part.size_bytes

    def load(self) -> Array:
        """A copy of it."""
        made: Array = np.empty(self.shape, self.dtype)
        self.part.read_into(made.reshape(-1).view(np.uint8).data)
        return made


Tensor = Array | SharedTensor
"""An input on its way to a context."""


@dataclass(frozen=True, slots=True)
class Written:
    """An output in the memory that the client named."""

    part: Part
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


Output = Array | Written
"""An output on its way to the client."""


def loaded(tensor: Tensor) -> Array:
    """The array itself."""
    return tensor.load() if isinstance(tensor, SharedTensor) else tensor


def put(array: Array, part: Part, name: str) -> Written:
    """Write an output into its place."""
    data = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    if data.nbytes > part.size_bytes:
        raise BadRequestError(
            f"output {name[:80]!r} has {data.nbytes} bytes, and its place in shared memory has {part.size_bytes}"
        )
    part.write(data.reshape(-1).view(np.uint8).data)
    used = Part(part.region, part.offset, data.nbytes, part.file, part.position)
    return Written(used, data.dtype, tuple(array.shape))
