"""The register map of RV1103 and RV1106 ("RKNPU t3"), as far as it is known.

Offsets of RK3588 with the inside of some registers of RK3562: clamps are pairs of registers, BS_CFG and EW_CFG have
RK3562's bits, streams write two bus registers of DDMA. Copies move raw 32-bit data (precision code INT32). Addresses in
a file are relative to one base. int8 only. Arithmetic of this chip was proved bit for bit on an RV1103 board: shifts of
BS and the output converter round half to even, the output zero point is added before the final shift.
"""

from __future__ import annotations

from openrknn.isa import dpu_rdma
from openrknn.isa.common import moved, unknown
from openrknn.isa.enums import AluAlgorithm, ArgbInput, OutputMode, Precision
from openrknn.isa.fields import Atoms, Bits, Choice, Flag, Mask, Signed, SignedAtoms, Size, Unsigned
from openrknn.isa.registers import Register
from openrknn.isa.rk3562 import RK3562, BsMulCfg, BsOwCfg, EwCfg, Maximum, Minimum
from openrknn.isa.rk3588 import RK3588

__all__ = ["RV1106"]

# ---------------------------------------------------------------- CNA


class ConvCon1(Register, offset=0x100C, name="CONV_CON1", evidence="I"):
    """Kind of convolution, number formats, image input."""

    conv_mode = Unsigned(3, 0, "0 direct, 3 and 7 depthwise.", evidence="I?")
    in_precision = Choice(6, 4, Precision, "Number format of the feature data.")
    proc_precision = Choice(9, 7, Precision, "Number format of the MAC array.")
    argb_in = Choice(15, 12, ArgbInput, "Packed image rows with this many channels per pixel.")
    deconv = Flag(16, "Put pad values between the input pixels.", evidence="?")
    group_line_off = Flag(29, "Set for image input.")


class ConvCon2(Register, offset=0x1010, name="CONV_CON2", evidence="I?"):
    """Rows buffered before the start, and scan flags."""

    scan_flags = Unsigned(3, 0, "Unknown.", evidence="?")
    feature_grains = Unsigned(13, 4, "Rows.")


class CvtOffset0(Register, offset=0x101C, name="CVT_OFFSET_A", evidence="I?"):
    """An offset of the input converter in fixed point: 0xffe00000 for -128 with shift 14."""

    cvt_offset = Signed(31, 0, "Offset.")


class CbufEntries(Register, offset=0x103C, name="CBUF_ENTRIES", evidence="I?"):
    """Entries of one row for the weights."""

    weight_entries = Unsigned(31, 16, "Entries.")


class CbufCon0(Register, offset=0x1040, name="CBUF_CON0", evidence="?"):
    """Division of CBUF: 8 or 0x3008 in streams."""

    bits_7_0 = Bits(7, 0, "Unknown.")
    data_reuse = Flag(12, "Perhaps: the data are still in CBUF.")
    weight_reuse = Flag(13, "Perhaps: the weights are still in CBUF.")


class CbufCon1(Register, offset=0x1044, name="CBUF_CON1", evidence="I"):
    """Room that an input row takes in CBUF."""

    data_entries = Unsigned(15, 0, "Entries of one row.")
    datain_width = Unsigned(31, 16, "Input columns again.")


class CbufBanks(Register, offset=0x1048, name="CBUF_BANKS", evidence="I"):
    """Banks of CBUF."""

    data_bank = Unsigned(31, 26, "Banks for feature data.")


class PadCon0(Register, offset=0x1068, name="PAD_CON0", evidence="I"):
    """Padding."""

    pad_top = Unsigned(7, 0, "Rows above.")
    pad_left = Unsigned(15, 8, "Columns to the left.")


class CvtCon0(Register, offset=0x104C, name="CVT_CON0", evidence="I"):
    """Input converter, as on RK3588 with three shifts."""

    cvt_bypass = Flag(0, "No conversion.")
    cvt_type = Flag(1, "0: multiply, then add; 1: add, then multiply.", evidence="?")
    round_type = Flag(2, "Rounding.", evidence="?")
    data_sign = Flag(3, "0: 8-bit input is unsigned.")
    cvt_truncate_0 = Unsigned(9, 4, "Shift 0.")
    cvt_truncate_1 = Unsigned(15, 10, "Shift 1.")
    cvt_truncate_2 = Unsigned(21, 16, "Shift 2.")


class CvtScale01(Register, offset=0x1050, name="CVT_SCALE01", evidence="I"):
    """Input converter, scales of channels 0 and 1."""

    cvt_scale0 = Signed(15, 0, "Scale 0.")
    cvt_scale1 = Signed(31, 16, "Scale 1.")


class CvtScale23(Register, offset=0x1054, name="CVT_SCALE23", evidence="I"):
    """Input converter, scales of channels 2 and 3."""

    cvt_scale2 = Signed(15, 0, "Scale 2.")
    cvt_scale3 = Signed(31, 16, "Scale 3.")


class DmaCon0(Register, offset=0x1078, name="DMA_CON0", evidence="I"):
    """Bus settings."""

    data_burst_len = Size(3, 0, "Beats per burst for feature data.")
    weight_burst_len = Size(19, 16, "Beats per burst for weights.")


class DmaCon2(Register, offset=0x1080, name="DMA_CON2", evidence="I"):
    """Pitch of the input surfaces."""

    surf_stride = SignedAtoms(27, 0, "Surface pitch, whole, rounded up to a multiple of 4.")


class WeightStride(Register, offset=0x1188, name="WEIGHT_STRIDE", evidence="I?"):
    """Half the bytes of one kernel."""

    weight_stride = Unsigned(31, 0, "Unknown unit.")


CNA = RK3588.block("CNA").derive(
    *(ConvCon1, ConvCon2, CvtOffset0, CbufEntries, CbufCon0, CbufCon1, CbufBanks, CvtCon0, CvtScale01, CvtScale23),
    *(PadCon0, DmaCon0, DmaCon2, WeightStride, RK3562.find("CNA.READ_SIZE")),
    *unknown(0x1058, 0x105C, 0x1060, 0x1064, 0x106C, 0x1074, 0x108C, 0x1094),
    remove=["CLK_GATE", "CVT_CON5", *(f"DCOMP_AMOUNT{n}" for n in range(2, 16))],
)

# ---------------------------------------------------------------- CORE


class MiscCfg(Register, offset=0x3010, name="MISC_CFG", evidence="I"):
    """What the array computes."""

    qd_en = Flag(0, "Also deliver the window sums of the input.")
    dw_en = Flag(1, "Depthwise.")
    dw_too = Flag(3, "Set in depthwise convolutions.", evidence="?")
    proc_precision = Choice(10, 8, Precision, "Number format.")


CORE = RK3588.block("CORE").derive(MiscCfg, *unknown(0x301C), remove=["MAC_GATING", "UNKNOWN_3030"])

# ---------------------------------------------------------------- DPU


class FeatureModeCfg(Register, offset=0x400C, name="FEATURE_MODE_CFG", evidence="I"):
    """Where data come from and go to, and in which form; RK3588's bits."""

    flying_mode = Flag(0, "0: data come from CORE; 1: from memory.")
    output_mode = Mask(2, 1, OutputMode, "Where the result goes.")
    depthwise = Unsigned(4, 3, "3 after a depthwise convolution.")
    burst_len = Size(8, 5, "Beats per burst. Bus only.")
    surf_len = Atoms(24, 9, "Length of packed output.")
    nonalign = Flag(25, "Packed output.")
    rgp_type = Unsigned(29, 26, "What packed output keeps of each atom.")
    tp_en = Flag(30, "Atom transpose.")


class DataFormat(Register, offset=0x4010, name="DATA_FORMAT", evidence="I"):
    """Number formats."""

    proc_precision = Choice(2, 0, Precision, "Number format of the arithmetic.")
    bn_mul_shift_value_neg = Unsigned(15, 10, "BN shift where the sum is negative.")
    group = Unsigned(24, 22, "Depends on the element size: 2 for 8 bits, 3 for 16, 4 for 32.", evidence="I?")
    out_precision = Choice(31, 29, Precision, "Number format of the output.")


class BsAluCfg(Register, offset=0x4018, name="BS_ALU_CFG", evidence="I"):
    """Addend of BS."""

    bs_alu_operand = Bits(31, 0, "int32 or fp32.")


class DataCubeWidth(Register, offset=0x4030, name="DATA_CUBE_WIDTH", evidence="I"):
    """Width of the data."""

    width = Size(12, 0, "Columns.")
    copy = Flag(20, "Set in some copies.", evidence="?")


class BsCfg(Register, offset=0x4040, name="BS_CFG", evidence="I"):
    """BS, the first stage, and the zero-point correction before it."""

    bs_bypass = Flag(0, "Skip the stage.")
    no_cpend_0 = Flag(1, "Set where the weights need no zero-point correction.", evidence="I?")
    no_cpend_1 = Flag(4, "Set likewise.", evidence="I?")
    bs_relu_bypass = Flag(6, "Set with bs_bypass.", evidence="?")
    bs_alu_src = Flag(7, "Addend per channel from BRDMA.")
    cpend_src = Flag(8, "Correction per channel from BRDMA.", evidence="I?")
    bs_mul_shift_value = Unsigned(14, 9, "Shift where the product is not negative.")
    cpend_algo = Choice(19, 16, AluAlgorithm, "ADD where the weights need the correction.", evidence="I?")
    bs_alu_en = Flag(20, "Set wherever the stage works.", evidence="I?")


class BsOwOp(Register, offset=0x4054, name="BS_OW_OP", evidence="I"):
    """The shift of BS for negatives; cleared for LeakyReLU and PReLU."""

    bs_mul_shift_value_neg = Unsigned(29, 24, "BS shift where the product is negative.")


class WdmaSize0(Register, offset=0x4058, name="WDMA_SIZE_0", evidence="I?"):
    """Channels of the write DMA."""

    group = Unsigned(15, 0, "Something about the channel group: 0, 1, 3 or 7.", evidence="?")
    blocks = Size(26, 16, "Groups of 16 channels.")
    tp_precision = Flag(27, "16-bit lanes in a lane transpose.")


class BnCfg(Register, offset=0x4060, name="BN_CFG", evidence="I"):
    """BN, the second stage: 0x13 off, 0x12 for a clamp alone, 0x22 for slopes on negatives."""

    bn_bypass = Flag(0, "Skip the stage.")
    bn_alu_bypass = Flag(1, "Skip the addition.")
    bn_mul_bypass = Flag(4, "Skip the multiplication.")
    bn_mul_prelu = Flag(5, "Multiply only where x < 0.")
    bn_alu_algo = Choice(19, 16, AluAlgorithm, "Plus or minus the addend.")


Clamps = (
    Maximum.place(offset=0x401C, name="CLAMP0_MAXIMUM"),
    Maximum.place(offset=0x4028, name="CLAMP1_MAXIMUM"),
    Maximum.place(offset=0x402C, name="CLAMP2_MAXIMUM"),
    Minimum.place(offset=0x404C, name="CLAMP0_MINIMUM"),
    Minimum.place(offset=0x406C, name="CLAMP1_MINIMUM"),
    Minimum.place(offset=0x407C, name="CLAMP2_MINIMUM"),
    *(
        shape.place(offset=0x40D8 + 8 * index + 4 * upper, name=f"CLAMP{3 + index}_{shape.__name__.upper()}")
        for index in range(3)
        for upper, shape in enumerate((Minimum, Maximum))
    ),
)

DPU = RK3588.block("DPU").derive(
    *(FeatureModeCfg, DataFormat, BsAluCfg, DataCubeWidth, BsCfg, moved(BsMulCfg, 0x4048), moved(BsOwCfg, 0x4050)),
    *(BsOwOp, WdmaSize0, BnCfg, moved(EwCfg, 0x4070)),
    *Clamps,
    *unknown(0x4044, 0x4108),
    remove=["BS_RELUX_CMP_VALUE", "BN_RELUX_CMP_VALUE", "EW_RELUX_CMP_VALUE"],
)

# ---------------------------------------------------------------- DPU_RDMA, PPU, PPU_RDMA


class RdmaFeatureModeCfg(dpu_rdma.FeatureModeCfg, evidence="I"):
    """Main data and number formats; RK3588's bits and three more."""

    copy = Unsigned(23, 20, "9 where main data come from memory.", evidence="?")


DPU_RDMA = RK3588.block("DPU_RDMA").derive(RdmaFeatureModeCfg)

RV1106 = RK3588.derive(
    "rv1106",
    ("rv1103", "rv1106"),
    *(CNA, CORE, DPU, DPU_RDMA, RK3562.block("PPU"), RK3562.block("PPU_RDMA"), RK3562.block("DDMA")),
    text=__doc__,
)
