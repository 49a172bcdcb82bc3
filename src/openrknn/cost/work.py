"""What one task gives the parts of the NPU to do, from its sizes alone. `Shape` goes in, `Work` comes out.

    array     out pixels x kernel taps x groups of inputs x groups of kernels; a group is `Chip.weight_group`
              depthwise: out pixels x taps x groups of channels, `Chip.depthwise_group` bytes each
              packed pictures: out pixels x taps x groups of kernels, however few channels the picture has
    table     channels rounded up to 32, x out pixels
    DPU       channels rounded up to 16, x out pixels
    pooling   atoms written x (rows + columns of the window)
    streamed  weights of 1x1 kernels that meet up to 8 pixels: the array waits for every one of them

The rounding is that of the data paths: the array takes whole groups of weights, the DPU whole pairs of 8 channels. That
pictures cost a cycle per tap is a board's word: 4041 us for the first layer of YOLOv5s-relu, 3.7 M taps.
Halo rows that are read twice count twice; weights that a band finds in the buffer do not count.
"""

from __future__ import annotations

from typing import NamedTuple

from openrknn.backports import StrEnum
from openrknn.chips import Chip

__all__ = ["Kind", "Shape", "Work", "work_of"]

_TABLE_CHANNELS = 32
_DPU_CHANNELS = 16
_STREAM_PIXELS = 8
"""The array is done with a group of weights long before the next one is there."""


class Kind(StrEnum):
    """Which blocks work, as far as it matters for time."""

    CONVOLUTION = "convolution"
    DEPTHWISE = "depthwise"
    PICTURE = "picture"
    FLYING = "element-wise"
    POOLING = "pooling"
    TABLE_LOAD = "table load"


class Shape(NamedTuple):
    """The sizes of a task in natural units. A decoded stream tells them, and the compiler before it writes one."""

    kind: Kind
    pixels: int = 0
    """Of the output."""
    taps: int = 1
    """Rows x columns of the kernel; of a pooling window, rows + columns."""
    inputs: int = 0
    """Channels of one kernel; of a picture its own, whatever the weights are padded to."""
    kernels: int = 0
    weight_size: int = 1
    """Bytes of one weight."""
    channels: int = 0
    """Of the DPU."""
    uses_table: bool = False
    feature_bytes: int = 0
    weight_bytes: int = 0
    operand_bytes: int = 0
    written_bytes: int = 0
    command_bytes: int = 0

    @property
    def macs(self) -> int:
        """Multiply-accumulate operations. Depthwise weights are one kernel: all of them meet each pixel once."""
        kernels = {Kind.CONVOLUTION: self.kernels, Kind.PICTURE: self.kernels, Kind.DEPTHWISE: 1}.get(self.kind, 0)
        return self.pixels * self.taps * self.inputs * kernels


class Work(NamedTuple):
    """One task, or several of one core together."""

    tasks: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    command_bytes: int = 0
    macs: int = 0
    array_cycles: int = 0
    table_elements: int = 0
    dpu_elements: int = 0
    pooling_cycles: int = 0
    streamed_bytes: int = 0
    """Of those that are read."""

    @property
    def moved_bytes(self) -> int:
        return self.read_bytes + self.written_bytes + self.command_bytes

    def plus(self, other: Work) -> Work:
        return Work(*(a + b for a, b in zip(self, other, strict=True)))


def work_of(shape: Shape, chip: Chip) -> Work:
    """Count."""
    dpu = _up(shape.channels, _DPU_CHANNELS) * shape.pixels
    return Work(
        tasks=1,
        read_bytes=shape.feature_bytes + shape.weight_bytes + shape.operand_bytes,
        written_bytes=shape.written_bytes,
        command_bytes=shape.command_bytes,
        macs=shape.macs,
        array_cycles=_array_cycles(shape, chip),
        table_elements=_up(shape.channels, _TABLE_CHANNELS) * shape.pixels if shape.uses_table else 0,
        dpu_elements=dpu,
        pooling_cycles=shape.written_bytes // chip.atom_bytes * shape.taps if shape.kind is Kind.POOLING else 0,
        streamed_bytes=shape.weight_bytes if _streams(shape) else 0,
    )


def _streams(shape: Shape) -> bool:
    return shape.kind is Kind.CONVOLUTION and shape.taps == 1 and shape.pixels <= _STREAM_PIXELS


def _array_cycles(shape: Shape, chip: Chip) -> int:
    kernels, inputs = chip.weight_group
    positions = shape.pixels * shape.taps
    match shape.kind:
        case Kind.DEPTHWISE:
            return positions * _groups(shape.inputs * shape.weight_size, chip.depthwise_group)
        case Kind.PICTURE:
            return positions * _groups(shape.kernels * shape.weight_size, kernels)
        case Kind.CONVOLUTION:
            return positions * _groups(shape.inputs, inputs) * _groups(shape.kernels * shape.weight_size, kernels)
    return 0


def _groups(count: int, size: int) -> int:
    return -(-count // size)


def _up(count: int, size: int) -> int:
    return _groups(count, size) * size
