"""What differs between the chips that models are compiled for; one file per family says how its registers differ.

Lowering writes the registers of RK3588, the map that the others derive from; `Target.translate` makes them the chip's.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from openrknn.chips import Chip
from openrknn.compiler.targets.rk3562 import RK3562
from openrknn.compiler.targets.rk3566 import RK3566
from openrknn.compiler.targets.rk3576 import RK3576, RV1126B
from openrknn.compiler.targets.rv1106 import RV1106
from openrknn.compiler.targets.target import RK3588, Buffer, Target

__all__ = [
    "RK3562", "RK3566", "RK3576", "RK3588", "RV1106", "RV1126B", "TARGETS", "Buffer", "Target", "target_of",
]  # fmt: skip

TARGETS: Mapping[str, Target] = MappingProxyType({
    "rk3588": RK3588, "rk3566": RK3566, "rk3562": RK3562, "rk3576": RK3576, "rv1126b": RV1126B, "rv1106": RV1106,
})  # fmt: skip
"""By family, or by name where chips of a family differ: what the compiler can make models for."""


def target_of(chip: Chip) -> Target:
    """What the compiler knows of a chip."""
    return TARGETS[chip.name] if chip.name in TARGETS else TARGETS[chip.family]
