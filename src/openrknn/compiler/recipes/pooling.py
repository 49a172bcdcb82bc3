"""Registers of one pooling task."""

from __future__ import annotations

from dataclasses import dataclass

from openrknn.compiler.formats import Format, align
from openrknn.compiler.program import Place, Registers
from openrknn.compiler.recipes.base import merge, pooling_base
from openrknn.compiler.recipes.finish import fp16_bits
from openrknn.isa.enums import PoolingMethod

__all__ = ["PoolingTask", "pooling_registers"]

_FLOAT17_ONE = 0x7C00


@dataclass(frozen=True, slots=True)
class PoolingTask:
    """One stripe."""

    format: Format
    average: bool
    channels: int
    rows: int
    columns: int
    out_rows: int
    out_columns: int
    kernel: tuple[int, int]
    strides: tuple[int, int]
    pads: tuple[int, int, int, int]
    """Top, left, bottom, right."""
    source: Place
    line_pixels: int
    source_pitch: int
    target: Place
    target_pitch: int
    target_notch: int
    zero_point: int


def _float17_bits(size: int) -> int:
    """1 / size with six bits of exponent: the bits of fp16(65536 / size), and past its range for a size of 1."""
    return fp16_bits(65536 / size) if size > 1 else _FLOAT17_ONE


def pooling_registers(task: PoolingTask) -> Registers:
    """All registers."""
    channels = align(task.channels, task.format.atom)
    wide = task.format.element_bytes == 2
    top, left, bottom, right = task.pads
    registers = pooling_base()
    recips = [0, 0]
    if task.average:
        recips = [_float17_bits(size) if wide else 65536 // size for size in task.kernel]
    pad = task.zero_point if task.average and not wide else 0
    size: Registers = {
        "PPU.DATA_CUBE_IN_WIDTH": {"cube_in_width": task.columns},
        "PPU.DATA_CUBE_IN_HEIGHT": {"cube_in_height": task.rows},
        "PPU.DATA_CUBE_IN_CHANNEL": {"cube_in_channel": channels},
        "PPU.DATA_CUBE_OUT_WIDTH": {"cube_out_width": task.out_columns},
        "PPU.DATA_CUBE_OUT_HEIGHT": {"cube_out_height": task.out_rows},
        "PPU.DATA_CUBE_OUT_CHANNEL": {"cube_out_channel": channels},
        "PPU.OPERATION_MODE_CFG": {
            "pooling_method": PoolingMethod.AVERAGE if task.average else PoolingMethod.MAX, "flying_mode": 1,
            "notch_addr": task.target_notch,
        },
        "PPU.POOLING_KERNEL_CFG": {
            "kernel_width": task.kernel[1], "kernel_height": task.kernel[0],
            "kernel_stride_width": task.strides[1], "kernel_stride_height": task.strides[0],
        },
        "PPU.RECIP_KERNEL_WIDTH": {"recip_kernel_width": recips[1]},
        "PPU.RECIP_KERNEL_HEIGHT": {"recip_kernel_height": recips[0]},
        "PPU.POOLING_PADDING_CFG": {"pad_left": left, "pad_top": top, "pad_right": right, "pad_bottom": bottom},
        "PPU.PADDING_VALUE_1_CFG": {"pad_value_0": pad & 0xFFFFFFFF},
        "PPU.PADDING_VALUE_2_CFG": {"pad_value_1": 7 if pad < 0 else 0},
        "PPU.DST_BASE_ADDR": {"dst_base_addr": task.target},
        "PPU.DST_SURF_STRIDE": {"dst_surf_stride": task.target_pitch},
        "PPU.DATA_FORMAT": {"proc_precision": task.format.precision, "index_add": task.target_pitch},
        "PPU_RDMA.RDMA_CUBE_IN_WIDTH": {"cube_in_width": task.columns},
        "PPU_RDMA.RDMA_CUBE_IN_HEIGHT": {"cube_in_height": task.rows},
        "PPU_RDMA.RDMA_CUBE_IN_CHANNEL": {"cube_in_channel": channels},
        "PPU_RDMA.RDMA_SRC_BASE_ADDR": {"src_base_addr": task.source},
        "PPU_RDMA.RDMA_SRC_LINE_STRIDE": {"src_line_stride": task.line_pixels},
        "PPU_RDMA.RDMA_SRC_SURF_STRIDE": {"src_surf_stride": task.source_pitch},
        "PPU_RDMA.RDMA_DATA_FORMAT": {"in_precision": 2 if wide else 1},
    }  # fmt: skip
    return merge(registers, size)
