"""Which chip has which register map. A map is built when it is first asked for."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Protocol

from openrknn.chip import FAMILIES
from openrknn.chips import CHIPS, find_chip
from openrknn.errors import UnsupportedError
from openrknn.isa.blocks import RegisterMap
from openrknn.isa.errors import DeclarationError
from openrknn.isa.registers import Register

__all__ = ["all_maps", "input_registers", "map_for"]


class Named(Protocol):
    """Anything with a name: a `Chip`."""

    @property
    def name(self) -> str:
        """Lower-case name of the chip."""


def map_for(chip: str | Named) -> RegisterMap:
    """The register map of a chip, given as a `Chip` or by its name."""
    name = chip if isinstance(chip, str) else chip.name
    found = find_chip(name)
    if found is None:
        raise UnsupportedError(f"no register map for {name!r}; there is one for {', '.join(sorted(CHIPS))}")
    return _family_map(found.family)


def input_registers(chip: str | Named) -> Mapping[str, type[Register]]:
    """The registers of CNA that the inputs of a model patch, by name, and perhaps others.

    RK3588's are a module of their own: the rest of the map stays away.
    """
    name = chip if isinstance(chip, str) else chip.name
    found = find_chip(name)
    if found is not None and found.family == "rk3588":
        from openrknn.chip.rk3588.cna_input import BY_NAME

        return BY_NAME
    return map_for(chip).block("CNA").by_name


def all_maps() -> tuple[RegisterMap, ...]:
    """Every register map, one per family of chips."""
    return tuple(_family_map(family) for family in FAMILIES)


@cache
def _family_map(family: str) -> RegisterMap:
    found = getattr(import_module(f"openrknn.chip.{family}.registers"), family.upper())
    if not isinstance(found, RegisterMap) or found.name != family:
        raise DeclarationError(f"openrknn.chip.{family}.registers does not hold the map of {family}")
    return found
