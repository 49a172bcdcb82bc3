"""The two lookup tables of the EW stage: domain, resolution, contents, and the lines beyond their ends."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from openrknn.records import dataclass

__all__ = ["ENTRIES", "Config", "Piece", "Slope", "Tables"]

ENTRIES = 513
"""Of each table."""


@dataclass(frozen=True, slots=True)
class Slope:
    """A straight line beyond the end of a table."""

    scale: int
    shift: int


@dataclass(frozen=True, slots=True)
class Piece:
    """A straight line from `start` on, away from the table."""

    start: int
    value: int
    slope: Slope


@dataclass(frozen=True, slots=True, eq=False)
class Config:
    """Domain, resolution and contents of the tables."""

    entries: npt.NDArray[np.int64]
    le_start: int
    lo_start: int
    lo_end: int
    le_select: int
    lo_select: int
    below: Slope
    above: Slope
    further_below: tuple[Piece, ...] = ()
    """After `below`, in the order in which one meets them on the way from the table."""
    further_above: tuple[Piece, ...] = ()


class Tables(Protocol):
    """What the chip holds of both tables; tasks that load them come before those that use them."""

    def snapshot(self) -> npt.NDArray[np.int64]:
        """The entries as they are now."""
