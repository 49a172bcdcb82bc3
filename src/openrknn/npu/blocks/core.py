"""CORE: the multiply-accumulate array.

    acc[o, y, x] = sum over ky, kx, c of  in[c, y * sy + ky * dy, x * sx + kx * dx] * w[o, ky, kx, c]     (s may be 0)
    sum[y, x]    = sum over ky, kx, c of  in[c, ...]          (depthwise: per channel)

Integers are exact. So are floating point sums, which are rounded once to single: the same bits whatever the order of
the additions, on every machine. (Depthwise sums are doubles, added row by row.) The width of the hardware's
accumulator is unknown, and at fp16 output the difference is nearly invisible.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from openrknn import numerics
from openrknn.npu.blocks import cna
from openrknn.npu.blocks.formats import Numbers
from openrknn.task import cna as task_cna
from openrknn.task.core import Config

__all__ = ["Sums", "convolve", "truncate"]


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
    window, squares = np.zeros((2, pixels), np.float64)
    wide = weights[..., : len(padded)].astype(np.float64)
    for row in range(config.kernel_height):
        for column in range(config.kernel_width):
            seen = np.ascontiguousarray(_window(padded, config, row, column)).reshape(-1, pixels)
            total += wide[:, row, column, :] @ seen
            if window_sums:
                window += seen.sum(0)
            if config.is_float:
                squares += np.einsum("cp,cp->p", seen, seen)
    shape = (-1, config.out_height, config.out_width)
    found = _rounded(total, padded, wide, squares, config) if config.is_float else total.astype(np.int64)
    return Sums(found.reshape(shape), _finish(window, config).reshape(shape) if window_sums else None)


def _rounded(total: Numbers, padded: Numbers, wide: Numbers, squares: Numbers, config: task_cna.Config) -> Numbers:
    """The exact sums as single numbers: again, and exactly, where the rounding of the doubles could matter.

    Products of 16-bit floats are exact in doubles. The sum of n of them, in any order, is off by less than
    n / 2^53 * sum |product|, and that sum is at most the product of the lengths of both vectors.
    """
    lengths = np.sqrt(np.einsum("oyxc,oyxc->o", wide, wide))[:, None] * np.sqrt(squares)
    error = lengths * (wide[0].size + 8) * 2.0**-52
    result = total.astype(np.float32)
    doubtful = ((total - error).astype(np.float32) != (total + error).astype(np.float32)) & np.isfinite(total)
    reach_y = (config.kernel_height - 1) * config.dilation_y + 1
    reach_x = (config.kernel_width - 1) * config.dilation_x + 1
    for kernel, pixel in np.argwhere(doubtful):
        top, left = pixel // config.out_width * config.stride_y, pixel % config.out_width * config.stride_x
        seen = padded[:, top : top + reach_y : config.dilation_y, left : left + reach_x : config.dilation_x]
        result[kernel, pixel] = numerics.sum_to_single(wide[kernel] * seen.transpose(1, 2, 0))
    return result


def _depthwise(padded: Numbers, weights: Numbers, config: task_cna.Config, window_sums: bool) -> Sums:
    """Channel by channel; those without data are 0."""
    total = np.zeros((config.weight_channels, config.out_height, config.out_width), np.float64)
    window = np.zeros_like(total)
    count = len(padded)
    wide = weights[:count].astype(np.float64)
    for row in range(config.kernel_height):
        for column in range(config.kernel_width):
            seen = _window(padded, config, row, column)
            total[:count] += wide[:, row, column, None, None] * seen
            if window_sums:
                window[:count] += seen
    return Sums(_finish(total, config), _finish(window, config) if window_sums else None)


def _finish(total: Numbers, config: task_cna.Config) -> Numbers:
    return total.astype(np.float32 if config.is_float else np.int64)
