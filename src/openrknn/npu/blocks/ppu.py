"""PPU: pooling.

    maximum, minimum    over the window; padding never wins
    average             round(sum * RW * RH >> 32) for integers with RW = 65536 / width; sum * RW * RH for fp16 with
                        RW = 1 / width, a float of 17 bits
"""

from __future__ import annotations

import functools

import numpy as np

from openrknn import numerics
from openrknn.errors import ExecutionError
from openrknn.isa.enums import PoolingMethod
from openrknn.npu.blocks.formats import Numbers, decode, encode
from openrknn.npu.memory import Bytes, Memory
from openrknn.task.formats import element_bytes, is_float, surfaces
from openrknn.task.ppu import Config

__all__ = ["float_factor", "pool", "run", "run_stream"]


def run(config: Config, memory: Memory) -> None:
    """From memory to memory."""
    atom = config.atom_bytes
    count = surfaces(config.channels, element_bytes(config.precision), atom)
    source = memory.strided(
        config.source_address,
        (count, config.height, config.width, atom),
        (config.source_surface_bytes, config.source_line_bytes, atom, 1),
        "PPU_RDMA",
    )
    values = decode(source, config.precision).transpose(0, 3, 1, 2)
    wide = values.astype(np.float32 if is_float(config.precision) else np.int64)
    _store(pool(wide.reshape(-1, config.height, config.width), config), config, memory)


def _store(pooled: Numbers, config: Config, memory: Memory) -> None:
    """Write [channel, row, column]."""
    atom = config.atom_bytes
    count = surfaces(config.channels, element_bytes(config.precision), atom)
    cube = pooled.reshape(count, -1, config.out_height, config.out_width).transpose(0, 2, 3, 1)
    target = memory.strided(
        config.target_address,
        (count, config.out_height, config.out_width, atom),
        (config.target_surface_bytes, config.target_line_bytes, atom, 1),
        "PPU write",
        write=True,
    )
    target[...] = encode(cube, config.precision)


def run_stream(stream: Bytes, config: Config, memory: Memory) -> None:
    """From the DPU's atoms to memory: a window of one pixel, so only the scaling of an average is left."""
    size = element_bytes(config.precision)
    count = surfaces(config.channels, size, config.atom_bytes)
    shape = (count, config.height, config.width, config.atom_bytes)
    if stream.size != np.prod(shape):
        text = f"the DPU delivers {stream.size} bytes for a cube of {shape}"
        raise ExecutionError(text, register="DATA_CUBE_IN_WIDTH")
    cube = decode(stream.reshape(shape), config.precision).transpose(0, 3, 1, 2)
    wide = cube.astype(np.float32 if is_float(config.precision) else np.int64)
    _store(pool(wide.reshape(-1, config.height, config.width), config), config, memory)


def pool(values: Numbers, config: Config) -> Numbers:
    """[channel, row, column] -> [channel, row, column], by the formula on top."""
    padded = _padded(values, config)
    windows = [
        padded[
            :,
            row : row + (config.out_height - 1) * config.stride_y + 1 : config.stride_y,
            column : column + (config.out_width - 1) * config.stride_x + 1 : config.stride_x,
        ]
        for row in range(config.kernel_height)
        for column in range(config.kernel_width)
    ]
    if config.method is PoolingMethod.AVERAGE:
        return _average(windows, config)
    return functools.reduce(numerics.larger if config.method is PoolingMethod.MAX else numerics.smaller, windows)


def _padded(values: Numbers, config: Config) -> Numbers:
    height = max((config.out_height - 1) * config.stride_y + config.kernel_height, config.height + config.pad_top)
    width = max((config.out_width - 1) * config.stride_x + config.kernel_width, config.width + config.pad_left)
    padded = np.full((len(values), height, width), _pad(values, config), values.dtype)
    top, left = config.pad_top, config.pad_left
    padded[:, top : top + config.height, left : left + config.width] = values
    return padded


def _pad(values: Numbers, config: Config) -> float:
    if config.method is PoolingMethod.AVERAGE:
        return 0 if values.dtype.kind == "f" else config.pad_value
    largest: float = np.inf if values.dtype.kind == "f" else 2**40
    return -largest if config.method is PoolingMethod.MAX else largest


def _average(windows: list[Numbers], config: Config) -> Numbers:
    total = windows[0].copy()
    for window in windows[1:]:
        total += window
    if total.dtype.kind == "i":
        return numerics.shift_right(total * config.reciprocal_width * config.reciprocal_height, 32)
    return total * float_factor(config)


def float_factor(config: Config) -> np.float32:
    """What a sum of fp16 numbers is multiplied with."""
    return np.float32(_float17(config.reciprocal_width) * _float17(config.reciprocal_height))


def _float17(bits: int) -> float:
    """Sign, six bits of exponent with bias 31, ten of mantissa: the registers' 17 bits, as in NVDLA's pooling.

    For a width of 2 and more these are the bits of fp16(65536 / width). For 1 they are 0x7c00, an infinity in fp16.
    """
    exponent, mantissa = bits >> 10 & 0x3F, bits & 0x3FF
    size = (1024 + mantissa) * 2.0 ** (exponent - 41) if exponent else mantissa * 2.0**-40
    return -size if bits >> 16 & 1 else size
