"""The chips that models are compiled for; the folder of each family says how its registers differ.

Tasks become registers of RK3588, the map that the others derive from; `Target.translate` makes them the chip's.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from types import MappingProxyType

from openrknn.chip import FAMILIES
from openrknn.chip.target import Buffer, Target
from openrknn.chips import Chip

__all__ = ["RK3588", "TARGETS", "Buffer", "Target", "target_of"]


def _found() -> dict[str, Target]:
    modules = (f"openrknn.chip.{family}.target" for family in FAMILIES)
    known = [import_module(name).TARGETS for name in modules if find_spec(name) is not None]
    return {name: target for targets in known for name, target in targets.items()}


TARGETS: Mapping[str, Target] = MappingProxyType(_found())
"""By family, or by name where chips of a family differ: what the compiler can make models for."""
RK3588 = TARGETS["rk3588"]


def target_of(chip: Chip) -> Target:
    """What the compiler knows of a chip."""
    return TARGETS[chip.name] if chip.name in TARGETS else TARGETS[chip.family]
