"""Real factors as the NPU multiplies: a 15-bit number and a right shift."""

from __future__ import annotations

import math
from typing import NamedTuple

from openrknn.compiler.errors import UnsupportedOperatorError

_BITS = 15


class Factor(NamedTuple):
    """`multiplier / 2**shift`."""

    multiplier: int
    shift: int


def factor(value: float) -> Factor:
    """The closest factor with a multiplier of 16384 to 32767."""
    if not value > 0 or not math.isfinite(value):
        raise UnsupportedOperatorError(
            f"a factor of {value:g} between two scales has no fixed-point form; are the calibration data those of real "
            "use? fp16 needs none"
        )
    _, exponent = math.frexp(value)
    shift = _BITS - exponent
    multiplier = round(value * 2.0**shift)
    if multiplier >= 1 << _BITS:
        multiplier, shift = multiplier >> 1, shift - 1
    return Factor(multiplier, shift)
