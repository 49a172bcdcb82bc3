"""From tasks to RK3588's registers in natural values; what is not mentioned is 0."""

from __future__ import annotations

from openrknn.chip.rk3588.encode_cna import encode_cna, encode_core
from openrknn.chip.rk3588.encode_dpu import PIXEL_BITS, encode_dpu, pointers
from openrknn.chip.rk3588.encode_rdma import encode_readers
from openrknn.chip.target import Encoded, Registers
from openrknn.task import ppu
from openrknn.task.formats import element_bytes
from openrknn.task.kinds import Convolution, Pooling, Work
from openrknn.task.place import Address

__all__ = ["encode", "encode_pooling"]

_PPU_BURST = 4


def encode(task: Work) -> Encoded:
    """The blocks that work, and their registers."""
    if isinstance(task, Pooling):
        pad = task.pooling.pad_value
        return ("PPU", "PPU_RDMA"), encode_pooling(task.pooling) | {
            "PPU.PADDING_VALUE_1_CFG": {"pad_value_0": pad & 0xFFFFFFFF},
            "PPU.PADDING_VALUE_2_CFG": {"pad_value_1": pad >> 32 & 7},
            "PPU_RDMA.RDMA_DATA_FORMAT": {"in_precision": PIXEL_BITS[element_bytes(task.pooling.precision)]},
        }
    blocks: tuple[str, ...] = ("DPU",)
    registers = encode_dpu(task)
    if task.reader is not None:
        blocks, registers = ("DPU", "DPU_RDMA"), registers | encode_readers(task, task.reader)
    if isinstance(task, Convolution):
        return ("CNA", "CORE", *blocks), registers | encode_cna(task) | encode_core(task)
    return blocks, registers


def encode_pooling(config: ppu.Config[Address]) -> Registers:
    """PPU and PPU_RDMA without pad values, whose registers differ from chip to chip."""
    atom = config.atom_bytes
    target_pitch = config.target_surface_bytes // atom
    return {
        "PPU.S_POINTER": pointers(),
        "PPU_RDMA.RDMA_S_POINTER": pointers(),
        "PPU.MISC_CTRL": {"burst_len": _PPU_BURST},
        "PPU.DATA_CUBE_IN_WIDTH": {"cube_in_width": config.width},
        "PPU.DATA_CUBE_IN_HEIGHT": {"cube_in_height": config.height},
        "PPU.DATA_CUBE_IN_CHANNEL": {"cube_in_channel": config.channels},
        "PPU.DATA_CUBE_OUT_WIDTH": {"cube_out_width": config.out_width},
        "PPU.DATA_CUBE_OUT_HEIGHT": {"cube_out_height": config.out_height},
        "PPU.DATA_CUBE_OUT_CHANNEL": {"cube_out_channel": config.channels},
        "PPU.OPERATION_MODE_CFG": {
            "pooling_method": config.method, "flying_mode": 1,
            "notch_addr": config.target_line_bytes // atom - config.out_width,
        },
        "PPU.POOLING_KERNEL_CFG": {
            "kernel_width": config.kernel_width, "kernel_height": config.kernel_height,
            "kernel_stride_width": config.stride_x, "kernel_stride_height": config.stride_y,
        },
        "PPU.RECIP_KERNEL_WIDTH": {"recip_kernel_width": config.reciprocal_width},
        "PPU.RECIP_KERNEL_HEIGHT": {"recip_kernel_height": config.reciprocal_height},
        "PPU.POOLING_PADDING_CFG": {
            "pad_left": config.pad_left, "pad_top": config.pad_top, "pad_right": config.pad_right,
            "pad_bottom": config.pad_bottom,
        },
        "PPU.DST_BASE_ADDR": {"dst_base_addr": config.target_address},
        "PPU.DST_SURF_STRIDE": {"dst_surf_stride": target_pitch},
        "PPU.DATA_FORMAT": {"proc_precision": config.precision, "index_add": target_pitch},
        "PPU_RDMA.RDMA_CUBE_IN_WIDTH": {"cube_in_width": config.width},
        "PPU_RDMA.RDMA_CUBE_IN_HEIGHT": {"cube_in_height": config.height},
        "PPU_RDMA.RDMA_CUBE_IN_CHANNEL": {"cube_in_channel": config.channels},
        "PPU_RDMA.RDMA_SRC_BASE_ADDR": {"src_base_addr": config.source_address},
        "PPU_RDMA.RDMA_SRC_LINE_STRIDE": {"src_line_stride": config.source_line_bytes // atom},
        "PPU_RDMA.RDMA_SRC_SURF_STRIDE": {"src_surf_stride": config.source_surface_bytes // atom},
    }  # fmt: skip
