"""Every chip by its name; the facts of each are in the folder of its family, `openrknn.chip.<family>.facts`.

Two names can share one NPU (RK3566/RK3568, RV1103/RV1106): they share `target`, the string by which the vendor's
runtime tells whether a model fits.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType

from openrknn.chip import FAMILIES
from openrknn.chip.facts import Cbuf, Chip, TaskList
from openrknn.errors import UnsupportedError

__all__ = [
    "CHIPS",
    "TARGETS",
    "VARIANTS",
    "Cbuf",
    "Chip",
    "TaskList",
    "chip_for",
    "chip_in",
    "chip_named",
    "find_chip",
    "known_chips",
]

_FACTS = tuple(import_module(f"openrknn.chip.{family}.facts") for family in FAMILIES)
_ORDER = ("rk3588", "rk3576", "rk3566", "rk3568", "rk3562", "rv1126b", "rv1106", "rv1103", "rv1106b", "rv1103b")
"""In lists and messages; a chip that is not here comes last."""
_FOUND: dict[str, Chip] = {chip.name: chip for facts in _FACTS for chip in facts.CHIPS}

CHIPS: Mapping[str, Chip] = MappingProxyType(
    {name: _FOUND[name] for name in dict.fromkeys((*(name for name in _ORDER if name in _FOUND), *_FOUND))}
)
"""Every chip by its name."""

TARGETS: Mapping[str, tuple[Chip, ...]] = MappingProxyType(
    {
        target: tuple(chip for chip in CHIPS.values() if chip.target == target)
        for target in dict.fromkeys(chip.target for chip in CHIPS.values())
    }
)
"""The chips that share a target string; the first one stands for all of them."""

_OTHERS = [(name, chip) for facts in _FACTS for name, (chip, _) in getattr(facts, "VARIANTS", {}).items()]
VARIANTS: Mapping[str, str] = MappingProxyType({name: chip for of in CHIPS for name, chip in _OTHERS if chip == of})
"""Other names that people and device trees use, and the chip in `CHIPS` whose models they run."""


def find_chip(name: str) -> Chip | None:
    """The chip with this name, or whose variant has it, in any case: "rk3588", "RK3588S"; None for others."""
    key = name.strip().lower()
    return CHIPS.get(VARIANTS.get(key, key))


def known_chips() -> str:
    """All names, for messages."""
    return f"{', '.join(CHIPS)} (and {', '.join(VARIANTS)})"


def chip_named(name: str) -> Chip:
    """The chip with this name, in any case: "rk3588", "RK3568", "rk3588s"."""
    chip = find_chip(name)
    if chip is None:
        raise UnsupportedError(f"no chip is called {name!r}; known are {known_chips()}")
    return chip


def chip_in(compatible: str) -> str | None:
    """The chip's name from a device tree's text: "radxa,rock-5b\\0rockchip,rk3588\\0"."""
    found = (find_chip(entry.rpartition(",")[2]) for entry in compatible.split("\0"))
    return next((chip.name for chip in found if chip is not None), None)


def chip_for(target: str, platform: str = "") -> Chip:
    """The chip that a model was built for, from its target string and the platform name beside it.

    The target decides, as it does in the vendor's runtime; the platform only picks among the chips that share it.
    """
    try:
        chips = TARGETS[target]
    except KeyError:
        known = ", ".join(f"{target!r}" for target in TARGETS)
        raise UnsupportedError(f"the model is for an NPU called {target!r}; known are {known}") from None
    wanted = find_chip(platform)
    return wanted if wanted in chips else chips[0]
