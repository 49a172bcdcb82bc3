"""CORE: the multiply-accumulate array.

    acc[o, y, x] = sum over ky, kx, c of  in[c, y * sy + ky * dy, x * sx + kx * dx] * w[o, ky, kx, c]     (s may be 0)
    sum[y, x]    = sum over ky, kx, c of  in[c, ...]          (depthwise: per channel)

Integers are exact. Floating point sums are made of single precision numbers, in an order that is part of the rule, so
that every machine has the same bits:

    group[g, ky, kx] = the products of channels 32 g ... 32 g + 31 at one position of the kernel, added one by one
    acc              = the groups, added one by one: g, in it ky, in it kx

32 channels are what the array takes at a time. Recordings of 190 fp16 convolutions (RK3588) accept this sum, and refuse
the exact one, one without groups, groups of 8, 16 and 64, and additions that cut off: docs/hardware/roundings.md. In
which order the array adds the 32 is not known. Products of fp16 are exact in single precision. Depthwise, a position is
a group.
"""

from __future__ import annotations

import numpy as np

from openrknn import numerics
from openrknn.npu.blocks import cna
from openrknn.npu.blocks.formats import Numbers
from openrknn.records import dataclass
from openrknn.task import cna as task_cna
from openrknn.task.core import Config

__all__ = ["Sums", "convolve", "convolve_bytes", "truncate"]

_CACHED = 1 << 16
"""Sums that are made at the same time."""
_INPUTS = 32
"""Inputs that the array takes at a time."""


@dataclass(frozen=True, slots=True)
class Sums:
    """Accumulators [channel, row, column] and the window sums ([1 or channel, row, column]) if asked for."""

    accumulators: Numbers
    window: Numbers | None


def convolve(features: Numbers, weights: Numbers, config: task_cna.Config, *, window_sums: bool) -> Sums:
    """The formula on top; padding and spreading included."""
    channels = min(len(features), config.weight_channels)
    padded = _padded(features[:channels], config)
    with np.errstate(invalid="ignore", over="ignore"):  # infinities and NaN are data like any other
        return (_depthwise if config.depthwise else _direct)(padded, weights, config, window_sums)


def convolve_bytes(features: Numbers, weights: Numbers, config: Config) -> Sums:
    """CNA set to fp16 x int4, CORE to int8 (RK3576, one pixel): the array multiplies bytes and knows nothing of fp16.

        sum[2 n + h] = sum over g < groups of 32 inputs, c < 16 of  lower(a) * lower(w) + upper(a) * upper(w),
                       a = in[32 g + 16 h + c], w = fp16(w[n, 32 g + 16 h + c])

    The bytes are signed. 32 inputs of fp16 are 64 bytes, two rows of 32 that the array has for int8: in fp16 it adds
    the rows of a pair, in int8 it delivers both. `features` are the 16-bit patterns; all printed sums of a board are
    these (docs/hardware/ledgers.md).
    """
    count = config.byte_channels
    widened = weights.reshape(len(weights), -1).astype("<f2").view(np.int8).astype(np.int64)
    pixel = features.reshape(-1).astype("<i2").view(np.int8).astype(np.int64)
    rows = (widened * pixel).reshape(len(weights), -1, 2, _INPUTS)  # kernel, group, half, byte
    return Sums(rows.sum((1, 3)).reshape(-1)[:count].reshape(-1, 1, 1), None)


def truncate(accumulators: Numbers, config: Config) -> Numbers:
    """The shift of CLIP_TRUNCATE, after the zero-point correction."""
    return numerics.shift_right(accumulators, config.shift, config.rounding) if config.shift else accumulators


def _padded(features: Numbers, config: task_cna.Config) -> Numbers:
    """Input rows and columns that the windows touch."""
    count, height, width = features.shape
    spread_height, spread_width = (height - 1) * config.spread_y + 1, (width - 1) * config.spread_x + 1
    needed_height = (config.out_height - 1) * config.stride_y + (config.kernel_height - 1) * config.dilation_y + 1
    needed_width = (config.out_width - 1) * config.stride_x + (config.kernel_width - 1) * config.dilation_x + 1
    shape = (
        count,
        max(needed_height, spread_height + config.pad_top),
        max(needed_width, spread_width + config.pad_left),
    )
    padded = np.empty(shape, np.float64)
    padded[...] = cna.pads_of(config, count)[:, None, None]
    top, left = config.pad_top, config.pad_left
    padded[:, top : top + spread_height : config.spread_y, left : left + spread_width : config.spread_x] = features
    return padded


def _window(padded: Numbers, config: task_cna.Config, row: int, column: int) -> Numbers:
    """What kernel position (row, column) sees, for every output pixel."""
    top, left = row * config.dilation_y, column * config.dilation_x
    rows = _taken(top, config.out_height, config.stride_y)
    columns = _taken(left, config.out_width, config.stride_x)
    return np.broadcast_to(padded[:, rows, columns], (len(padded), config.out_height, config.out_width))


def _taken(start: int, count: int, stride: int) -> slice:
    """Every `stride`-th place; with a stride of 0 the one place that all share, which is how Expand is compiled."""
    return slice(start, start + (count - 1) * stride + 1, max(stride, 1))


def _direct(padded: Numbers, weights: Numbers, config: task_cna.Config, window_sums: bool) -> Sums:
    """Matrix products in double precision: exact for int8 and int16, whose sums stay far below 2^53."""
    pixels = config.out_height * config.out_width
    total = np.zeros((config.kernels, pixels), np.float64)
    window = np.zeros(pixels, np.float64)
    wide = weights[..., : len(padded)].astype(np.float64)
    for row in range(config.kernel_height):
        for column in range(config.kernel_width):
            seen = np.ascontiguousarray(_window(padded, config, row, column)).reshape(-1, pixels)
            if not config.is_float:
                total += wide[:, row, column, :] @ seen
            if window_sums:
                window += seen.sum(0)
    shape = (-1, config.out_height, config.out_width)
    found = _float_sums(padded, wide, config) if config.is_float else total.astype(np.int64)
    return Sums(found.reshape(shape), _finish(window, config).reshape(shape) if window_sums else None)


def _float_sums(padded: Numbers, weights: Numbers, config: task_cna.Config) -> Numbers:
    """The rule on top; some kernels at a time, whose sums stay in the cache."""
    pixels = config.out_height * config.out_width
    inputs, factors = padded.astype(np.float32), weights.astype(np.float32)
    result = np.zeros((config.kernels, pixels), np.float32)
    count = max(1, _CACHED // pixels)
    for channel in range(0, len(inputs), numerics.FLOAT_GROUP):
        end = channel + numerics.FLOAT_GROUP
        for row in range(config.kernel_height):
            for column in range(config.kernel_width):
                seen = _window(inputs[channel:end], config, row, column).reshape(-1, pixels)
                for first in range(0, config.kernels, count):
                    own = factors[first : first + count, row, column, channel:end]
                    result[first : first + count] += numerics.multiply_floats(own, seen)
    return result


def _depthwise(padded: Numbers, weights: Numbers, config: task_cna.Config, window_sums: bool) -> Sums:
    """Channel by channel; those without data are 0."""
    kind = np.float32 if config.is_float else np.float64
    total = np.zeros((config.weight_channels, config.out_height, config.out_width), kind)
    window = np.zeros(total.shape, np.float64)
    count = len(padded)
    wide, padded = weights[:count].astype(kind), padded.astype(kind)
    for row in range(config.kernel_height):
        for column in range(config.kernel_width):
            seen = _window(padded, config, row, column)
            total[:count] += wide[:, row, column, None, None] * seen
            if window_sums:
                window[:count] += seen
    return Sums(_finish(total, config), _finish(window, config) if window_sums else None)


def _finish(total: Numbers, config: task_cna.Config) -> Numbers:
    return total.astype(np.float32 if config.is_float else np.int64)
