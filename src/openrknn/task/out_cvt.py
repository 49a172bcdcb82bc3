"""The output converter: from wide numbers to the format that is written."""

from __future__ import annotations

from openrknn import numerics
from openrknn.isa import Precision
from openrknn.records import dataclass

__all__ = ["Config"]


@dataclass(frozen=True, slots=True)
class Config:
    """The converter in natural units."""

    precision: Precision
    scale: int
    shift: int
    offset: int
    add_first: bool
    rounding: numerics.Rounding
    minus_exponent: int
    """Floats: divide by 2 to this."""
