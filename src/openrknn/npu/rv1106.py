"""RV1103 and RV1106: most registers of RK3588, the stages of RK3562, read into RK3588's configurations.

What is different: weights in groups of 16 kernels, depthwise weights with their zero points beside them, operands per
channel in blocks of four, surfaces whose pitch is whole, one atom per pixel and channel group.
"""

from __future__ import annotations

from dataclasses import replace

from openrknn import numerics
from openrknn.errors import ExecutionError, UnknownModeError
from openrknn.isa import ConvMode, Precision
from openrknn.isa.enums import ArgbInput, ChannelReduction, Regroup
from openrknn.isa.rv1106 import RV1106
from openrknn.npu import cna as npu_cna
from openrknn.npu import common
from openrknn.npu import core as npu_core
from openrknn.npu import ppu as npu_ppu
from openrknn.npu import rdma as npu_rdma
from openrknn.npu.dpu import lut, paired, pipeline
from openrknn.npu.formats import ATOM_BYTES, element_bytes, is_float, surfaces
from openrknn.npu.named import NamedRegisters
from openrknn.npu.registers import Registers

__all__ = ["configure_core", "configure_dpu", "configure_features", "configure_pooling", "configure_readers"]

_OPERAND_BLOCK = 4
_KERNEL_BYTES, _INPUTS, _DEPTHWISE_BYTES = 16, 32, 32
_LANES = 4
_ENTRY_BYTES, _IMAGE_PIXEL_BYTES = 32, 4


def configure_features(registers: Registers) -> npu_cna.Config:
    """Read CNA's registers."""
    cna = NamedRegisters(registers, RV1106.block("CNA"))
    con1, con3, size0 = cna.fields("CONV_CON1"), cna.fields("CONV_CON3"), cna.fields("DATA_SIZE0")
    weight2, pad = cna.fields("WEIGHT_SIZE2"), cna.fields("PAD_CON0")
    channels, out_width = cna("DATA_SIZE1", "datain_channel"), cna("DATA_SIZE2", "dataout_width")
    atomics = cna("DATA_SIZE3", "dataout_atomics")
    if not out_width or atomics % out_width:
        raise ExecutionError("the output pixels are not whole rows", register="DATA_SIZE3")
    precision, weights = Precision(con1["in_precision"]), Precision(con1["proc_precision"])
    packed = ArgbInput(con1["argb_in"]).channels
    size, taps = element_bytes(weights), max(weight2["weight_height"] * weight2["weight_width"], 1)
    cna.expect_zero("DCOMP_CTRL", "DCOMP_REGNUM", "DCOMP_AMOUNT0", "DCOMP_AMOUNT1", "UNKNOWN_1094")
    cna.waive("CONV_CON2", "CBUF_ENTRIES", "CBUF_CON0", "CBUF_BANKS", "DMA_CON0", "FC_DATA_SIZE0", "FC_DATA_SIZE1")
    cna.waive("WEIGHT_STRIDE", "READ_SIZE", "CVT_LANES")
    cna.expect_zero("FC_CON1")
    depthwise = con1["conv_mode"] == ConvMode.DEPTHWISE
    row = (_IMAGE_PIXEL_BYTES if packed else ATOM_BYTES * surfaces(channels, size)) * size0["datain_width"]
    common.check_rows(cna("CBUF_CON1", "data_entries"), -(-row // _ENTRY_BYTES))
    line_bytes = cna("DMA_CON1", "line_stride") * ATOM_BYTES // (1 if con1["group_line_off"] else 4)
    return npu_cna.Config(
        feature_address=cna("FEATURE_DATA_ADDR", "feature_base_addr"),
        height=size0["datain_height"],
        width=size0["datain_width"],
        channels=channels,
        packed_channels=packed,
        line_bytes=cna("CBUF_CON1", "datain_width") * packed * size if packed else line_bytes,
        surface_bytes=cna("DMA_CON2", "surf_stride") * ATOM_BYTES,
        precision=precision,
        is_unsigned=packed > 0 and precision is Precision.INT8 and not cna("CVT_CON0", "data_sign"),
        converter=_converter(cna, weights),
        pad_top=pad["pad_top"],
        pad_left=pad["pad_left"],
        pad_bits=common.pad_bits(cna("PAD_CON1", "pad_value"), precision),
        out_height=atomics // out_width,
        out_width=out_width,
        weight_address=cna("DCOMP_ADDR0", "decompress_addr0"),
        weight_bytes=cna("WEIGHT_SIZE0", "weight_bytes"),
        weight_channels=cna("WEIGHT_SIZE1", "weight_bytes_per_kernel") // (size * taps),
        weight_precision=weights,
        kernels=weight2["weight_kernels"],
        kernel_height=weight2["weight_height"],
        kernel_width=weight2["weight_width"],
        stride_x=con3["conv_x_stride"],
        stride_y=con3["conv_y_stride"],
        dilation_x=con3["atrous_x_dilation"],
        dilation_y=con3["atrous_y_dilation"],
        spread_x=con3["deconv_x_stride"],
        spread_y=con3["deconv_y_stride"],
        depthwise=depthwise,
        kernel_group=_KERNEL_BYTES // size,
        input_group=_INPUTS,
        depthwise_group=_DEPTHWISE_BYTES // size,
        inline_zero_points=int(con1["inline_zero_points"]),
        weight_offset=common.negated_zero_point(cna("DW_ZERO_POINT", "negated")),
        input_major=bool(cna("FC_CON0", "fc_skip_en")),
    )


def _converter(cna: NamedRegisters, precision: Precision) -> npu_cna.Converter | None:
    con0, low, high = cna.fields("CVT_CON0"), cna.fields("CVT_SCALE01"), cna.fields("CVT_SCALE23")
    raised = [cna(f"CVT_OFFSET{channel}", "cvt_offset") for channel in range(_LANES)]
    if con0["cvt_bypass"]:
        return None
    if is_float(precision) or con0["cvt_type"]:
        raise UnknownModeError("this form of the input converter is not implemented", register="CVT_CON0")
    shifts = tuple(con0[f"cvt_truncate_{channel}"] for channel in range(_LANES))
    offsets = tuple(offset >> shift for offset, shift in zip(raised, shifts, strict=True))
    odd = sum((offset & 1) << channel for channel, offset in enumerate(offsets))
    whole = [offset << shift for offset, shift in zip(offsets, shifts, strict=True)]
    if odd != con0["cvt_odd"] or whole != raised:
        raise UnknownModeError("offsets that are not whole are not implemented", register="CVT_OFFSET0")
    return npu_cna.Converter(
        add_first=False,
        rounding=numerics.Rounding(con0["round_type"]),
        shifts=shifts,
        scales=(low["cvt_scale0"], low["cvt_scale1"], high["cvt_scale2"], high["cvt_scale3"]),
        offsets=offsets,
        lanes=0xFFFF,
    )


def configure_core(registers: Registers, convolution: npu_cna.Config) -> npu_core.Config:
    """Read CORE's registers; they must agree with CNA's. Zero skipping works without CORE, which is not started."""
    core = NamedRegisters(registers, RV1106.block("CORE"))
    if convolution.input_major:
        core.waive("MISC_CFG", "DATAOUT_SIZE_0", "DATAOUT_SIZE_1", "CLIP_TRUNCATE")
        return npu_core.Config(window_sums=False, shift=0, rounding=numerics.Rounding.EVEN)
    return common.read_core(core, convolution)


def configure_dpu(registers: Registers, tables: lut.Tables) -> pipeline.Config:
    """Read DPU's registers."""
    dpu = NamedRegisters(registers, RV1106.block("DPU"))
    precision, channel = paired.arithmetic(dpu), dpu.fields("DATA_CUBE_CHANNEL")
    dpu.expect_zero("CPEND_ALU_CFG", "UNKNOWN_40C4")
    dpu.waive("WDMA_SIZE_0")
    mode, width = dpu.fields("FEATURE_MODE_CFG"), dpu("DATA_CUBE_WIDTH", "width")
    used = not dpu("EW_CFG", "ew_bypass") and not dpu("EW_CFG", "ew_lut_bypass")
    regroup = Regroup.ATOMS if dpu("BS_OW_CFG", "tp_atoms") else Regroup(dpu("BS_OW_CFG", "regroup"))
    return pipeline.Config(
        flying=bool(mode["flying_mode"]),
        precision=precision,
        in_precision=precision,
        channels=channel["channel"],
        real_channels=channel["orig_channel"],
        pad_bits=dpu("OFFSET_PEND", "offset_pend"),
        reduction=ChannelReduction(dpu("DATA_CUBE_HEIGHT", "minmax_ctl")),
        correction=paired.configure_correction(dpu),
        bias=paired.configure_bs(dpu, precision),
        norm=paired.configure_bn(dpu, precision),
        element_wise=paired.configure_ew(dpu, precision, lut.configure(registers, tables, used=used)),
        out=paired.configure_out(dpu),
        write=paired.configure_write(dpu, regroup, mode["surf_len"], 1 if mode["rgp_each"] else width),
    )


def configure_readers(registers: Registers) -> npu_rdma.Config:
    """Read DPU_RDMA's registers: RK3588's, with operands per channel in blocks of four."""
    readers = replace(npu_rdma.configure(registers), operand_block=_OPERAND_BLOCK)
    return paired.with_arithmetic(readers, NamedRegisters(registers, RV1106.block("DPU")))


def configure_pooling(registers: Registers) -> npu_ppu.Config:
    """Read PPU's and PPU_RDMA's registers."""
    return common.read_pooling(
        NamedRegisters(registers, RV1106.block("PPU")), NamedRegisters(registers, RV1106.block("PPU_RDMA"))
    )
