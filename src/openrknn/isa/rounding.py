"""The codes of the registers' round bits, apart from the other enumerations: `chip.rk3588.cna_input` needs no more."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["Rounding"]


class Rounding(IntEnum):
    """What a right shift does with a half. [T; S on RV1103, where "up" turned out to be away from zero]"""

    TIES_TO_EVEN = 0
    TIES_AWAY = 1
