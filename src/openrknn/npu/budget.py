"""How much work and memory a task asks for, and how much it may: known from its configuration, before it runs.

A few bytes of registers can ask for a convolution that takes an hour, or for cubes of many gigabytes. Real networks ask
for work in proportion to their weights and commands, so the limits grow with the size of the file:

    work    operations of one run: multiply-accumulates, and 32 for each element that the DPU or the PPU handles
    memory  bytes of the intermediate results of one task
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from openrknn.errors import BudgetError
from openrknn.npu.blocks import cna, ppu
from openrknn.npu.blocks.formats import element_bytes, surfaces
from openrknn.npu.task import Chained, Convolution, Flying, Pooling, Step

__all__ = ["MEMORY_VARIABLE", "UNLIMITED", "WORK_VARIABLE", "Budget", "Demand", "demand"]

WORK_VARIABLE = "OPENRKNN_MAX_WORK"
MEMORY_VARIABLE = "OPENRKNN_MAX_MEMORY"
_ELEMENT_WORK = 32
"""Operations that one element costs in the DPU: about as many passes over arrays of 64-bit numbers."""
_WIDE = 8
"""Bytes of the numbers that NumPy computes with."""
_LANES = 16
_DPU_ARRAYS = 8
"""Arrays of an element each that live at the same time in the DPU, at the most."""
_FREE_WORK, _WORK_PER_BYTE = 32 * 10**9, 200_000
_FREE_MEMORY, _MEMORY_PER_BYTE = 1 << 30, 256
_PART_OF_MACHINE = 0.75
_SUFFIXES = {"K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


class Demand(NamedTuple):
    """What one task asks for."""

    work: int
    memory: int


@dataclass(frozen=True, slots=True)
class Budget:
    """What a run may ask for; None: whatever it likes."""

    work: int | None = None
    memory: int | None = None

    @classmethod
    def for_file(cls, size_bytes: int, *, work: int | None = None, memory: int | None = None) -> Budget:
        """The limits for a file of this size: as given, as the environment says, or generous ones."""
        if work is None:
            work = _from_environment(WORK_VARIABLE)
        if memory is None:
            memory = _from_environment(MEMORY_VARIABLE)
        usual = min(_FREE_MEMORY + _MEMORY_PER_BYTE * size_bytes, int(_PART_OF_MACHINE * _machine_bytes()))
        return cls(
            _FREE_WORK + _WORK_PER_BYTE * size_bytes if work is None else work, usual if memory is None else memory
        )

    def check(self, steps: Iterable[Step], *, natively: bool = False) -> int:
        """BudgetError for the first task that asks for too much; the operations of all of them.

        `natively`: count only the memory that every way of running it needs.
        """
        total = 0
        for step in steps:
            asked = demand(step, natively=natively or step.native is not None)
            total += asked.work
            try:
                self.check_memory(asked.memory, f"a task ({step.kind})")
                self.check_work(total, f"the tasks up to this one ({step.kind})")
            except BudgetError as error:
                error.task, error.operator = step.task, str(step.operator)
                raise
        return total

    def check_work(self, asked: int, who: str) -> None:
        """BudgetError if `who` asks for more operations than a run may have."""
        if self.work is not None and asked > self.work:
            raise BudgetError(
                f"{who}: {asked:,} operations asked for, {self.work:,} allowed. Real models stay far below; if this "
                f"one is real, allow more with Session(max_work=...) or {WORK_VARIABLE}, for example "
                f"{WORK_VARIABLE}={_rounded(asked)}"
            )

    def check_memory(self, asked: int, who: str) -> None:
        """BudgetError if `who` needs more bytes for its intermediate results than there may be."""
        if self.memory is not None and asked > self.memory:
            raise BudgetError(
                f"{who}: {asked:,} bytes of memory needed, {self.memory:,} allowed. Real models stay far below; if "
                f"this one is real, allow more with Session(max_memory=...) or {MEMORY_VARIABLE}, for example "
                f"{MEMORY_VARIABLE}={_rounded(asked)}"
            )


UNLIMITED = Budget()


def demand(step: Step, *, natively: bool = False) -> Demand:
    """What a task asks for, as NumPy runs it; `natively`: the memory of its kernel."""
    if isinstance(step, Convolution):
        return _convolution(step, natively=natively)
    if isinstance(step, Flying):
        return _flying(step, natively=natively)
    if isinstance(step, Pooling):
        return _pooling(step.config, natively=natively)
    return Demand(0, 0)


def _convolution(step: Convolution, *, natively: bool) -> Demand:
    source = step.source
    pixels = source.out_height * source.out_width
    channels = source.packed_channels or source.channels
    read = channels * source.height * source.width
    kernels = source.weight_channels if source.depthwise else source.kernels
    weights = _weights(source)
    padded = min(channels, source.weight_channels) * _padded_pixels(source)
    results = max(kernels, step.dpu.channels) * pixels
    work = step.macs + read + padded + _ELEMENT_WORK * results
    if natively:
        planes = max(channels, source.weight_channels, step.dpu.channels if source.depthwise else 0) + _LANES
        return Demand(work, _WIDE * planes * _padded_pixels(source) + 4 * weights)
    seen = min(channels, source.weight_channels) * pixels
    arrays = 3 * read + 2 * padded + 2 * seen + 3 * weights + _DPU_ARRAYS * results
    pooled = _pooling(step.pooling, natively=False) if step.pooling is not None else Demand(0, 0)
    return Demand(work + pooled.work, _WIDE * arrays + pooled.memory)


def _weights(source: cna.Config) -> int:
    kernels = 1 if source.depthwise else source.kernels
    count = kernels * source.kernel_height * source.kernel_width * source.weight_channels
    return max(count, source.weight_bytes)


def _padded_pixels(source: cna.Config) -> int:
    """Of the input with everything around it that the windows touch."""
    rows = (source.out_height - 1) * source.stride_y + (source.kernel_height - 1) * source.dilation_y + 1
    columns = (source.out_width - 1) * source.stride_x + (source.kernel_width - 1) * source.dilation_x + 1
    height = (source.height - 1) * source.spread_y + 1 + source.pad_top
    width = (source.width - 1) * source.spread_x + 1 + source.pad_left
    return max(rows, height) * max(columns, width)


def _flying(step: Flying, *, natively: bool) -> Demand:
    reader, size = step.reader, element_bytes(step.reader.precision)
    atoms = surfaces(reader.channels, size, reader.atom_bytes) * reader.height * reader.width
    moved = atoms * max(reader.repeat_x, 1) * max(reader.repeat_y, 1) * reader.atom_bytes
    results = max(step.dpu.channels, reader.channels) * reader.height * reader.width
    work = moved + _ELEMENT_WORK * results
    if natively:
        return Demand(work, atoms * reader.atom_bytes)
    memory = 4 * moved + _WIDE * _DPU_ARRAYS * results
    pooled = _pooling(step.pooling, natively=False) if isinstance(step, Chained) else Demand(0, 0)
    return Demand(work + pooled.work, memory + pooled.memory)


def _pooling(config: ppu.Config, *, natively: bool) -> Demand:
    size = element_bytes(config.precision)
    lanes = surfaces(config.channels, size, config.atom_bytes) * config.atom_bytes // size
    height = max((config.out_height - 1) * config.stride_y + config.kernel_height, config.height + config.pad_top)
    width = max((config.out_width - 1) * config.stride_x + config.kernel_width, config.width + config.pad_left)
    read, padded = lanes * config.height * config.width, lanes * height * width
    results = lanes * config.out_height * config.out_width
    windows = results * config.kernel_height * config.kernel_width
    work = read + padded + windows + _ELEMENT_WORK * results
    if natively:
        return Demand(work, read * size)
    return Demand(work, _WIDE * (2 * read + padded + windows + 4 * results))


def _from_environment(name: str) -> int | None:
    text = os.environ.get(name, "").strip()
    if not text:
        return None
    number, factor = (text[:-1], _SUFFIXES[text[-1].upper()]) if text[-1].upper() in _SUFFIXES else (text, 1)
    try:
        value = int(float(number) * factor)
    except (ValueError, OverflowError):
        value = -1
    if value < 1:
        raise ValueError(f"{name}={text!r} is not a number such as 500M, 2G or 3T")
    return value


def _machine_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _rounded(asked: int) -> str:
    """A little more, in the form that the environment takes."""
    for suffix, factor in reversed(_SUFFIXES.items()):
        if asked >= factor:
            return f"{-(-asked // factor) + 1}{suffix}"
    return str(asked)
