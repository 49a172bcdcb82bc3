"""Weights: asymmetric int8 per output channel.

The DPU multiplies each channel by a whole number of 1/16384 of the largest scale. Scales are such whole numbers from
the start, rounded up: a multiplier that is rounded afterwards is 1 % off for a channel with a hundredth of the largest
weights, and makes the bias of a nearly dead channel many times too large.

    scale[o] = (max - min) / 255 with 0 inside; stored = round(w / scale) + zero_point
    bias[o]  = round(b / (scale_in * scale[o])) - zero_point_in * sum of (stored - zero_point)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from openrknn.compiler.ir import Array, Quantization

MULTIPLIER_UNIT = 16384
_WEAK = 64
"""Multipliers below that are more than 0.8 % off when they are rounded."""
_EXACT = 1e-6
"""A ratio that is whole but for the last digit stays."""


@dataclass(frozen=True, slots=True)
class QuantizedWeights:
    """`real = (stored - zero_point) * scale`, one scale and zero point per output channel."""

    stored: Array
    scale: Array
    zero_point: Array

    @property
    def real(self) -> Array:
        shape = (-1, *[1] * (self.stored.ndim - 1))
        result: Array = (self.stored - self.zero_point.reshape(shape)) * self.scale.reshape(shape)
        return result


_LARGEST_BIAS = 2.0**30
"""Of int32: half of it is left for the sum over the inputs."""


def least_scales(bias: Array, source: Quantization) -> Array:
    """Of weights, for each output: with smaller ones its bias has no room in 32 bits."""
    result: Array = np.abs(bias) / (source.scale * _LARGEST_BIAS)
    return result


def quantize_weights(weights: Array, least: Array | float = 0.0) -> QuantizedWeights:
    """Outputs along the first axis; no scale is below `least`."""
    flat = weights.reshape(len(weights), -1)
    low = np.minimum(flat.min(1), 0).astype(np.float32)
    high = np.maximum(flat.max(1), 0).astype(np.float32)
    scale = ((high - low) / np.float32(255)).astype(np.float64)
    # A channel without weights must not decide over the multipliers of all others.
    scale[scale == 0] = scale.max() or 1.0
    scale = np.maximum(scale, least)
    scale = scale.max() * relative_scales(scale, up=True) / MULTIPLIER_UNIT
    zero = np.clip(np.rint(-128 - low / scale), -128, 127).astype(np.int64)
    stored = np.clip(np.rint(flat / scale[:, None]) + zero[:, None], -128, 127).astype(np.int64)
    return QuantizedWeights(stored.reshape(weights.shape), scale, zero)


def relative_scales(scale: Array, *, up: bool = False) -> Array:
    """The multipliers of the DPU: each scale in units of 1/16384 of the largest; `up`: never less than that."""
    ratio = scale / scale.max() * MULTIPLIER_UNIT
    whole = np.ceil(ratio - _EXACT) if up else np.rint(ratio)
    result: Array = np.clip(whole, 1, MULTIPLIER_UNIT).astype(np.int64)
    return result


def keep_weights(weights: QuantizedWeights) -> QuantizedWeights:
    """Integers of a quantised model as they are, but for channels so weak that the DPU has no multiplier for them."""
    flat = weights.stored.reshape(len(weights.stored), -1)
    is_dead = np.all(flat == weights.zero_point[:, None], axis=1)
    scale = np.where(is_dead, weights.scale[~is_dead].max(initial=0) or 1.0, weights.scale)
    is_weak = scale / scale.max() * MULTIPLIER_UNIT < _WEAK
    if not is_weak.any():
        return QuantizedWeights(weights.stored, scale, weights.zero_point)
    coarse = np.where(is_weak, scale.max() * relative_scales(scale, up=True) / MULTIPLIER_UNIT, scale)
    zero = weights.zero_point[:, None]
    stored = np.clip(np.rint((flat - zero) * (scale / coarse)[:, None]) + zero, -128, 127).astype(np.int64)
    return QuantizedWeights(stored.reshape(weights.stored.shape), coarse, weights.zero_point)


def quantize_bias(bias: Array, source: Quantization, weights: QuantizedWeights) -> Array:
    """int32 per output channel, the input's zero point worked in."""
    sums = (weights.stored.reshape(len(bias), -1) - weights.zero_point[:, None]).sum(1)
    steps = np.rint(bias / (source.scale * weights.scale)) - source.zero_point * sums
    limited: Array = np.clip(steps, -(2**31), 2**31 - 1)
    return limited.astype(np.int64)


def bias_error(rounded: Array, weights: Array, means: Array, inside: Array, pad_value: float) -> Array:
    """How far rounding moves the mean of each output.

    `means` is that of each input channel. `inside` is the share of windows in which each tap [rows, columns] reads the
    map; in the others it reads `pad_value`. Weights of a depthwise convolution are [C, 1, rows, columns].
    """
    change = rounded - weights
    moved = (change * inside).sum((2, 3))
    read = moved @ means if len(means) == weights.shape[1] else moved[:, 0] * means
    result: Array = read + pad_value * (change * (1 - inside)).sum((1, 2, 3))
    return result
