"""The register map of RK3576 ("RKNPU f2") and RV1126B ("RKNPU f3"), as far as it is known.

RK3562's map with sizes stored minus one, operands and shifts of BS and BN described by a second tensor
("..._BScfgTensor"), lookup tables with four ranges, and two-core tasks that are marked in the enable word and in
CONV_CON3. Lists for one core are stored twice, once per core, and differ in where they use CBUF.
"""

from __future__ import annotations

from openrknn.chip.rk3562.registers import RK3562
from openrknn.chip.rk3576 import registers_lut
from openrknn.chip.rk3588.registers import RK3588
from openrknn.isa import common
from openrknn.isa.common import unknown
from openrknn.isa.enums import (
    AluAlgorithm,
    ArgbInput,
    OperandKinds,
    OperandMode,
    OutputMode,
    PixelBits,
    Precision,
    Regroup,
)
from openrknn.isa.fields import Address, Choice, Flag, Mask, Signed, SignedAtoms, Size, Unsigned
from openrknn.isa.registers import Register, register

__all__ = ["RK3576"]


class EnableMask(common.EnableMask, evidence="I"):
    """Starts blocks."""

    together = Flag(24, "Set in tasks that two cores run together. Not in the task record's mask.")


# ---------------------------------------------------------------- CNA

ConvCon1 = register(0x100C, "CONV_CON1", "I", "Kind of convolution, number formats, image input.",
    dw_en=Flag(0, "Depthwise."),
    image=Flag(1, "Image input."),
    packed_rows=Flag(2, "Image input: each row of a kernel fills 16 bytes of its own."),
    in_precision=Choice(6, 4, Precision, "Number format of the feature data."),
    proc_precision=Choice(9, 7, Precision, "Number format of the MAC array."),
    argb_in=Choice(15, 12, ArgbInput, "Packed image rows with this many channels per pixel."),
    weight_precision=Choice(22, 20, Precision, "Number format of the weights."),
    group_line_off=Flag(29,
        "0: DMA_CON1.line_stride is the pitch of four lines, which lie behind one another; 1: of one."))
Division = register(0x1018, "DIVISION", "?",
    "Something about the division of CBUF; the lists for other cores have other numbers.",
    data_a=Unsigned(7, 0, "Unknown."),
    data_b=Unsigned(15, 8, "Unknown."),
    always=Flag(30, "Set in every stream."),
    data_reuse=Flag(31, "The first rows are in CBUF already, as on RK3562.", evidence="I"))
CbufBanks = register(0x1038, "CBUF_BANKS", "?", "Something about the division of CBUF.",
    banks_a=Unsigned(7, 0, "Unknown."),
    banks_b=Unsigned(15, 8, "Unknown."),
    reuse=Unsigned(31, 30, "3 in fences, 2 in later bands and in the second core's part: perhaps what CBUF keeps."))
ConvCon2 = register(0x1010, "CONV_CON2", "?", "0xfff on RK3576, 0x3fff on RV1126B, in every stream.",
    grains=Unsigned(13, 0, "Unknown."))
ConvCon3 = register(0x1014, "CONV_CON3", "I", "Strides, and the sharing between cores.",
    conv_x_stride=Unsigned(2, 0, "Stride in x."),
    conv_y_stride=Unsigned(5, 3, "Stride in y."),
    deconv_x_stride=Size(10, 8, "Stride of a transposed convolution in x."),
    deconv_y_stride=Size(13, 11, "Stride of a transposed convolution in y."),
    atrous_x_dilation=Size(20, 16, "Dilation in x."),
    atrous_y_dilation=Size(25, 21, "Dilation in y."),
    cores=Size(30, 28, "Cores that share the convolution."))
WeightSize2 = register(0x1024, "WEIGHT_SIZE2", "I", "Shape of the kernels.",
    weight_kernels=Size(13, 0, "Output channels; 1 for a depthwise convolution."),
    weight_height=Size(20, 16, "Kernel rows."),
    weight_width=Size(28, 24, "Kernel columns."))
DataSize1 = register(0x1028, "DATA_SIZE1", "I", "Channels of the input.",
    datain_channel_real=Size(15, 0, "Channels that carry data."),
    datain_pixels=Unsigned(31, 16, "Input pixels: rows times columns.", evidence="I?"))
DataSize0 = register(0x102C, "DATA_SIZE0", "I", "Size of the input of this task.",
    datain_height=Size(12, 0, "Input rows.", notes="4200 in a softmax over anchors: two bits more than on RK3588."),
    datain_width=Size(28, 16, "Input columns."))


class DataSize2(Register, offset=0x1030, name="DATA_SIZE2", evidence="I"):
    """Width of the output, and the size of the weights once more.

    Weights, in every convolution that was compared: depthwise WEIGHT_SIZE0 / 16; else WEIGHT_SIZE1 in fp16 and
    twice that in int8. Results do not need it.
    """

    dataout_width = Size(12, 0, "Output columns.", notes="2850 in a softmax over pixels.")
    weights = Unsigned(31, 16, "Depthwise: atoms of weights; else twice the elements of a kernel.", evidence="I?")

DataSize3 = register(0x1034, "DATA_SIZE3", "I", "Pixels of the output.", dataout_atomics=Size(21, 0, "Output pixels."))
CbufEntries = register(0x103C, "CBUF_ENTRIES", "I?",
    "Entries of one row again, and where in CBUF something starts; the second core's list has other numbers.",
    start=Unsigned(15, 0, "Unknown.", evidence="?"),
    data_entries=Unsigned(31, 16, "Entries of one row."))
FcDataSize0 = register(0x1078, "FC_DATA_SIZE0", "I", "Size of what the DMA fetches.",
    dma_height=Size(12, 0, "Rows."),
    dma_width=Size(29, 16, "Columns."))
FcDataSize1 = register(0x107C, "FC_DATA_SIZE1", "I", "Channels that the DMA fetches.",
    dma_channel=Size(15, 0, "Channels."))


CNA = RK3562.block("CNA").derive(
    *(ConvCon1, Division, CbufBanks),
    *(ConvCon2, ConvCon3, WeightSize2, DataSize1, DataSize0, DataSize2, DataSize3, FcDataSize0, FcDataSize1),
    CbufEntries,
    *unknown(0x109C),
)

# ---------------------------------------------------------------- CORE

MiscCfg = register(0x3018, "MISC_CFG", "I", "What the array computes.",
    qd_en=Flag(0, "Also deliver the window sums of the input."),
    dw_en=Flag(1, "Depthwise."),
    dw_too=Flag(3, "Set in depthwise convolutions.", evidence="?"),
    image=Flag(7, "Set for image input."),
    proc_precision=Choice(10, 8, Precision, "Number format."),
    always=Flag(28, "Set in every stream.", evidence="?"))


CORE = RK3562.block("CORE").derive(MiscCfg)

# ---------------------------------------------------------------- DPU

FeatureModeCfg = register(0x400C, "FEATURE_MODE_CFG", "I", "Where data come from and go to.",
    flying_mode=Flag(0, "0: data come from CORE; 1: from memory."),
    output_mode=Mask(2, 1, OutputMode, "Where the result goes."),
    depthwise=Unsigned(4, 3, "1 after a depthwise convolution."),
    nonalign=Flag(25, "Packed output."),
    rgp_type=Unsigned(29, 26, "Packed output: bytes kept of the last atom of each surface; 0: all."),
    from_core=Flag(30, "Set where flying_mode is clear.", evidence="?"))
DataCubeHeight = register(0x4024, "DATA_CUBE_HEIGHT", "I", "Height of the data.",
    height=Size(12, 0, "Rows."),
    reduction=Unsigned(31, 16, "0x25 in a maximum over channels.", evidence="?"))
BsMulCfg = register(0x4044, "BS_MUL_CFG", "I",
    "Where BS and the correction find their operands, and which values BS multiplies.",
    cpend_mul_src=Flag(0, "Correction: operand per channel; 0: from the configuration tensor."),
    no_shift=Flag(1, "The configuration tensor has no shifts: none takes place."),
    bs_mul_prelu=Flag(2, "Multiply only where x < 0."))
BsOwCfg = register(0x4050, "BS_OW_CFG", "I",
    "The multiplication of BS, atoms per pixel of the write DMA, what becomes of the atoms.",
    size_e_0=Size(3, 0, "Atoms per pixel and channel group."),
    size_e_1=Size(7, 4, "The same number again."),
    size_e_2=Size(11, 8, "Atoms per pixel in the last channel group."),
    size_e_3=Size(15, 12, "Atoms per pixel and channel group again."),
    bs_mul_src=Flag(16, "Multiplier per channel; 0: from the configuration tensor."),
    bs_mul_bypass=Flag(17, "Skip the multiplication."),
    regroup=Choice(22, 20, Regroup, "What happens between the stages and the write DMA."),
    cpend_en=Flag(31, "Set where the correction works."))
BnCfg = register(0x4060, "BN_CFG", "I", "BN, the second stage.",
    bn_bypass=Flag(0, "Skip the stage."),
    bn_alu_bypass=Flag(1, "Skip the addition."),
    bn_alu_src=Flag(2, "Addend per channel; 0: from the configuration tensor."),
    bn_alu_algo=Choice(7, 4, AluAlgorithm, "Plus the addend."),
    bn_mul_bypass=Flag(8, "Skip the multiplication."),
    bn_mul_src=Flag(9, "Multiplier per channel; 0: from the configuration tensor."),
    bn_mul_prelu=Flag(10, "Multiply only where x < 0."),
    no_shift=Flag(11, "The configuration tensor has no shifts: none takes place."))
EwCvtOffsetValue = register(0x4080, "EW_CVT_OFFSET_VALUE", "I", "Offset of the operand converter.",
    ew_op_cvt_offset=Signed(15, 0, "Offset."),
    reduced=Unsigned(31, 16, "In a maximum over channels: pixels of the output.", evidence="?"))
Precise = register(0x40D0, "UNKNOWN_40D0", "?", "0x0040ffff, and 0x0048ffff in a maximum over channels.",
    low=Unsigned(15, 0, "0xffff."),
    high=Unsigned(31, 16, "0x40 or 0x48."))
WdmaSize0 = register(0x4030, "WDMA_SIZE_0", "I?", "Channels of the write DMA.",
    group=Unsigned(15, 0, "Something about the channel group: 0x710, 0xf00 ...", evidence="?"),
    orig_channel=Size(31, 16, "Channels that carry data."))
SurfaceAdd = register(0x40B8, "SURFACE_ADD", "I", "What the write DMA skips after each channel group.",
    surf_add=SignedAtoms(31, 0, "Atoms from the end of one channel group to the start of the next."))


_RK3588_LUT = [
    *("LUT_LE_START", "LUT_LE_END", "LUT_LO_START", "LUT_LO_END"),
    *("LUT_LE_SLOPE_SCALE", "LUT_LE_SLOPE_SHIFT", "LUT_LO_SLOPE_SCALE", "LUT_LO_SLOPE_SHIFT"),
]

DPU = RK3562.block("DPU").derive(
    *(FeatureModeCfg, DataCubeHeight, BsMulCfg, BsOwCfg, BnCfg, WdmaSize0, SurfaceAdd, EwCvtOffsetValue, Precise),
    *registers_lut.REGISTERS,
    remove=["BS_ALU_CFG", "BS_OW_OP", "BN_ALU_CFG", "BN_MUL_CFG", *_RK3588_LUT],
)

# ---------------------------------------------------------------- DPU_RDMA

BrdmaCfg = register(0x501C, "RDMA_BRDMA_CFG", "I", "Operands of BS.",
    config_use=Mask(4, 1, OperandKinds, "Kinds that the configuration tensor holds, one number for all channels."),
    brdma_data_use=Mask(11, 8, OperandKinds, "Kinds to read per channel."))


class BsConfigAddr(Register, offset=0x5024, name="RDMA_BS_CONFIG_ADDR", evidence="I"):
    """Where the configuration tensor of BS is ("..._BScfgTensor"). Relocated by the loader.

    The kinds follow one another: addend (32 bytes, int32 or fp32 in the first four), correction (16 bytes, int16),
    multiplier (16 bytes, int16 or fp16), shifts (one byte for products that are not negative, one for the others).
    """

    bs_config_addr = Address(31, 0, "Address.")

NrdmaCfg = register(0x5028, "RDMA_NRDMA_CFG", "I?", "Operands of BN.",
    config_use=Mask(4, 1, OperandKinds, "Kinds that the configuration tensor holds, one number for all channels."),
    nrdma_data_use=Mask(11, 8, OperandKinds, "Kinds to read per channel."))
BnConfigAddr = register(0x5030, "RDMA_BN_CONFIG_ADDR", "I",
    "Where the configuration tensor of BN is. Relocated by the loader.",
    bn_config_addr=Address(31, 0, "Address."))
ErdmaCfg = register(0x5034, "RDMA_ERDMA_CFG", "I", "The operand of EW.",
    erdma_disable=Flag(0, "No operand."),
    ov4k_bypass=Flag(1, "Do not cut bursts at 4 KiB. Bus only."),
    erdma_data_size=Choice(3, 2, PixelBits, "Element size."),
    unknown=Flag(6, "Set in about half of all tasks; results do not need it.", evidence="?"),
    after_core=Flag(28, "Set where the operand joins the result of a convolution: two surfaces at a time."),
    erdma_data_mode=Choice(31, 30, OperandMode, "Operand per channel or per pixel."))
RdmaFeatureModeCfg = register(0x5044, "RDMA_FEATURE_MODE_CFG", "I", "Main data and number formats.",
    flying_mode=Flag(0, "Main data come from memory."),
    depthwise=Unsigned(2, 1, "1 after a depthwise convolution."),
    mrdma_fp16tofp32_en=Flag(3, "Widen fp16 to fp32; also set in integer copies.", evidence="I?"),
    mrdma_disable=Flag(4, "No main data."),
    proc_precision=Choice(7, 5, Precision, "Number format of the arithmetic."),
    comb_main=Flag(8, "MRDMA and ERDMA read the main data together: even surfaces from SRC, odd ones from EW."),
    in_precision=Choice(17, 15, Precision, "Number format of the input."),
    from_core=Flag(30, "Set in convolutions.", evidence="?"))


DPU_RDMA = RK3562.block("DPU_RDMA").derive(
    BrdmaCfg, BsConfigAddr, NrdmaCfg, BnConfigAddr, ErdmaCfg, RdmaFeatureModeCfg
)

RK3576 = RK3562.derive(
    "rk3576",
    RK3588.block("ENABLE").derive(EnableMask),
    *(CNA, CORE, DPU, DPU_RDMA, RK3588.block("DDMA")),
    text=__doc__,
)
