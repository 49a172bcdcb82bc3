"""CORE: what the multiply-accumulate array delivers."""

from __future__ import annotations

from dataclasses import dataclass

from openrknn import numerics

__all__ = ["Config"]


@dataclass(frozen=True, slots=True)
class Config:
    """What CORE delivers besides the accumulators."""

    window_sums: bool
    shift: int
    rounding: numerics.Rounding
