"""The kinds of tasks: which blocks work together, and what each of them does."""

from __future__ import annotations

from typing import Generic, TypeAlias

from openrknn.records import dataclass
from openrknn.task import cna, core, dpu, ppu, rdma
from openrknn.task.place import A, Address

__all__ = ["BufferUse", "Convolution", "Elementwise", "Piped", "Pooling", "Work"]


@dataclass(frozen=True, slots=True)
class Pooling(Generic[A]):
    """PPU and PPU_RDMA: from memory to memory."""

    pooling: ppu.Config[A]


@dataclass(frozen=True, slots=True)
class Elementwise(Generic[A]):
    """DPU and DPU_RDMA: a tensor from memory, number by number, to memory."""

    dpu: dpu.Config[A]
    reader: rdma.Config[A]
    is_narrow: bool = False
    """16-bit numbers stay so on their way, as in the vendor's divisions; results do not depend on it."""
    is_first: bool = False
    """It runs behind a freshly loaded table: both register groups restart."""

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns of what goes through the stages."""
        return self.reader.height, self.reader.width * (self.reader.repeat_x if self.reader.repeats else 1)

    @property
    def depthwise(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class BufferUse:
    """What a convolution does with the buffer between memory and CORE. Results do not depend on it, if it is right."""

    data_banks: int
    weight_banks: int
    entries: int
    """Of one row, or of a whole picture."""
    grains: int
    """Rows that are fetched before the first are used."""
    reuses_data: bool = False
    kept_rows: int = 0
    """Rows of the task before that are still there, from `first_entry` on."""
    first_entry: int = 0


@dataclass(frozen=True, slots=True)
class Convolution(Generic[A]):
    """CNA, CORE, DPU and, where operands come from memory, DPU_RDMA."""

    source: cna.Config[A]
    array: core.Config
    dpu: dpu.Config[A]
    reader: rdma.Config[A] | None
    buffer: BufferUse
    channels: int
    """That carry data, of those that are read."""
    picture_rows: int = 0
    """Of the whole picture that a packed one is a part of."""
    is_first: bool = False

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns of what goes through the stages."""
        return self.source.out_height, self.source.out_width

    @property
    def depthwise(self) -> bool:
        return self.source.depthwise

    @property
    def is_narrow(self) -> bool:
        return False


Piped: TypeAlias = Convolution[Address] | Elementwise[Address]
"""What goes through the DPU."""
Work: TypeAlias = Piped | Pooling[Address]
"""What chips encode."""
