"""RK3562: RK3588's blocks with other registers, read into the same configurations.

What is different: weights in groups of 16 bytes of kernels, depthwise int8 weights with their zero points between them,
operands per channel in blocks of four, surfaces whose pitch is whole, the stages of `npu.dpu.paired`.
"""

from __future__ import annotations

from openrknn.errors import ExecutionError
from openrknn.isa import Precision
from openrknn.isa.enums import ArgbInput, ChannelReduction, OperandKinds, Regroup
from openrknn.isa.rk3562 import RK3562
from openrknn.isa.rk3562_dpu import LutCfg
from openrknn.npu import cna as npu_cna
from openrknn.npu import common
from openrknn.npu import core as npu_core
from openrknn.npu import ppu as npu_ppu
from openrknn.npu import rdma as npu_rdma
from openrknn.npu.dpu import lut, paired, pipeline
from openrknn.npu.formats import ATOM_BYTES, element_bytes, surfaces
from openrknn.npu.named import NamedRegisters
from openrknn.npu.registers import Registers

__all__ = ["configure_core", "configure_dpu", "configure_features", "configure_pooling", "configure_readers"]

_OPERAND_BLOCK = 4
_KERNEL_BYTES, _INPUTS, _DEPTHWISE_BYTES = 16, 32, 32
_ENTRY_BYTES = 64


def configure_features(registers: Registers) -> npu_cna.Config:
    """Read CNA's registers."""
    cna = NamedRegisters(registers, RK3562.block("CNA"))
    con1, con3, size0 = cna.fields("CONV_CON1"), cna.fields("CONV_CON3"), cna.fields("DATA_SIZE0")
    weight2, pad, row = cna.fields("WEIGHT_SIZE2"), cna.fields("PAD_CON0"), cna.fields("CBUF_CON1")
    atomics, out_width = cna("DATA_SIZE3", "dataout_atomics"), cna("DATA_SIZE2", "dataout_width")
    if not out_width or atomics % out_width:
        raise ExecutionError("the output pixels are not whole rows", register="DATA_SIZE3")
    precision, weights = Precision(con1["in_precision"]), Precision(con1["proc_precision"])
    packed, size = ArgbInput(con1["argb_in"]).channels, element_bytes(weights)
    channels = common.whole_channels(cna("DATA_SIZE1", "datain_channel_real"), precision)
    cna.expect_zero("DCOMP_CTRL", "DCOMP_REGNUM", "DCOMP_AMOUNT0", "DCOMP_AMOUNT1")
    cna.expect_zero("UNKNOWN_1068")
    cna.waive("CONV_CON2", "CBUF_CON0", "CBUF_ENTRIES", "LANE_PAD", "FC_DATA_SIZE0", "FC_DATA_SIZE1")
    cna.waive("DMA_CON0", "SURF_SIZE", "READ_SIZE", "UNKNOWN_1038", "UNKNOWN_106C")
    if not packed:
        row_bytes = surfaces(channels, size) * ATOM_BYTES * size0["datain_width"]
        common.check_rows(row["data_entries"], -(-row_bytes // _ENTRY_BYTES))
    line_bytes = cna("DMA_CON1", "line_stride") * ATOM_BYTES // (1 if con1["group_line_off"] else 4)
    taps = max(weight2["weight_height"] * weight2["weight_width"], 1)
    if packed:
        line_bytes = row["datain_width"] * packed * size
    rows = common.kept_rows(cna, line_bytes, packed=packed > 0) if cna("DIVISION", "data_reuse") else 0
    return npu_cna.Config(
        feature_address=cna("FEATURE_DATA_ADDR", "feature_base_addr") - rows * line_bytes,
        height=size0["datain_height"],
        width=size0["datain_width"],
        channels=channels,
        packed_channels=packed,
        line_bytes=line_bytes,
        surface_bytes=cna("SURF_STRIDE", "surf_stride") * ATOM_BYTES,
        precision=precision,
        is_unsigned=packed > 0 and precision is Precision.INT8 and not cna("CVT_CON0", "data_sign"),
        converter=common.read_converter(cna, weights),
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
        depthwise=bool(con1["dw_en"]),
        kernel_group=_KERNEL_BYTES // size,
        input_group=_INPUTS,
        depthwise_group=_DEPTHWISE_BYTES // size,
        inline_zero_points=2 if con1["inline_zero_points"] else 0,
        weight_offset=common.negated_zero_point(cna("DW_ZERO_POINT", "negated")),
    )


def configure_core(registers: Registers, convolution: npu_cna.Config) -> npu_core.Config:
    """Read CORE's registers."""
    core = NamedRegisters(registers, RK3562.block("CORE"))
    core.expect_zero("UNKNOWN_300C", "UNKNOWN_3010", "UNKNOWN_3014")
    return common.read_core(core, convolution)


def configure_dpu(registers: Registers, tables: lut.Tables) -> pipeline.Config:
    """Read DPU's registers."""
    dpu = NamedRegisters(registers, RK3562.block("DPU"))
    precision, real = paired.arithmetic(dpu), dpu("DATA_CUBE_CHANNEL", "orig_channel")
    dpu.expect_zero("CPEND_ALU_CFG", "UNKNOWN_40BC", "UNKNOWN_40C4")
    dpu.waive("WDMA_SIZE_0", "BUS", "PACE")
    pixels = dpu("DATA_CUBE_WIDTH", "width") * dpu("DATA_CUBE_HEIGHT", "height")
    out = paired.configure_out(dpu)
    used = not dpu("EW_CFG", "ew_bypass") and not dpu("EW_CFG", "ew_lut_bypass")
    table = lut.configure(registers, tables, used=used, config_register=LutCfg)
    return pipeline.Config(
        flying=bool(dpu("FEATURE_MODE_CFG", "flying_mode")),
        precision=precision,
        in_precision=precision,
        channels=common.whole_channels(real, out.precision),
        real_channels=real,
        pad_bits=dpu("OFFSET_PEND", "offset_pend"),
        reduction=ChannelReduction(dpu("DATA_CUBE_HEIGHT", "minmax_ctl")),
        correction=paired.configure_correction(dpu),
        bias=paired.configure_bs(dpu, precision),
        norm=paired.configure_bn(dpu, precision),
        element_wise=paired.configure_ew(dpu, precision, table),
        out=out,
        write=paired.configure_write(dpu, Regroup(dpu("BS_OW_CFG", "regroup")), dpu("SURF_LEN", "surf_len"), pixels),
    )


def configure_readers(registers: Registers) -> npu_rdma.Config:
    """Read DPU_RDMA's registers."""
    reader = NamedRegisters(registers, RK3562.block("DPU_RDMA"))
    bias = OperandKinds(reader("RDMA_BRDMA_CFG", "brdma_data_use"))
    norm = OperandKinds(reader("RDMA_NRDMA_CFG", "nrdma_data_use"))
    readers = common.read_readers(reader, bias, norm, operand_block=_OPERAND_BLOCK)
    return paired.with_arithmetic(readers, NamedRegisters(registers, RK3562.block("DPU")))


def configure_pooling(registers: Registers) -> npu_ppu.Config:
    """Read PPU's and PPU_RDMA's registers."""
    return common.read_pooling(
        NamedRegisters(registers, RK3562.block("PPU")), NamedRegisters(registers, RK3562.block("PPU_RDMA"))
    )
