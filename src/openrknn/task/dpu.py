"""The DPU as a whole: all its stages, and the channels that go through them."""

from __future__ import annotations

from typing import Generic

from openrknn.isa import Precision
from openrknn.isa.enums import ChannelReduction
from openrknn.records import dataclass
from openrknn.task import ew, out_cvt, write
from openrknn.task.place import A
from openrknn.task.stage import Stage

__all__ = ["Config", "Correction"]


@dataclass(frozen=True, slots=True)
class Correction:
    """The zero point of the weights: acc += operand * window sum; `operand` None means per channel from memory."""

    operand: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Config(Generic[A]):
    """All stages in natural units."""

    flying: bool
    precision: Precision
    in_precision: Precision
    channels: int
    real_channels: int
    """Channels that carry data; the others of the last atom are set to `pad_bits`."""
    pad_bits: int
    reduction: ChannelReduction
    correction: Correction | None
    bias: Stage | None
    norm: Stage | None
    element_wise: ew.Config | None
    out: out_cvt.Config
    write: write.Config[A]
    reduced_pixels: int = 0
    """A maximum over the pixels of a convolution (RK3576): it restarts after so many of them; 0: see `_reduce_sums`."""

    @property
    def is_copy(self) -> bool:
        """A flying task that moves 16-bit lanes and computes nothing: the output format is the input's."""
        is_moved = self.flying and self.in_precision is Precision.INT16
        return is_moved and self.bias is None and self.norm is None and self.element_wise is None
