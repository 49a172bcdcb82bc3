"""CORE: what the multiply-accumulate array delivers."""

from __future__ import annotations

from openrknn import numerics
from openrknn.records import dataclass

__all__ = ["Config"]


@dataclass(frozen=True, slots=True)
class Config:
    """What CORE delivers besides the accumulators."""

    window_sums: bool
    shift: int
    rounding: numerics.Rounding
    byte_channels: int = 0
    """RK3576: the array multiplies the bytes of CNA's 16-bit numbers and delivers so many channels; 0: it does not."""
