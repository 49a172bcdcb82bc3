"""The whole numbers that dnhkng/open-rknpu's board tests expected, to which every byte of the board was equal.

Sums are exact; the factor of the channel and the factor of the output are applied one after the other, each rounded to
the nearest number with halves to even, the second with the zero point inside.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tests.silicon.open_rknpu.writer import ONE, Convolution, Quantised

Array = npt.NDArray[Any]


def shifted(values: Array, bits: int) -> Array:
    """values / 2**bits to the nearest whole number, halves to even."""
    if bits == 0:
        return values
    found: Array = (values + (1 << bits - 1) - 1 + (values >> bits & 1)) >> bits
    return found


def convolved(model: Convolution, q: Quantised, picture: Array) -> Array:
    """What one picture gives: height, width, kernels."""
    above, left, below, right = model.pads
    signed = picture.astype(np.int64) - 128
    padded = np.pad(signed, ((above, below), (left, right), (0, 0)), constant_values=model.zero_point - 128)
    windows = np.lib.stride_tricks.sliding_window_view(padded, model.reach, axis=(0, 1))
    (down, across), (dy, dx) = model.strides, model.dilations
    windows = windows[::down, ::across, :, ::dy, ::dx]
    seen = windows.reshape(*windows.shape[:2], -1).astype(np.float64)
    sums = (seen @ (q.weights - q.zero_points[:, None]).T.astype(np.float64)).astype(np.int64) + q.biases
    if model.relu or model.six:
        sums = np.maximum(sums, 0)
    scaled = shifted(sums * q.factors, ONE.bit_length() - 1) * q.multiplier
    result = np.clip(shifted(scaled + (q.out.zero_point << q.shift), q.shift), -128, 127)
    if model.six:
        result = np.minimum(result, np.clip(np.rint(6 / q.out.scale) + q.out.zero_point, -128, 127))
    return result.astype(np.int8)
