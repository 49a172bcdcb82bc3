"""What RK3562, RK3576 and RV1103/06 have in common: readers of registers that differ only in their places.

Those of CNA are in `decode_named_cna`, those of the DPU in `decode_named_dpu`.
"""

from __future__ import annotations

from openrknn import numerics
from openrknn.chip.task_registers import NamedRegisters
from openrknn.errors import ExecutionError, UnknownModeError
from openrknn.isa import Precision
from openrknn.isa.enums import CombineUse, OperandKinds, OperandMode, PixelBits, PoolingMethod
from openrknn.task import cna as task_cna
from openrknn.task import core as task_core
from openrknn.task import ppu as task_ppu
from openrknn.task import rdma as task_rdma
from openrknn.task.formats import ATOM_BYTES, element_bytes

__all__ = [
    "read_core",
    "read_pooling",
    "read_readers",
    "whole_channels",
]

_PAD_SIGN = 1 << 18


def whole_channels(channels: int, precision: Precision) -> int:
    """Rounded up to whole atoms."""
    lanes = ATOM_BYTES // element_bytes(precision)
    return -(-channels // lanes) * lanes


def read_core(core: NamedRegisters, convolution: task_cna.Config) -> task_core.Config:
    """CORE's registers; they must agree with CNA's."""
    misc, clip, size = core.fields("MISC_CFG"), core.fields("CLIP_TRUNCATE"), core.fields("DATAOUT_SIZE_0")
    core.waive("DATAOUT_SIZE_1")
    if misc["dw_en"] != convolution.depthwise or misc["proc_precision"] != convolution.weight_precision:
        raise ExecutionError("CORE and CNA do not agree on the kind of convolution", register="MISC_CFG")
    if (size["dataout_height"], size["dataout_width"]) != (convolution.out_height, convolution.out_width):
        raise ExecutionError("CORE and CNA do not agree on the size of the output", register="DATAOUT_SIZE_0")
    if clip.get("clip_again", 0) > 1 and clip["clip_again"] != clip["clip_truncate"]:
        raise UnknownModeError("two different numbers of bits to shift are not known", register="CLIP_TRUNCATE")
    return task_core.Config(bool(misc["qd_en"]), clip["clip_truncate"], numerics.Rounding(clip.get("round_type", 0)))


def read_readers(
    reader: NamedRegisters, bias: OperandKinds, norm: OperandKinds, *, operand_block: int
) -> task_rdma.Config:
    """DPU_RDMA's registers, the kinds of operands per channel given."""
    mode, erdma, source = (
        reader.fields(name) for name in ("RDMA_FEATURE_MODE_CFG", "RDMA_ERDMA_CFG", "RDMA_SRC_DMA_CFG")
    )
    width, size = reader("RDMA_DATA_CUBE_WIDTH", "width"), reader.fields("RDMA_DATA_CUBE_HEIGHT")
    reader.expect_zero("RDMA_PAD_CFG", "UNKNOWN_507C")
    reader.waive("RDMA_EW_SURF_STRIDE")
    if erdma.get("erdma_nonalign") or erdma.get("erdma_surf_mode"):
        raise UnknownModeError("packed or serial EW operands are not implemented", register="RDMA_ERDMA_CFG")
    if source["pooling_method"] or source["line_notch_addr"]:
        raise UnknownModeError("this form of reading is not implemented", register="RDMA_SRC_DMA_CFG")
    main = task_rdma.walk(
        reader("RDMA_SRC_BASE_ADDR", "src_base_addr"),
        width,
        size["height"],
        line_notch=reader("RDMA_LINE_NOTCH", "line_notch_addr"),
        surface_notch=reader("RDMA_SURF_NOTCH", "surf_notch_addr"),
    )
    operand = task_rdma.walk(
        reader("RDMA_EW_BASE_ADDR", "ew_base_addr"),
        width,
        size["height"],
        line_notch=size["ew_line_notch_addr"],
        surface_notch=reader("RDMA_EW_SURF_NOTCH", "ew_surf_notch"),
    )
    return task_rdma.Config(
        width=width,
        height=size["height"],
        channels=reader("RDMA_DATA_CUBE_CHANNEL", "channel"),
        precision=Precision(mode["in_precision"]),
        proc_precision=Precision(mode["proc_precision"]),
        main=None if mode["mrdma_disable"] else main,
        bias_kinds=bias,
        bias_address=reader("RDMA_BS_BASE_ADDR", "bs_base_addr"),
        norm_kinds=norm,
        norm_address=reader("RDMA_BN_BASE_ADDR", "bn_base_addr"),
        operand=None
        if erdma["erdma_disable"]
        else task_rdma.Operand(
            OperandMode(erdma["erdma_data_mode"]), element_bytes(PixelBits(erdma["erdma_data_size"])), operand
        ),
        combine=CombineUse(mode.get("comb_use", 0)),
        repeat_x=source["kernel_width"],
        repeat_y=source["kernel_height"],
        repeats=bool(source["unpooling_en"]),
        operand_block=operand_block,
    )


def read_pooling(ppu: NamedRegisters, reader: NamedRegisters) -> task_ppu.Config:
    """PPU's and PPU_RDMA's registers."""
    mode, kernel, padding = (
        ppu.fields(name) for name in ("OPERATION_MODE_CFG", "POOLING_KERNEL_CFG", "POOLING_PADDING_CFG")
    )
    form, misc = ppu.fields("DATA_FORMAT"), ppu.fields("MISC_CTRL")
    out_width = ppu("DATA_CUBE_OUT_WIDTH", "cube_out_width")
    pad = ppu("PADDING_VALUE_1", "pad_value")
    ppu.waive("DATA_CUBE_OUT_CHANNEL", *(f"PADDING_VALUE_{number}" for number in range(2, 8)))
    ppu.expect_zero("UNKNOWN_6060", "UNKNOWN_6064", "UNKNOWN_6068", "UNKNOWN_606C")
    reader.waive("RDMA_CUBE_IN_WIDTH", "RDMA_CUBE_IN_HEIGHT", "RDMA_CUBE_IN_CHANNEL")
    precision = Precision(form["proc_precision"])
    if not mode["flying_mode"] or form["dpu_flyin"]:
        raise UnknownModeError("pooling straight from the DPU is not implemented", register="OPERATION_MODE_CFG")
    if mode["index_en"] or mode["use_cnt"] or misc["nonalign"] or misc["mc_surf_out"]:
        raise UnknownModeError("this form of pooling output is not implemented", register="MISC_CTRL")
    if reader("RDMA_DATA_FORMAT", "in_precision") != precision:
        raise ExecutionError("PPU and its reader do not agree on the number format", register="RDMA_DATA_FORMAT")
    return task_ppu.Config(
        method=PoolingMethod(mode["pooling_method"]),
        precision=precision,
        source_address=reader("RDMA_SRC_BASE_ADDR", "src_base_addr"),
        source_line_bytes=reader("RDMA_SRC_LINE_STRIDE", "src_line_stride") * ATOM_BYTES,
        source_surface_bytes=reader("RDMA_SRC_SURF_STRIDE", "src_surf_stride") * ATOM_BYTES,
        target_address=ppu("DST_BASE_ADDR", "dst_base_addr"),
        target_line_bytes=(out_width + mode["notch_addr"]) * ATOM_BYTES,
        target_surface_bytes=ppu("DST_SURF_STRIDE", "dst_surf_stride") * ATOM_BYTES,
        channels=ppu("DATA_CUBE_IN_CHANNEL", "cube_in_channel"),
        height=ppu("DATA_CUBE_IN_HEIGHT", "cube_in_height"),
        width=ppu("DATA_CUBE_IN_WIDTH", "cube_in_width"),
        out_height=ppu("DATA_CUBE_OUT_HEIGHT", "cube_out_height"),
        out_width=out_width,
        kernel_height=kernel["kernel_height"],
        kernel_width=kernel["kernel_width"],
        stride_y=kernel["kernel_stride_height"],
        stride_x=kernel["kernel_stride_width"],
        pad_top=padding["pad_top"],
        pad_left=padding["pad_left"],
        pad_value=(pad & (2 * _PAD_SIGN - 1) ^ _PAD_SIGN) - _PAD_SIGN,
        reciprocal_width=ppu("RECIP_KERNEL_WIDTH", "recip_kernel_width"),
        reciprocal_height=ppu("RECIP_KERNEL_HEIGHT", "recip_kernel_height"),
    )
