"""The register map of RV1103 and RV1106 ("RKNPU t3"), as far as it is known.

Offsets of RK3588 with the inside of some registers of RK3562: clamps are pairs of registers, BS_CFG and EW_CFG have
RK3562's bits, streams write two bus registers of DDMA. Enable words as on RK3588, and 0x09, which starts CNA and DPU
only: softmax sums its fp16 numbers that way. Copies move raw 32-bit data (precision code INT32). Addresses in
a file are relative to one base. int8 only. Arithmetic of this chip was proved bit for bit on an RV1103 board: shifts of
BS and the output converter round half to even, the output zero point is added before the final shift.
"""

from __future__ import annotations

from openrknn.chip.rk3562.registers import RK3562
from openrknn.chip.rk3562.registers_dpu import BsMulCfg, EwCfg, PackedRuns, clamps
from openrknn.chip.rk3588 import core, dpu_rdma
from openrknn.chip.rk3588.registers import RK3588
from openrknn.isa.common import moved, unknown
from openrknn.isa.enums import AluAlgorithm, ArgbInput, ConvMode, OutputMode, Precision, Regroup
from openrknn.isa.fields import Atoms, Bits, Choice, Flag, Mask, Signed, SignedAtoms, Size, Unsigned
from openrknn.isa.registers import Register, register

__all__ = ["RV1106"]

# ---------------------------------------------------------------- CNA

ConvCon1 = register(0x100C, "CONV_CON1", "I", "Kind of convolution, number formats, image input.",
    conv_mode=Choice(1, 0, ConvMode, "Direct or depthwise."),
    inline_zero_points=Flag(2, "Depthwise int8: each weight is followed by its negated zero point.", evidence="IE",
        notes="Proved on an RV1103 board: the second byte of a pair is added to the first."),
    in_precision=Choice(6, 4, Precision, "Number format of the feature data."),
    proc_precision=Choice(9, 7, Precision, "Number format of the MAC array."),
    argb_in=Choice(15, 12, ArgbInput, "Packed image rows with this many channels per pixel."),
    deconv=Flag(16, "Put pad values between the input pixels.", evidence="?"),
    group_line_off=Flag(29,
        "0: DMA_CON1.line_stride is the pitch of four lines, which lie behind one another; 1: of one.",
        evidence="IS", notes="Set for image input. A board reads up to four lines right with any pitch of four."))
ConvCon2 = register(0x1010, "CONV_CON2", "I?", "Rows buffered before the start, and scan flags.",
    scan_flags=Unsigned(3, 0, "Unknown.", evidence="?"),
    feature_grains=Unsigned(13, 4, "Rows."))


class CvtOffset(Register, evidence="I"):
    """Input converter, offset of one channel, shifted up: 0xffe00000 is -128 with a shift of 14."""

    cvt_offset = Signed(31, 0, "Offset.")


CvtOffsets = (
    CvtOffset.place(offset=0x1058, name="CVT_OFFSET0"),
    CvtOffset.place(offset=0x105C, name="CVT_OFFSET1"),
    CvtOffset.place(offset=0x101C, name="CVT_OFFSET2"),
    CvtOffset.place(offset=0x106C, name="CVT_OFFSET3"),
)

DwZeroPoint = register(0x1074, "DW_ZERO_POINT", "I",
    "Depthwise int8 whose weights all have one zero point: it stands here and not between the weights.",
    negated=Signed(16, 0, "Negated zero point.", notes="Streams have 128, and 0x1fffc for -4."))
CvtLanes = register(0x108C, "CVT_LANES", "I?",
    "0xff where the input converter works, else 0: perhaps RK3588's CVT_CON5.",
    cvt_lanes=Bits(31, 0, "Unknown."))
CbufEntries = register(0x103C, "CBUF_ENTRIES", "I?", "Entries of one row again.",
    fc_data_bank=Unsigned(15, 8, "4 with zero skipping (FC_CON0), else 0.", evidence="?"),
    data_entries=Unsigned(31, 16, "Entries."))
CbufCon0 = register(0x1040, "CBUF_CON0", "?", "Division of CBUF: 8 or 0x3008 in streams.",
    bits_7_0=Bits(7, 0, "Unknown."),
    data_reuse=Flag(12, "Perhaps: the data are still in CBUF."),
    weight_reuse=Flag(13, "Perhaps: the weights are still in CBUF."))
CbufCon1 = register(0x1044, "CBUF_CON1", "I", "Room that an input row takes in CBUF.",
    data_entries=Unsigned(15, 0, "32-byte entries of one row; an image has four bytes per pixel there."),
    datain_width=Unsigned(31, 16, "Input columns again."))
CbufBanks = register(0x1048, "CBUF_BANKS", "I", "Banks of CBUF.", data_bank=Unsigned(31, 26, "Banks for feature data."))
PadCon0 = register(0x1068, "PAD_CON0", "I", "Padding.",
    pad_top=Unsigned(7, 0, "Rows above."),
    pad_left=Unsigned(15, 8, "Columns to the left."))
CvtCon0 = register(0x104C, "CVT_CON0", "I", "Input converter, as on RK3588.",
    cvt_bypass=Flag(0, "No conversion."),
    cvt_type=Flag(1, "0: multiply, then add; 1: add, then multiply.", evidence="?"),
    round_type=Flag(2, "Rounding.", evidence="?"),
    data_sign=Flag(3, "0: 8-bit input is unsigned."),
    cvt_truncate_0=Unsigned(9, 4, "Shift 0."),
    cvt_truncate_1=Unsigned(15, 10, "Shift 1."),
    cvt_truncate_2=Unsigned(21, 16, "Shift 2."),
    cvt_truncate_3=Unsigned(27, 22, "Shift 3."),
    cvt_odd=Unsigned(31, 28, "Bit c: the offset of channel c, shifted down, is odd.",
        notes="The offset goes in before the shift; this keeps ties going to the even product, as on the other chips."))
CvtScale01 = register(0x1050, "CVT_SCALE01", "I", "Input converter, scales of channels 0 and 1.",
    cvt_scale0=Signed(15, 0, "Scale 0."),
    cvt_scale1=Signed(31, 16, "Scale 1."))
CvtScale23 = register(0x1054, "CVT_SCALE23", "I", "Input converter, scales of channels 2 and 3.",
    cvt_scale2=Signed(15, 0, "Scale 2."),
    cvt_scale3=Signed(31, 16, "Scale 3."))
DmaCon0 = register(0x1078, "DMA_CON0", "I", "Bus settings.",
    data_burst_len=Size(3, 0, "Beats per burst for feature data."),
    data_bus=Unsigned(15, 12, "Bus; 4 in streams.", evidence="?"),
    weight_burst_len=Size(19, 16, "Beats per burst for weights."),
    weight_bus=Unsigned(31, 28, "Bus; 4 in streams.", evidence="?"))
DmaCon2 = register(0x1080, "DMA_CON2", "I", "Pitch of the input surfaces.",
    surf_stride=SignedAtoms(27, 0, "Surface pitch, whole, rounded up to a multiple of 4."))
WeightStride = register(0x1188, "WEIGHT_STRIDE", "I?", "Half the bytes of one kernel.",
    weight_stride=Unsigned(31, 0, "Unknown unit."))


CNA = RK3588.block("CNA").derive(
    *(ConvCon1, ConvCon2, CbufEntries, CbufCon0, CbufCon1, CbufBanks, CvtCon0, CvtScale01, CvtScale23),
    *CvtOffsets,
    *(CvtLanes, DwZeroPoint, PadCon0, DmaCon0, DmaCon2, WeightStride, RK3562.find("CNA.READ_SIZE")),
    *unknown(0x1094),
    remove=["CLK_GATE", *(f"CVT_CON{n}" for n in range(1, 6)), *(f"DCOMP_AMOUNT{n}" for n in range(2, 16))],
)

# ---------------------------------------------------------------- CORE

MiscCfg = register(0x3010, "MISC_CFG", "I", "What the array computes.",
    qd_en=Flag(0, "Also deliver the window sums of the input."),
    dw_en=Flag(1, "Depthwise."),
    dw_too=Flag(3, "Set in depthwise convolutions.", evidence="?"),
    proc_precision=Choice(10, 8, Precision, "Number format."))


class ClipTruncate(core.ClipTruncate, evidence="I?"):
    """RK3588's register, and a bit of its own."""

    image = Flag(5, "Set for image input.", evidence="I")


CORE = RK3588.block("CORE").derive(MiscCfg, ClipTruncate, remove=["MAC_GATING", "UNKNOWN_3030"])

# ---------------------------------------------------------------- DPU

FeatureModeCfg = register(0x400C, "FEATURE_MODE_CFG", "I",
    "Where data come from and go to, and in which form; RK3588's bits.",
    flying_mode=Flag(0, "0: data come from CORE; 1: from memory."),
    output_mode=Mask(2, 1, OutputMode, "Where the result goes."),
    conv_mode=Choice(4, 3, ConvMode, "Kind of the convolution before."),
    burst_len=Size(8, 5, "Beats per burst. Bus only."),
    surf_len=Atoms(24, 9, "Length of packed output."),
    nonalign=Flag(25, "Packed output."),
    rgp_type=Unsigned(29, 26, "Packed output: bytes kept of the last atom of each row, or of each atom; 0: all."),
    rgp_each=Flag(30, "Packed output: rgp_type is about each atom."),
    to_bytes=Flag(31, "Set where fp16 data leave as int8; results do not need it.", evidence="?"))
DataFormat = register(0x4010, "DATA_FORMAT", "I", "Number formats.",
    proc_precision=Choice(2, 0, Precision, "Number format of the arithmetic."),
    bn_mul_shift_value_neg=Unsigned(15, 10, "BN shift where the sum is negative."),
    out_size=Unsigned(24, 22, "Size of the output's elements: 2 for 8 bits, 3 for 16, 4 for 32."),
    out_precision=Choice(31, 29, Precision, "Number format of the output."))
BsAluCfg = register(0x4018, "BS_ALU_CFG", "I", "Addend of BS.", bs_alu_operand=Bits(31, 0, "int32 or fp32."))
DataCubeWidth = register(0x4030, "DATA_CUBE_WIDTH", "I", "Width of the data.",
    width=Size(12, 0, "Columns."),
    packed_run=Unsigned(31, 16,
        "Packed output: bytes of a run; every run begins at a whole atom. 16 in transposes, without effect.",
        notes="A row of a matrix that becomes channels: 4 for [129, 4], 14 for [512, 14]. See RK3562's PACKED_RUN."))
CpendAluCfg = register(0x4044, "CPEND_ALU_CFG", "I",
    "Addend of the correction where it is not the window sum (BS_CFG.cpend_alu_src = 0). Never used by the toolkit.",
    cpend_alu_operand=Bits(31, 0, "int32 or fp32.", notes="An open compiler for RV1103 uses it as a second addend."))


class BsCfg(Register, offset=0x4040, name="BS_CFG", evidence="I"):
    """BS, the first stage, in two halves: the zero-point correction of the weights, then add, multiply, shift.

    As on RK3562, but for the place of the shift and one more source bit.
    """

    bs_bypass = Flag(0, "Skip the stage.")
    cpend_alu_bypass = Flag(1, "Correction: skip the addition.")
    cpend_mul_bypass = Flag(4, "Correction: skip the product with the window sum.")
    bs_alu_bypass = Flag(6, "Skip the addition.")
    bs_alu_src = Flag(7, "Addend per channel from BRDMA.")
    cpend_alu_src = Flag(8, "Correction: add the product with the window sum; 0: CPEND_ALU_CFG.")
    bs_mul_shift_value = Unsigned(14, 9, "Shift where the product is not negative.")
    cpend_alu_algo = Choice(19, 16, AluAlgorithm, "Correction: ADD where it works.")
    bs_alu_algo = Unsigned(23, 20, "1 where the addition works: plus.", evidence="I?")

BsOwCfg = register(0x4050, "BS_OW_CFG", "I",
    "The multiplication of BS, atoms per pixel of the write DMA, what becomes of the atoms.",
    bs_mul_src=Flag(0, "Multiplier per channel from BRDMA; 0: BS_MUL_CFG."),
    bs_mul_bypass=Flag(1, "Skip the multiplication."),
    size_e_0=Size(4, 2, "Atoms per pixel and channel group."),
    size_e_1=Size(7, 5, "The same number again."),
    size_e_2=Size(10, 8, "The same number again."),
    regroup=Choice(22, 20, Regroup, "What happens between the stages and the write DMA."),
    tp_atoms=Flag(27, "The atoms are not regrouped: atom transpose."),
    group=Size(30, 28, "Quads of channels in a group.", evidence="I?"))
BsOwOp = register(0x4054, "BS_OW_OP", "I", "Operand of the correction, and the shift of BS for negatives.",
    ow_op=Signed(16, 0, "Operand.", evidence="I?"),
    bs_mul_shift_value_neg=Unsigned(29, 24, "BS shift where the product is negative."),
    cpend_float=Flag(30, "Set where the correction works on floats."),
    cpend_en=Flag(31, "Set where the correction works on integers."))
WdmaSize0 = register(0x4058, "WDMA_SIZE_0", "I?", "Channels of the write DMA.",
    group=Size(15, 0, "Quads of channels in a group.", evidence="I?"),
    blocks=Size(26, 16, "Atoms of a pixel."),
    wide_lanes=Flag(27, "16-bit lanes in a lane transpose, as tp_precision of RK3588; set with tp_atoms too."))
BnCfg = register(0x4060, "BN_CFG", "I",
    "BN, the second stage: 0x13 off, 0x12 for a clamp alone, 0x22 for slopes on negatives.",
    bn_bypass=Flag(0, "Skip the stage."),
    bn_alu_bypass=Flag(1, "Skip the addition."),
    bn_mul_bypass=Flag(4, "Skip the multiplication."),
    bn_mul_prelu=Flag(5, "Multiply only where x < 0."),
    bn_alu_src=Flag(8, "Addend per channel from NRDMA."),
    bn_alu_algo=Choice(19, 16, AluAlgorithm, "Plus or minus the addend."))


CLAMPS = {
    "BS_LIMIT": (0x404C, 0x401C),
    "BS_CLAMP": (0x40D8, 0x40DC),
    "BN_LIMIT": (0x406C, 0x4028),
    "BN_CLAMP": (0x40E0, 0x40E4),
    "EW_LIMIT": (0x407C, 0x402C),
    "EW_CLAMP": (0x40E8, 0x40EC),
}
"""Offsets of minimum and maximum; RK3588's upper clamps are the first minima."""

DPU = RK3588.block("DPU").derive(
    *(FeatureModeCfg, DataFormat, BsAluCfg, DataCubeWidth, BsCfg, CpendAluCfg, moved(BsMulCfg, 0x4048), BsOwCfg),
    *(BsOwOp, WdmaSize0, BnCfg, moved(EwCfg, 0x4070), moved(PackedRuns, 0x40C4)),
    *clamps(CLAMPS),
    remove=["BS_RELUX_CMP_VALUE", "BN_RELUX_CMP_VALUE", "EW_RELUX_CMP_VALUE"],
)

# ---------------------------------------------------------------- DPU_RDMA, PPU, PPU_RDMA


class RdmaFeatureModeCfg(dpu_rdma.FeatureModeCfg, evidence="I"):
    """Main data and number formats; RK3588's bits and three more."""

    copy = Unsigned(23, 20, "9 where main data come from memory.", evidence="?")


DPU_RDMA = RK3588.block("DPU_RDMA").derive(RdmaFeatureModeCfg)

RV1106 = RK3588.derive(
    "rv1106",
    *(CNA, CORE, DPU, DPU_RDMA, RK3562.block("PPU"), RK3562.block("PPU_RDMA"), RK3562.block("DDMA")),
    text=__doc__,
)
