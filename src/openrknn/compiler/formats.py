"""A number format that models are compiled for, and the sizes that follow from it and the chip's atoms.

Which formats a chip has: `targets.Target.int8` and `.fp16`.
"""

from __future__ import annotations

from dataclasses import dataclass

from openrknn.container.parts import DataType
from openrknn.isa import Precision

__all__ = ["HEAD_CHANNELS", "Format", "align", "ceil_div"]

HEAD_CHANNELS = 16
"""Channels of a head of attention are padded to a multiple of these, on every chip."""


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
    atom_bytes: int
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
