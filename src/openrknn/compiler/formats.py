"""The two number formats that models are compiled for, and the sizes that follow from them and the chip's atoms."""

from __future__ import annotations

from dataclasses import dataclass

from openrknn.chips import CHIPS
from openrknn.container.parts import DataType
from openrknn.isa import Precision

__all__ = ["ATOM_BYTES", "FP16", "INT8", "Format", "align", "ceil_div"]

ATOM_BYTES = CHIPS["rk3588"].atom_bytes
"""Of most chips; `Format.atom_bytes` says it for the one at hand."""


def align(number: int, multiple: int) -> int:
    """The next multiple."""
    return -(-number // multiple) * multiple


def ceil_div(number: int, divisor: int) -> int:
    """Divided, rounded up."""
    return -(-number // divisor)


@dataclass(frozen=True, slots=True)
class Format:
    """A number format of activations."""

    name: str
    precision: Precision
    dtype: DataType
    element_bytes: int
    atom_bytes: int = ATOM_BYTES
    group_atoms: int = 2
    """Atoms of output channels that a convolution makes together."""

    @property
    def atom(self) -> int:
        """Channels of one atom."""
        return self.atom_bytes // self.element_bytes

    @property
    def group(self) -> int:
        """Output channels that a convolution makes together."""
        return self.group_atoms * self.atom

    @property
    def depthwise_group(self) -> int:
        """Channels that a depthwise convolution makes together: twice as many."""
        return 2 * self.group_atoms * self.atom

    def surfaces(self, channels: int) -> int:
        return ceil_div(channels, self.atom)


INT8 = Format("int8", Precision.INT8, DataType.INT8, 1)
FP16 = Format("fp16", Precision.FP16, DataType.FLOAT16, 2)
"""For atoms of 16 bytes."""
