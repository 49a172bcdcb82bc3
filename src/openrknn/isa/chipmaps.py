"""Which chip has which register map."""

from __future__ import annotations

from typing import Protocol

from openrknn.errors import UnsupportedError
from openrknn.isa.blocks import RegisterMap
from openrknn.isa.rk3588 import RK3588

__all__ = ["MAPS", "map_for"]

MAPS: tuple[RegisterMap, ...] = (RK3588,)
"""Every register map, one per family of chips."""

_BY_CHIP = {chip: register_map for register_map in MAPS for chip in register_map.chips}


class Named(Protocol):
    """Anything with a name: a `Chip`."""

    @property
    def name(self) -> str:
        """Lower-case name of the chip."""


def map_for(chip: str | Named) -> RegisterMap:
    """The register map of a chip, given as a `Chip` or by its name."""
    name = chip if isinstance(chip, str) else chip.name
    if name not in _BY_CHIP:
        raise UnsupportedError(f"no register map for {name!r}; there is one for {', '.join(sorted(_BY_CHIP))}")
    return _BY_CHIP[name]
