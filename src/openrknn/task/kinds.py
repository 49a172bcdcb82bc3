"""The kinds of tasks: which blocks work together, and what each of them does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

from openrknn.task import cna, core, dpu, ppu, rdma
from openrknn.task.place import A

__all__ = ["BufferUse", "Convolution", "Elementwise", "Pooling"]


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
    """It runs behind a freshly loaded table: both register groups start anew."""


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
