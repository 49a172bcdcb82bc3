"""PPU: pooling."""

from __future__ import annotations

from typing import Generic

from openrknn.isa import Precision
from openrknn.isa.enums import PoolingMethod
from openrknn.records import dataclass
from openrknn.task.formats import ATOM_BYTES
from openrknn.task.place import A

__all__ = ["Config"]


@dataclass(frozen=True, slots=True)
class Config(Generic[A]):
    """One pooling task in natural units."""

    method: PoolingMethod
    precision: Precision
    source_address: A
    source_line_bytes: int
    source_surface_bytes: int
    target_address: A
    target_line_bytes: int
    target_surface_bytes: int
    channels: int
    height: int
    width: int
    out_height: int
    out_width: int
    kernel_height: int
    kernel_width: int
    stride_y: int
    stride_x: int
    pad_top: int
    pad_left: int
    pad_value: int
    reciprocal_width: int
    reciprocal_height: int
    atom_bytes: int = ATOM_BYTES
    pad_right: int = 0
    """Columns and rows of padding behind the data: no result depends on them, sizes say them already."""
    pad_bottom: int = 0
