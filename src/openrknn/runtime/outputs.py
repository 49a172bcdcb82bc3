"""From output buffers to users' arrays."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from openrknn.runtime.cpu import decode
from openrknn.runtime.tensors import Array, StoredTensor

__all__ = ["OutputKind", "OutputPort", "check_kind"]

OutputKind: TypeAlias = Literal["float", "raw", "native"]
"""float: float32 in the original shape; raw: stored elements in the original shape; native: the memory itself."""


def check_kind(kind: str) -> None:
    """Refuse anything else."""
    if kind not in get_args(OutputKind):
        raise ValueError(f"outputs={kind!r} is not known; there are {', '.join(map(repr, get_args(OutputKind)))}")


class OutputPort:
    """One output and its buffer."""

    def __init__(self, stored: StoredTensor) -> None:
        self.stored = stored
        self.name = stored.tensor.name

    def read(self, kind: OutputKind) -> Array:
        """The output as an array. A native one is the buffer itself: the next run writes into it."""
        if kind == "native":
            return self.stored.native
        stored = self.stored.read()
        return stored if kind == "raw" else decode(stored, self.stored.tensor)
