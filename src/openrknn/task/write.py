"""The write DMA: how it walks through memory."""

from __future__ import annotations

from typing import Generic

from openrknn.records import dataclass
from openrknn.task.formats import ATOM_BYTES
from openrknn.task.place import A

__all__ = ["Config", "pitch"]


@dataclass(frozen=True, slots=True)
class Config(Generic[A]):
    """The counters of the write DMA, in bytes."""

    address: A
    per_pixel: int
    """E: atoms of one pixel in a channel group."""
    width: int
    height: int
    line_bytes: int
    atom_step_bytes: int
    """From one atom of a pixel to the next."""
    group_step_bytes: int
    packed_bytes: int | None
    """Packed output: bytes kept of each atom; None for whole atoms."""
    transposes_atoms: bool
    transposed_lanes: int | None
    """Lane transpose: lanes per atom (8 or 16); None without."""
    atom_bytes: int = ATOM_BYTES
    packed_run_bytes: int | None = None
    """Packed output that cuts the last atom of every run: bytes kept of each run; None: no runs."""
    spread_run_bytes: int | None = None
    """Packed output whose runs of this many bytes begin at whole atoms; None: no gaps."""
    packed_limit_bytes: int | None = None
    """Packed output ends here; None: with the data."""
    skips_surplus: bool = False
    """Where the walk has other pixels than the data: atoms without data are not written."""


def pitch(width: int, notch: int, bits: int = 13) -> int:
    """Atoms from one line to the next. The counter wraps: a transposed convolution of a picture whose rows were filled
    up writes lines of 64 atoms with a notch of 8172, 44 atoms apart.
    """
    return (width + notch) % (1 << bits)
