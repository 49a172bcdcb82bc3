"""How much work and memory each kind of task asks for; see `budget`."""

from __future__ import annotations

from openrknn.npu.asked import Demand
from openrknn.npu.task import Chained, Convolution, Flying, Pooling, Step
from openrknn.task import cna, ppu
from openrknn.task.formats import element_bytes, surfaces

_ELEMENT_WORK = 32
"""Operations that one element costs in the DPU: about as many passes over arrays of 64-bit numbers."""
_WIDE = 8
"""Bytes of the numbers that NumPy computes with."""
_LANES = 16
_DPU_ARRAYS = 8
"""Arrays of an element each that live at the same time in the DPU, at the most."""


def demand_of(step: Step, *, natively: bool) -> Demand:
    """What a task asks for, as NumPy runs it; `natively`: the memory of its kernel."""
    if isinstance(step, Convolution):
        return _convolution(step, natively=natively)
    if isinstance(step, Flying):
        return _flying(step, natively=natively)
    if isinstance(step, Pooling):
        return _pooling(step.config, natively=natively)
    return Demand(0, 0)


def _convolution(step: Convolution, *, natively: bool) -> Demand:
    source = step.source
    pixels = source.out_height * source.out_width
    channels = source.packed_channels or source.channels
    read = channels * source.height * source.width
    kernels = source.weight_channels if source.depthwise else source.kernels
    weights = _weights(source)
    padded = min(channels, source.weight_channels) * _padded_pixels(source)
    results = max(kernels, step.dpu.channels) * pixels
    work = step.macs + read + padded + _ELEMENT_WORK * results
    if natively:
        planes = max(channels, source.weight_channels, step.dpu.channels if source.depthwise else 0) + _LANES
        return Demand(work, _WIDE * planes * _padded_pixels(source) + 4 * weights)
    seen = min(channels, source.weight_channels) * pixels
    arrays = 3 * read + 2 * padded + 2 * seen + 3 * weights + _DPU_ARRAYS * results
    pooled = _pooling(step.pooling, natively=False) if step.pooling is not None else Demand(0, 0)
    return Demand(work + pooled.work, _WIDE * arrays + pooled.memory)


def _weights(source: cna.Config) -> int:
    kernels = 1 if source.depthwise else source.kernels
    count = kernels * source.kernel_height * source.kernel_width * source.weight_channels
    return max(count, source.weight_bytes)


def _padded_pixels(source: cna.Config) -> int:
    """Of the input with everything around it that the windows touch."""
    rows = (source.out_height - 1) * source.stride_y + (source.kernel_height - 1) * source.dilation_y + 1
    columns = (source.out_width - 1) * source.stride_x + (source.kernel_width - 1) * source.dilation_x + 1
    height = (source.height - 1) * source.spread_y + 1 + source.pad_top
    width = (source.width - 1) * source.spread_x + 1 + source.pad_left
    return max(rows, height) * max(columns, width)


def _flying(step: Flying, *, natively: bool) -> Demand:
    reader, size = step.reader, element_bytes(step.reader.precision)
    atoms = surfaces(reader.channels, size, reader.atom_bytes) * reader.height * reader.width
    moved = atoms * max(reader.repeat_x, 1) * max(reader.repeat_y, 1) * reader.atom_bytes
    results = max(step.dpu.channels, reader.channels) * reader.height * reader.width
    work = moved + _ELEMENT_WORK * results
    if natively:
        return Demand(work, atoms * reader.atom_bytes)
    memory = 4 * moved + _WIDE * _DPU_ARRAYS * results
    pooled = _pooling(step.pooling, natively=False) if isinstance(step, Chained) else Demand(0, 0)
    return Demand(work + pooled.work, memory + pooled.memory)


def _pooling(config: ppu.Config, *, natively: bool) -> Demand:
    size = element_bytes(config.precision)
    lanes = surfaces(config.channels, size, config.atom_bytes) * config.atom_bytes // size
    height = max((config.out_height - 1) * config.stride_y + config.kernel_height, config.height + config.pad_top)
    width = max((config.out_width - 1) * config.stride_x + config.kernel_width, config.width + config.pad_left)
    read, padded = lanes * config.height * config.width, lanes * height * width
    results = lanes * config.out_height * config.out_width
    windows = results * config.kernel_height * config.kernel_width
    work = read + padded + windows + _ELEMENT_WORK * results
    if natively:
        return Demand(work, read * size)
    return Demand(work, _WIDE * (2 * read + padded + windows + 4 * results))
