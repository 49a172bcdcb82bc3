"""PPU: pooling.

    maximum, minimum    over the window; padding never wins
    average             round(sum * RW * RH >> 32) for integers with RW = 65536 / width; sum * RW * RH for fp16 with
                        RW = 1 / width, a float of 17 bits
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from openrknn import numerics
from openrknn.errors import ExecutionError, UnknownModeError
from openrknn.isa import Precision, ppu, ppu_rdma
from openrknn.isa.enums import PixelBits, PoolingMethod
from openrknn.npu.formats import ATOM_BYTES, Numbers, decode, element_bytes, encode, is_float, surfaces
from openrknn.npu.memory import Bytes, Memory
from openrknn.npu.registers import Registers

__all__ = ["Config", "configure", "float_factor", "pool", "run", "run_stream"]


@dataclass(frozen=True, slots=True)
class Config:
    """One pooling task in natural units."""

    method: PoolingMethod
    precision: Precision
    source_address: int
    source_line_bytes: int
    source_surface_bytes: int
    target_address: int
    target_line_bytes: int
    target_surface_bytes: int
    channels: int
    height: int
    width: int
    out_height: int
    out_width: int
    kernel_height: int
    kernel_width: int
    stride_y: int
    stride_x: int
    pad_top: int
    pad_left: int
    pad_value: int
    reciprocal_width: int
    reciprocal_height: int
    atom_bytes: int = ATOM_BYTES


def configure(registers: Registers) -> Config:
    """Read PPU's and PPU_RDMA's registers."""
    mode = registers.read(ppu.OperationModeCfg)
    kernel = registers.read(ppu.PoolingKernelCfg)
    padding = registers.read(ppu.PoolingPaddingCfg)
    form, misc = registers.read(ppu.DataFormat), registers.read(ppu.MiscCtrl)
    low, high = registers.read(ppu.PaddingValue1Cfg), registers.read(ppu.PaddingValue2Cfg)
    source_line = registers.read(ppu_rdma.SrcLineStride).src_line_stride
    source_surface = registers.read(ppu_rdma.SrcSurfStride).src_surf_stride
    out_width = registers.read(ppu.DataCubeOutWidth).cube_out_width
    registers.waive(ppu.SPointer, ppu.OperationEnable, ppu_rdma.SPointer, ppu_rdma.OperationEnable)
    registers.waive(ppu.DataCubeOutChannel, ppu_rdma.CubeInWidth, ppu_rdma.CubeInHeight, ppu_rdma.CubeInChannel)
    if not mode.flying_mode or form.dpu_flyin:
        raise UnknownModeError("pooling straight from the DPU is not implemented", register="OPERATION_MODE_CFG")
    if mode.index_en or mode.use_cnt or misc.nonalign or misc.mc_surf_out:
        raise UnknownModeError("this form of pooling output is not implemented", register="MISC_CTRL")
    size = element_bytes(form.proc_precision)
    if registers.read(ppu_rdma.DataFormat).in_precision is not _SIZES[size]:
        raise ExecutionError("PPU and its reader do not agree on the element size", register="RDMA_DATA_FORMAT")
    value = int(low.pad_value_0) & 0xFFFFFFFF | (int(high.pad_value_1) & 7) << 32
    return Config(
        method=mode.pooling_method,
        precision=form.proc_precision,
        source_address=registers.read(ppu_rdma.SrcBaseAddr).src_base_addr,
        source_line_bytes=source_line * ATOM_BYTES,
        source_surface_bytes=source_surface * ATOM_BYTES,
        target_address=registers.read(ppu.DstBaseAddr).dst_base_addr,
        target_line_bytes=(out_width + mode.notch_addr) * ATOM_BYTES,
        target_surface_bytes=registers.read(ppu.DstSurfStride).dst_surf_stride * ATOM_BYTES,
        channels=registers.read(ppu.DataCubeInChannel).cube_in_channel,
        height=registers.read(ppu.DataCubeInHeight).cube_in_height,
        width=registers.read(ppu.DataCubeInWidth).cube_in_width,
        out_height=registers.read(ppu.DataCubeOutHeight).cube_out_height,
        out_width=out_width,
        kernel_height=kernel.kernel_height,
        kernel_width=kernel.kernel_width,
        stride_y=kernel.kernel_stride_height,
        stride_x=kernel.kernel_stride_width,
        pad_top=padding.pad_top,
        pad_left=padding.pad_left,
        pad_value=(value ^ 1 << 34) - (1 << 34),
        reciprocal_width=int(registers.read(ppu.RecipKernelWidth).recip_kernel_width),
        reciprocal_height=int(registers.read(ppu.RecipKernelHeight).recip_kernel_height),
    )


_SIZES = {1: PixelBits.BITS8, 2: PixelBits.BITS16}


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
    reduced: Numbers = (np.maximum if config.method is PoolingMethod.MAX else np.minimum).reduce(windows)
    return reduced


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
