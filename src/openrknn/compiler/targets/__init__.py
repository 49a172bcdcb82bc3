"""What differs between the chips that models are compiled for; one file per family says how its registers differ.

Lowering writes the registers of RK3588, the map that the others derive from; `Target.translate` makes them the chip's.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from openrknn.compiler.targets.rk3566 import RK3566
from openrknn.compiler.targets.target import RK3588, Buffer, Target

__all__ = ["RK3566", "RK3588", "TARGETS", "Buffer", "Target"]

TARGETS: Mapping[str, Target] = MappingProxyType({"rk3588": RK3588, "rk3566": RK3566})
"""By family: what the compiler can make models for."""
