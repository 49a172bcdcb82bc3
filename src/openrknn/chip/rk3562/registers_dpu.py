"""DPU, DPU_RDMA, PPU and PPU_RDMA of RK3562; `rk3562` has the other blocks and puts them together."""

from __future__ import annotations

from collections.abc import Mapping

from openrknn.chip.rk3588 import dpu, dpu_stages
from openrknn.chip.rk3588.registers import RK3588
from openrknn.isa.common import moved, unknown
from openrknn.isa.enums import (
    AluAlgorithm,
    ChannelReduction,
    CombineUse,
    EwAlgorithm,
    EwPart,
    LutTable,
    OutputMode,
    PixelBits,
    Precision,
    Regroup,
)
from openrknn.isa.fields import Atoms, Bits, Choice, Flag, Mask, Signed, SignedAtoms, Size, Unsigned
from openrknn.isa.registers import Register, array, register

__all__ = ["DPU", "DPU_RDMA", "PPU", "PPU_RDMA"]

FeatureModeCfg = register(0x400C, "FEATURE_MODE_CFG", "I", "Where data come from and go to.",
    flying_mode=Flag(0, "0: data come from CORE; 1: from memory."),
    output_mode=Mask(2, 1, OutputMode, "Where the result goes."),
    depthwise=Unsigned(4, 3, "1 after a depthwise convolution."),
    burst_len=Size(8, 5, "Beats per burst. Bus only."),
    nonalign=Flag(25, "Packed output."),
    rgp_type=Unsigned(29, 26, "Packed output: bytes kept of the last atom of each surface; 0: all."))
DataFormat = register(0x4010, "DATA_FORMAT", "I", "Number formats.",
    proc_precision=Choice(2, 0, Precision, "Number format of the arithmetic."),
    bn_mul_shift_value_neg=Unsigned(15, 10, "BN shift where the sum is negative."),
    out_precision=Choice(31, 29, Precision, "Number format of the output."))
DstSurfStride = register(0x401C, "DST_SURF_STRIDE", "I", "Step of counter e of the write DMA.",
    dst_surf_stride=Atoms(27, 0, "Atoms."))
DataCubeHeight = register(0x4024, "DATA_CUBE_HEIGHT", "I", "Height of the data, and the reduction over channels.",
    height=Size(12, 0, "Rows."),
    minmax_ctl=Mask(24, 22, ChannelReduction, "Reduction over the channels of a pixel."))
DataCubeNotchAddr = register(0x4028, "DATA_CUBE_NOTCH_ADDR", "I", "What the write DMA skips after each line.",
    notch_addr_0=Unsigned(15, 0, "Atoms, modulo 2^16: lines may overlap, and the later one wins."),
    notch_addr_1=Unsigned(31, 16, "Atoms, of RK3576.", evidence="?"))
DataCubeChannel = register(0x402C, "DATA_CUBE_CHANNEL", "I", "Channels of the data.",
    orig_channel=Size(12, 0, "Channels that carry data."))
WdmaSize0 = register(0x4030, "WDMA_SIZE_0", "I?", "Channels of the write DMA.",
    group=Size(15, 0, "Quads of channels in a group.", evidence="I?"),
    orig_channel=Size(28, 16, "Channels that carry data; 1 in packed output."))
CpendAluCfg = register(0x403C, "CPEND_ALU_CFG", "I?",
    "Perhaps the addend of the correction where it is not the window sum, as on RV1106. 0 in streams.",
    cpend_alu_operand=Bits(31, 0, "int32 or fp32."))


class BsCfg(Register, offset=0x4038, name="BS_CFG", evidence="I"):
    """BS, the first stage, in two halves: the zero-point correction of the weights, then add, multiply, shift.

    Correction: x + window sum * operand. It has the adder and multiplier bits of RK3588; the add and multiply of the
    stage itself have bits of their own here and in BS_OW_CFG.
    """

    bs_bypass = Flag(0, "Skip the stage.")
    cpend_alu_bypass = Flag(1, "Correction: skip the addition.")
    cpend_mul_bypass = Flag(4, "Correction: skip the product with the window sum.")
    bs_alu_bypass = Flag(6, "Skip the addition.")
    bs_alu_src = Flag(7, "Addend per channel from BRDMA.")
    bs_mul_shift_value = Unsigned(13, 8, "Shift where the product is not negative.")
    cpend_alu_algo = Choice(19, 16, AluAlgorithm, "Correction: ADD where it works.")
    bs_alu_algo = Unsigned(23, 20, "1 where the addition works: plus.", evidence="I?")

BsMulCfg = register(0x4044, "BS_MUL_CFG", "I", "Multiplier of BS, and where the correction finds its operand.",
    cpend_mul_src=Flag(0, "Correction: operand per channel from BRDMA; 0: BS_OW_OP."),
    bs_mul_prelu=Flag(2, "Multiply only where x < 0."),
    bs_mul_operand=Bits(31, 16, "int16, fp16 or bf16."))
BsOwCfg = register(0x4050, "BS_OW_CFG", "I",
    "The multiplication of BS, atoms per pixel of the write DMA, what becomes of the atoms.",
    bs_mul_src=Flag(0, "Multiplier per channel from BRDMA; 0: BS_MUL_CFG."),
    bs_mul_bypass=Flag(1, "Skip the multiplication."),
    size_e_0=Size(4, 2, "Atoms per pixel and channel group."),
    size_e_1=Size(7, 5, "The same number again."),
    size_e_2=Size(10, 8, "The same number again."),
    regroup=Choice(22, 20, Regroup, "What happens between the stages and the write DMA."))
BsOwOp = register(0x4054, "BS_OW_OP", "I", "Operand of the correction, and the shift of BS for negatives.",
    ow_op=Signed(15, 0, "Operand.", evidence="I?"),
    bs_mul_shift_value_neg=Unsigned(21, 16, "BS shift where the product is negative."),
    cpend_en=Flag(31, "Set where the correction works."))


class Minimum(Register, evidence="I"):
    """Lower clamp; 0x80000000: none, 0: ReLU.

    Each stage has two pairs, equal but in softmax: there the first minimum of BN is 527.4 and the second 0. So the
    first pair is taken as the limits, and the second as what values beyond them become.
    """

    minimum = Bits(31, 0, "int32 or fp32.")


class Maximum(Register, evidence="I"):
    """Upper clamp; 0x7fffffff: none."""

    maximum = Bits(31, 0, "int32 or fp32.")


CLAMPS = {
    "BS_LIMIT": (0x4048, 0x404C),
    "BS_CLAMP": (0x4058, 0x405C),
    "BN_LIMIT": (0x406C, 0x4070),
    "BN_CLAMP": (0x4074, 0x4078),
    "EW_LIMIT": (0x4088, 0x408C),
    "EW_CLAMP": (0x40A4, 0x40A8),
}
"""Offsets of minimum and maximum."""


def clamps(places: Mapping[str, tuple[int, int]]) -> tuple[type[Register], ...]:
    """The registers of the clamps of all stages."""
    return tuple(
        shape.place(offset=offset, name=f"{name}_{shape.__name__.upper()}")
        for name, offsets in places.items()
        for shape, offset in zip((Minimum, Maximum), offsets, strict=True)
    )


Clamps = clamps(CLAMPS)

BnCfg = register(0x4060, "BN_CFG", "I", "BN, the second stage.",
    bn_bypass=Flag(0, "Skip the stage."),
    bn_alu_bypass=Flag(1, "Skip the addition."),
    bn_mul_bypass=Flag(4, "Skip the multiplication."),
    bn_mul_prelu=Flag(5, "Multiply only where x < 0."),
    bn_alu_src=Flag(8, "Addend per channel from NRDMA."),
    bn_alu_algo=Choice(19, 16, AluAlgorithm, "Plus or minus the addend."))


class EwCfg(Register, offset=0x407C, name="EW_CFG", evidence="I"):
    """EW, the third stage: lookup table, then one of three operations with the operand, then clamp.

    Where RK3588 has one ALU, the division is a part of its own, next to the product and the ALU.
    """

    ew_bypass = Flag(0, "Skip the stage.")
    ew_op_type = Choice(3, 2, EwPart, "The part that works on the operand.", evidence="I?")
    ew_mul_src = Flag(4, "Product: operand through ERDMA.")
    ew_mul_bypass = Flag(6, "Skip the product.")
    ew_lut_bypass = Flag(7, "Skip the lookup table.")
    ew_op_cvt_bypass = Flag(8, "Use the operand without conversion.")
    ew_div_src = Flag(13, "Division: operand through ERDMA.")
    ew_div_bypass = Flag(14, "Skip the division.")
    ew_alu_src = Flag(15, "ALU: operand through ERDMA; 0: EW_OP_VALUE_0 and on.")
    ew_alu_algo = Choice(19, 16, EwAlgorithm, "Operation of the ALU.")
    edata_size = Choice(
        23, 22, PixelBits, "Element size of the operand as in ERDMA_CFG: toolkits 1.4.1b4 to b9 alone write it."
    )
    ew_alu_bypass = Flag(24, "Skip the ALU.")
    ew_cvt_type = Flag(31, "Operand converter: 1 add, then multiply.")

EwCvtOffsetValue = register(0x4080, "EW_CVT_OFFSET_VALUE", "I", "Offset of the operand converter.",
    ew_op_cvt_offset=Signed(15, 0, "Offset."))
SurfaceAdd = register(0x40B8, "SURFACE_ADD", "I", "Step of counter g of the write DMA.",
    surf_add=Atoms(27, 0, "Atoms."))
SurfLen = register(0x40C8, "SURF_LEN", "I", "Length of packed output.", surf_len=Atoms(15, 0, "Atoms."))
LutCfg = register(0x4108, "LUT_CFG", "I",
    "Which table serves which part of the domain. 0x160 in every activation where RK3588 has 0x68.",
    lut_road_sel=Flag(0, "Set in tasks that load tables."),
    lut_expand_en=Flag(1, "By likeness with RK3588.", evidence="?"),
    lut_uflow_priority=Choice(4, 4, LutTable, "Table that serves x below both."),
    lut_oflow_priority=Choice(5, 5, LutTable, "Table that serves x above both."),
    lut_hybrid_priority=Choice(6, 6, LutTable, "Table that serves x inside both."),
    lut_lo_le_mux=Unsigned(8, 7, "How LO and LE share the domain; 2 in streams."),
    lut_cal_sel=Flag(9, "By likeness with RK3588.", evidence="?"))
Bus = register(0x40C0, "BUS", "?", "0x04440002 in every task, and one bit more after a convolution.",
    low=Unsigned(7, 0, "2."),
    from_core=Flag(8, "Set after a convolution."),
    high=Unsigned(31, 16, "0x444."))


class PackedRun(Register, offset=0x40CC, name="PACKED_RUN", evidence="E"):
    """Packed output: how many bytes stand together. RV1106 has it in DATA_CUBE_WIDTH.

    A Reshape makes rows of a matrix, back to back, into channels: each row has to begin at a whole atom. 100 for maps
    of 10 x 10 pixels, 45 for [10, 45]; SURF_LEN counts the atoms with the gaps (56 for 8 rows of 100 bytes).
    """

    run = Unsigned(15, 0, "Bytes of a run. 16 in transposes and lookups, without effect; 4 in a maximum over channels.")

PackedRuns = register(0x40BC, "PACKED_RUNS", "I", "How many runs of PACKED_RUN there are; RK3576 leaves it 0.",
    runs=Unsigned(31, 16, "Runs."))


EwOpValues = array(dpu_stages.EwOpValue, 5, offset=0x4090, name="EW_OP_VALUE_")

_LUT = [register.name for register in RK3588.block("DPU").registers if register.name.startswith("LUT_")]

DPU = RK3588.block("DPU").derive(
    *(FeatureModeCfg, DataFormat, moved(dpu.DstBaseAddr, 0x4018), DstSurfStride, moved(dpu.DataCubeWidth, 0x4020)),
    *(DataCubeHeight, DataCubeNotchAddr, DataCubeChannel, WdmaSize0, moved(dpu.WdmaSize1, 0x4034)),
    *(BsCfg, CpendAluCfg, moved(dpu_stages.BsAluCfg, 0x4040), BsMulCfg, BsOwCfg, BsOwOp, BnCfg),
    *Clamps,
    *(EwCfg, EwCvtOffsetValue, moved(dpu_stages.EwCvtScaleValue, 0x4084)),
    *EwOpValues,
    *(moved(dpu_stages.OutCvtOffset, 0x40AC), moved(dpu_stages.OutCvtScale, 0x40B0)),
    *(moved(dpu_stages.OutCvtShift, 0x40B4), SurfaceAdd, Bus, SurfLen, PackedRuns, PackedRun, LutCfg),
    *unknown(0x40C4),
    keep=["S_STATUS", "S_POINTER", "OPERATION_ENABLE", "OFFSET_PEND", "BN_ALU_CFG", "BN_MUL_CFG", *_LUT],
)

# ---------------------------------------------------------------- DPU_RDMA, PPU, PPU_RDMA

EwSurfStride = register(0x5040, "RDMA_EW_SURF_STRIDE", "I", "A surface of the EW operand.",
    ew_surf_stride=Atoms(27, 0, "Atoms."))
RdmaFeatureModeCfg = register(0x5044, "RDMA_FEATURE_MODE_CFG", "I",
    "Main data and number formats. As on RK3588 but for the code of a depthwise convolution.",
    flying_mode=Flag(0, "Main data come from memory."),
    depthwise=Unsigned(2, 1, "1 after a depthwise convolution."),
    mrdma_fp16tofp32_en=Flag(3, "Widen fp16 to fp32; also set in integer copies.", evidence="I?"),
    mrdma_disable=Flag(4, "No main data."),
    proc_precision=Choice(7, 5, Precision, "Number format of the arithmetic."),
    comb_use=Mask(10, 8, CombineUse, "MRDMA and ERDMA read one tensor: even surfaces from SRC, odd ones from EW."),
    burst_len=Size(14, 11, "Beats per burst. Bus only."),
    in_precision=Choice(17, 15, Precision, "Number format of the input."))
SurfNotch = register(0x504C, "RDMA_SURF_NOTCH", "I", "What MRDMA skips after each surface.",
    surf_notch_addr=SignedAtoms(31, 0, "Atoms."))
EwSurfNotch = register(0x506C, "RDMA_EW_SURF_NOTCH", "I", "What ERDMA skips after each surface.",
    ew_surf_notch=SignedAtoms(31, 0, "Atoms."))
LineNotch = register(0x5078, "RDMA_LINE_NOTCH", "I", "What MRDMA skips after each line.",
    line_notch_addr=Unsigned(13, 0, "Atoms.", notes="9732 of a row of 17920 that is read in three parts."))


class PaddingValue(Register, evidence="I"):
    """The pad value times one, two, three ..."""

    pad_value = Bits(18, 0, "19-bit signed integer, or fp16.")

RdmaDataFormat = register(0x7030, "RDMA_DATA_FORMAT", "I", "Number format of the input; not a size as on RK3588.",
    in_precision=Choice(2, 0, Precision, "Number format."),
    always=Flag(6, "Set in every stream.", evidence="?"))


DPU_RDMA = RK3588.block("DPU_RDMA").derive(
    *(EwSurfStride, RdmaFeatureModeCfg, SurfNotch, EwSurfNotch, LineNotch), *unknown(0x507C), remove=["RDMA_WEIGHT"]
)
PPU = RK3588.block("PPU").derive(
    *array(PaddingValue, 7, offset=0x6044, name="PADDING_VALUE_", first=1),
    *unknown(*range(0x6060, 0x6070, 4)),
    remove=["PADDING_VALUE_1_CFG", "PADDING_VALUE_2_CFG"],
)
PPU_RDMA = RK3588.block("PPU_RDMA").derive(RdmaDataFormat)
