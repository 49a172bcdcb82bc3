"""What a task moves and multiplies, counted in its decoded registers, and the cycles that follow from it.

Halo rows that are read twice count twice; weights that a band finds in the buffer do not count. Cycles are a roof with
two sides: the multiply-accumulate array's, and the memory's 16 bytes per cycle.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from openrknn.isa.enums import CombineUse, OperandMode
from openrknn.npu import ppu, rdma
from openrknn.npu.dpu import pipeline
from openrknn.npu.formats import element_bytes, surfaces
from openrknn.npu.step import Chained, Convolution, Flying, Pooling, Step

__all__ = ["ARRAY_MACS", "BYTES_PER_CYCLE", "OPERAND_BYTES", "Traffic", "traffic_of"]

ARRAY_MACS = 1024
"""int8 products per cycle of an RK3588 core: three cores at 1 GHz make the 6 TOPS of the data sheet."""
BYTES_PER_CYCLE = 16
"""One atom."""
OPERAND_BYTES = {1: 4, 2: 2, 4: 2}
"""Bit of the kinds of operands per channel -> bytes of one."""


class Traffic(NamedTuple):
    """One task, or several together."""

    read_bytes: int = 0
    written_bytes: int = 0
    macs: int = 0
    array_cycles: int = 0
    memory_cycles: int = 0
    cycles: int = 0
    """The larger one of the two, task by task."""

    @classmethod
    def of(cls, read: int, written: int, macs: int = 0, element_size: int = 1, array_macs: int = ARRAY_MACS) -> Traffic:
        """By the two sides of the roof; numbers of two bytes take twice as long to multiply."""
        arithmetic, memory = -(-macs * element_size // array_macs), -(-(read + written) // BYTES_PER_CYCLE)
        return cls(read, written, macs, arithmetic, memory, max(arithmetic, memory))

    def plus(self, other: Traffic) -> Traffic:
        return Traffic(*(a + b for a, b in zip(self, other, strict=True)))


def traffic_of(step: Step, array_macs: int = ARRAY_MACS) -> Traffic:
    """Of one decoded task; loading a table costs its commands only."""
    if isinstance(step, Convolution):
        written = _written(step.dpu, step.source.out_height * step.source.out_width)
        if step.pooling is not None:
            written = _pooling(step.pooling)[1]
        size = element_bytes(step.source.weight_precision)
        return Traffic.of(sum(_convolution_reads(step)), written, _macs(step), size, array_macs)
    if isinstance(step, Pooling):
        return Traffic.of(*_pooling(step.config))
    if isinstance(step, Flying):
        read = _main(step.reader) + _operand(step.reader, step.dpu.channels) + _channels(step.reader)
        pixels = step.reader.height * step.reader.width * step.reader.repeat_x * step.reader.repeat_y
        written = _pooling(step.pooling)[1] if isinstance(step, Chained) else _written(step.dpu, pixels)
        return Traffic.of(read, written)
    return Traffic()


def _macs(step: Convolution) -> int:
    """On whole atoms of channels; pictures have their own: with them ResNet18 is 3 % above the vendor's estimate."""
    source = step.source
    return step.macs * source.packed_channels // source.weight_channels if source.packed_channels else step.macs


def _convolution_reads(step: Convolution) -> Iterator[int]:
    source = step.source
    size = element_bytes(source.precision)
    if source.packed_channels:
        yield source.height * source.width * source.packed_channels * size
    else:
        yield surfaces(source.channels, size, source.atom_bytes) * source.atom_bytes * source.height * source.width
    if not source.reuses_weights:
        yield source.weight_bytes if source.compression is None else source.compression.size
    if step.reader is not None:
        yield _channels(step.reader)
        yield _operand(step.reader, step.dpu.channels)


def _main(reader: rdma.Config) -> int:
    if reader.main is None:
        return 0
    size = element_bytes(reader.precision)
    return surfaces(reader.channels, size, reader.atom_bytes) * reader.atom_bytes * reader.height * reader.width


def _operand(reader: rdma.Config, channels: int) -> int:
    if reader.operand is None or reader.combine & CombineUse.MAIN:
        return 0
    pixels = 1 if reader.operand.mode is OperandMode.PER_CHANNEL else reader.height * reader.width
    return channels * reader.operand.bytes_each * pixels


def _channels(reader: rdma.Config) -> int:
    kinds = (int(reader.bias_kinds), int(reader.norm_kinds))
    return sum(size * reader.channels for kind in kinds for bit, size in OPERAND_BYTES.items() if kind & bit)


def _written(config: pipeline.Config, pixels: int) -> int:
    size = element_bytes(config.out.precision)
    if config.write.packed_bytes is not None:
        return pixels * config.write.packed_bytes
    return surfaces(config.real_channels, size, config.write.atom_bytes) * config.write.atom_bytes * pixels


def _pooling(config: ppu.Config) -> tuple[int, int]:
    count = surfaces(config.channels, element_bytes(config.precision), config.atom_bytes) * config.atom_bytes
    return count * config.height * config.width, count * config.out_height * config.out_width
