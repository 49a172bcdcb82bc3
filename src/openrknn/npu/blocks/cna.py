"""CNA: fetches features and weights, converts pictures, pads.

    features[c, y, x] = memory[base + (c div C2) * surface + y * line + x * 16 + (c mod C2) * bytes]
    4 bits            : two channels in a byte, the one with the even number in the lower half
    packed picture    = memory[base + (y * line_pixels + x) * channels * bytes + c * bytes]
    converter         = round((x + offset) * scale >> shift)   or   round(x * scale >> shift) + offset
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from openrknn import numerics
from openrknn.errors import ExecutionError, UnknownModeError
from openrknn.isa import Precision
from openrknn.npu.blocks.compression import decompressed
from openrknn.npu.blocks.formats import Numbers, decode
from openrknn.npu.memory import Bytes, Memory
from openrknn.task.cna import Config, Converter
from openrknn.task.formats import ATOM_BYTES, element_bits, element_bytes, surfaces_of

__all__ = [
    "NOT_A_BYTE",
    "convert",
    "depthwise_weights",
    "fetch_features",
    "fetch_patterns",
    "fetch_weights",
    "pads_of",
    "pairs_of",
    "stored_weights",
]

NOT_A_BYTE = -128
"""In place of a negated zero point of 128, which does not fit."""


def pads_of(config: Config, channels: int) -> Numbers:
    """The padding value of each channel.

    Integers take the low byte; depthwise int8 has two lanes, even channels the low byte, odd ones the next. What 4-bit
    features are padded with is unknown.
    """
    bits = config.pad_bits
    if config.precision is Precision.INT4:
        if bits and (config.pad_top or config.pad_left):
            raise UnknownModeError("padding of 4-bit features with another number than 0 is not known")
        return np.zeros(channels, np.int64)
    if config.precision is Precision.INT8:
        low, high = (int(np.int8(np.uint8(bits >> shift & 0xFF))) for shift in (0, 8))
        pads = np.full(channels, low, np.int64)
        if config.depthwise:
            pads[1::2] = high
        return pads
    pattern = np.array([bits & 0xFFFF], np.uint16)
    if config.precision is Precision.INT16:
        return np.full(channels, int(pattern.view(np.int16)[0]), np.int64)
    value = numerics.decode_bf16(pattern) if config.precision is Precision.BF16 else numerics.decode_fp16(pattern)
    return np.full(channels, value[0], np.float32)


def fetch_features(config: Config, memory: Memory) -> Numbers:
    """The input as [channel, row, column]: int64 or float32, converted, not padded."""
    if config.packed_channels:
        size = element_bytes(config.precision)
        pixel = config.packed_channels * size
        raw = memory.strided(
            config.feature_address, (config.height, config.width, pixel), (config.line_bytes, pixel, 1), "CNA picture"
        )
        typed = np.ascontiguousarray(raw) if config.is_unsigned else decode(raw, config.precision)
        features: Numbers = typed.transpose(2, 0, 1)
    else:
        count = surfaces_of(config.channels, config.precision, config.atom_bytes)
        width = config.folded_width or config.width
        raw = memory.strided(
            config.feature_address,
            (count, config.height * config.width // width, width, config.atom_bytes),
            (config.surface_bytes, config.line_bytes, config.atom_bytes, 1),
            "CNA features",
        )
        cube = decode(raw, config.precision)
        features = cube.transpose(0, 3, 1, 2).reshape(-1, config.height, config.width)[: config.channels]
    wide = features.astype(np.float32 if config.is_float else np.int64)
    return convert(wide, config.converter, config.precision) if config.converter else wide


def fetch_patterns(config: Config, memory: Memory) -> Numbers:
    """16-bit features as their bits, in signed numbers: fp16 would not keep every NaN."""
    return fetch_features(replace(config, precision=Precision.INT16, weight_precision=Precision.INT16), memory)


def convert(features: Numbers, converter: Converter, precision: Precision) -> Numbers:
    """The input converter; its result is a number of the feature format, so it saturates."""
    if precision is Precision.INT4:
        raise UnknownModeError("what the input converter makes of 4-bit features is not known")
    result = features.copy()
    for channel in range(len(features)):
        if not converter.lanes >> (channel % 16) & 1:
            continue
        lane = channel % 4
        shift, scale, offset = converter.shifts[lane], converter.scales[lane], converter.offsets[lane]
        if converter.add_first:
            value = numerics.shift_right((features[channel] + offset) * scale, shift, converter.rounding)
        else:
            value = numerics.shift_right(features[channel] * scale, shift, converter.rounding) + offset
        if precision is Precision.INT8:
            result[channel] = numerics.saturate(value, np.int8)
        else:
            result[channel] = numerics.saturate(value, np.int16)
    return result


def stored_weights(config: Config, memory: Memory) -> Bytes:
    """The bytes of the weights, decompressed where they have to be."""
    if config.compression is None:
        return memory.view(config.weight_address, config.weight_bytes, "CNA weights")
    return decompressed(config.compression, memory, config.weight_bytes, element_bytes(config.weight_precision))


def fetch_weights(config: Config, memory: Memory) -> Numbers:
    """The weights as [kernel, row, column, channel], depthwise as [channel, row, column]."""
    values = decode(stored_weights(config, memory), config.weight_precision)
    if config.input_major:
        length = config.kernels * config.weight_channels
        matrix = _take(values, 0, length, config).reshape(config.weight_channels, config.kernels)
        return matrix.T.reshape(config.kernels, 1, 1, config.weight_channels)
    if config.packed_rows:
        return _rows(values, config)
    if config.inline_zero_points:
        values = _with_zero_points(values, config.inline_zero_points)
    elif config.weight_offset:
        values = values.astype(np.int16) + config.weight_offset
    return depthwise_weights(values, config) if config.depthwise else _direct(values, config)


def pairs_of(values: Numbers, run: int) -> Numbers:
    """[pair, weights or zero points, run]."""
    if values.size % (2 * run):
        text = f"{values.size} bytes are not pairs of {run} weights and zero points"
        raise ExecutionError(text, register="WEIGHT_SIZE0")
    return values.reshape(-1, 2, run)


def _with_zero_points(values: Numbers, run: int) -> Numbers:
    """`run` weights and `run` negated zero points take turns; 128 does not fit into a byte, and -128 stands for it."""
    pairs = pairs_of(values, run).astype(np.int16)
    negated = np.where(pairs[:, 1] == NOT_A_BYTE, -NOT_A_BYTE, pairs[:, 1])
    return (pairs[:, 0] + negated).reshape(-1)


def _rows(values: Numbers, config: Config) -> Numbers:
    """Groups of kernels, in each row, kernel, and whole 16 bytes with column and channel side by side."""
    rows, columns, channels = config.kernel_height, config.kernel_width, config.weight_channels
    atom = 8 * ATOM_BYTES // element_bits(config.weight_precision)
    row = -(-columns * channels // atom) * atom
    weights = np.empty((config.kernels, rows, columns, channels), values.dtype)
    at = 0
    for first in range(0, config.kernels, config.kernel_group):
        count = min(config.kernel_group, config.kernels - first)
        block = _take(values, at, rows * count * row, config).reshape(rows, count, row)[..., : columns * channels]
        weights[first : first + count] = block.reshape(rows, count, columns, channels).transpose(1, 0, 2, 3)
        at += rows * count * row
    return weights


def _direct(values: Numbers, config: Config) -> Numbers:
    """Groups of kernels, in each groups of inputs, in each row, column, kernel, input; last groups are short."""
    rows, columns = config.kernel_height, config.kernel_width
    weights = np.empty((config.kernels, rows, columns, config.weight_channels), values.dtype)
    at = 0
    for first in range(0, config.kernels, config.kernel_group):
        count = min(config.kernel_group, config.kernels - first)
        for channel in range(0, config.weight_channels, config.input_group):
            width = min(config.input_group, config.weight_channels - channel)
            length = rows * columns * count * width
            block = _take(values, at, length, config).reshape(rows, columns, count, width)
            weights[first : first + count, :, :, channel : channel + width] = block.transpose(2, 0, 1, 3)
            at += length
    return weights


def depthwise_weights(values: Numbers, config: Config) -> Numbers:
    """Groups of channels, in each row, column, channel."""
    rows, columns = config.kernel_height, config.kernel_width
    weights = np.empty((config.weight_channels, rows, columns), values.dtype)
    at = 0
    for first in range(0, config.weight_channels, config.depthwise_group):
        count = min(config.depthwise_group, config.weight_channels - first)
        length = rows * columns * count
        block = _take(values, at, length, config).reshape(rows, columns, count)
        weights[first : first + count] = block.transpose(2, 0, 1)
        at += length
    return weights


def _take(values: Numbers, start: int, count: int, config: Config) -> npt.NDArray[np.generic]:
    if start + count > values.size:
        raise ExecutionError(
            f"{config.kernels} kernels of {config.weight_channels} channels are more than {config.weight_bytes} bytes",
            register="WEIGHT_SIZE0",
        )
    return values[start : start + count]
