"""The output converter: from wide numbers to the format that is written.

    integers    y = saturate(round(x * scale + (offset << shift) >> shift))   or
                y = saturate(round((x + offset) * scale >> shift))
    floats      y = x * 2^-n, rounded to the output format. The scale, 1 in the vendor's streams, is not applied: with 0
                a board (RK3588, allbilly/rk3588 gemm, conv_gemm, simple_add) writes the same numbers
    from integers to floats       y = round(x * scale >> shift) * 2^-n, rounded to the output format

It rounds once, the offset included: ties go to the even result. Boards with RV1103 and RK3588 showed it (PP-OCR's
detector: 16 scores to the last digit, none of them with ties to the even quotient).
"""

from __future__ import annotations

import numpy as np

from openrknn import numerics
from openrknn.npu.blocks.formats import Numbers
from openrknn.task.formats import is_float
from openrknn.task.out_cvt import Config

__all__ = ["apply"]


def apply(values: Numbers, config: Config) -> Numbers:
    """The formula on top, not yet encoded.

    An offset of 1 appears together with `minus_exponent` where floats are written; what it does is unknown, and
    results agree with the simulator without it.
    """
    if values.dtype.kind == "f":
        factor = np.float32(config.scale) * np.float32(2.0**-config.minus_exponent)
        return values * factor if factor != 1 else values
    if config.minus_exponent and writes_float(config):
        whole = numerics.shift_right(values * config.scale, config.shift, config.rounding)
        return whole.astype(np.float32) * np.float32(2.0**-config.minus_exponent)
    if config.add_first:
        return numerics.shift_right((values + config.offset) * config.scale, config.shift, config.rounding)
    return numerics.shift_right(values * config.scale, config.shift, config.rounding, offset=config.offset)


def writes_float(config: Config) -> bool:
    """Whether what is written is floating point."""
    return is_float(config.precision)
