"""The register map of RK3566 and RK3568 ("RKNPU lite"), as far as it is known.

The closest relative of RK3588's with three differences that run through it: atoms have 8 bytes, so strides and notches
start at bit 3; the MAC array is a block of its own, CMAC, and CORE's registers lie one word lower; the algorithm of an
adder is a two-bit field next to its bypass bits. Streams write the S_POINTERs of CNA, CMAC and CORE themselves. One
command is one unit of PC.REGISTER_AMOUNTS. DPU and PPU work in one task here (enable word 0x38).
"""

from __future__ import annotations

from openrknn.chip.rk3588 import cna, core
from openrknn.chip.rk3588.registers import RK3588
from openrknn.isa import common
from openrknn.isa.blocks import Block
from openrknn.isa.common import moved, unknown
from openrknn.isa.enums import (
    ArgbInput,
    ConvMode,
    EwOperation,
    OperandKinds,
    OperandMode,
    PoolingMethod,
    Precision,
    Rounding,
    ShortAlgorithm,
)
from openrknn.isa.fields import Address, Atoms, Bits, Choice, Flag, Mask, Signed, SignedAtoms, Size, Unsigned
from openrknn.isa.registers import Register, array
from openrknn.isa.words import Target

__all__ = ["RK3566"]


class EnableMask(common.EnableMask, evidence="I"):
    """Starts blocks. 0x1f convolution with operands, 0x0f without, 0x18 DPU, 0x60 pooling, 0x38 DPU into PPU."""

    cmac = Flag(1, "CMAC.")


# ---------------------------------------------------------------- CNA


class ConvCon1(Register, offset=0x100C, name="CONV_CON1", evidence="I"):
    """Kind of convolution, number formats, image input."""

    conv_mode = Choice(3, 0, ConvMode, "Direct or depthwise.")
    in_precision = Choice(6, 4, Precision, "Number format of the feature data.")
    proc_precision = Choice(10, 8, Precision, "Number format of the MAC array; one bit higher than on RK3588.")
    argb_in = Choice(15, 12, ArgbInput, "Packed image rows with this many channels per pixel.")
    deconv = Flag(16, "Put pad values between the input pixels: transposed convolution.")


class ImageSize(Register, offset=0x1018, name="IMAGE_SIZE", evidence="I?"):
    """0 unless the input is an image; then 9 * width * height for three channels. Meaning unknown."""

    image_size = Unsigned(31, 0, "Unknown.")


class CbufCon1(Register, offset=0x1044, name="CBUF_CON1", evidence="I"):
    """Room that an input row takes in CBUF."""

    data_entries = Unsigned(13, 0, "Entries of one row.")
    datain_width = Unsigned(26, 16, "Input columns again.")


class CvtCon0(Register, offset=0x104C, name="CVT_CON0", evidence="I"):
    """Input converter. Files hold the setting for uint8 images; the runtime resets it for int8 input to 8."""

    cvt_en = Flag(0, "Convert; the opposite of RK3588's bypass bit.")
    cvt_type = Flag(1, "0: multiply, then add; 1: add, then multiply.")
    round_type = Choice(2, 2, Rounding, "Rounding of the shift.", evidence="?")
    data_sign = Flag(3, "0: 8-bit input is unsigned.")
    cvt_truncate_0 = Unsigned(9, 4, "Shift 0.")
    cvt_truncate_1 = Unsigned(15, 10, "Shift 1.")
    cvt_truncate_2 = Unsigned(21, 16, "Shift 2.")
    cvt_truncate_3 = Unsigned(27, 22, "Shift 3.")


class PadCon0(Register, offset=0x1068, name="PAD_CON0", evidence="I"):
    """Padding and its value."""

    pad_top = Unsigned(3, 0, "Rows of padding above.")
    pad_left = Unsigned(7, 4, "Columns of padding to the left.")
    pad_value = Signed(31, 16, "Zero point of the input.")


class DmaCon0(Register, offset=0x1078, name="DMA_CON0", evidence="?"):
    """Bus settings: 0x00171c07 in every stream."""

    bus_settings = Bits(31, 0, "Unknown.")


class DmaCon1(Register, offset=0x107C, name="DMA_CON1", evidence="I"):
    """Pitch of the input lines."""

    line_stride = SignedAtoms(27, 0, "Line pitch; there is no grouping of four lines.")


class DmaCon2(Register, offset=0x1080, name="DMA_CON2", evidence="I"):
    """Pitch of the input surfaces."""

    surf_stride = SignedAtoms(27, 0, "Surface pitch, whole.")


class DcompAddr(Register, evidence="E"):
    """Compressed weights: where one of the lanes 1 to 7 begins; DCOMP_ADDR0 has lane 0. Relocated by the loader."""

    address = Address(31, 0, "Address of the lane.")


DcompAddrs = array(DcompAddr, 7, offset=0x1114, name="DCOMP_ADDR", first=1)
DcompAmounts = (
    *array(cna.DcompAmount, 4, offset=0x1140, name="DCOMP_AMOUNT"),
    *array(cna.DcompAmount, 4, offset=0x1130, name="DCOMP_AMOUNT", first=4),
)

CNA = RK3588.block("CNA").derive(
    *(ConvCon1, ImageSize, CbufCon1, CvtCon0, PadCon0, DmaCon0, DmaCon1, DmaCon2),
    *(*DcompAddrs, *DcompAmounts),
    *unknown(*range(0x1210, 0x1234, 4)),
    remove=["CVT_CON5", "PAD_CON1", *(f"DCOMP_AMOUNT{n}" for n in range(8, 16))],
)

# ---------------------------------------------------------------- CMAC and CORE


class CmacSPointer(common.SPointer, offset=0x2004, name="S_POINTER", evidence="I"):
    """Register groups of CMAC."""


class CmacMiscCfg(Register, offset=0x200C, name="MISC_CFG", evidence="I"):
    """What the MAC array computes."""

    always = Flag(0, "Set in every stream.", evidence="?")
    dw_en = Flag(1, "Depthwise.")
    proc_precision = Choice(14, 12, Precision, "Number format.")


CMAC = Block(
    "CMAC",
    Target.EXTRA,
    0x2000,
    (CmacSPointer, CmacMiscCfg),
    enable_bit=1,
    text="CMAC: the MAC array. Its name is a guess from its place between CNA and CORE, as in NVDLA.",
)


class CoreMiscCfg(Register, offset=0x300C, name="MISC_CFG", evidence="I"):
    """What the accumulator does."""

    dw_en = Flag(1, "Depthwise.")
    proc_precision = Choice(14, 12, Precision, "Number format.")


class CoreClipTruncate(Register, offset=0x302C, name="CLIP_TRUNCATE", evidence="IS"):
    """Right shift of the accumulator, before the BS stage; 1 and 2 in OSNet, where a board's distances show it."""

    clip_truncate = Unsigned(4, 0, "Bits to shift.")


CORE = RK3588.block("CORE").derive(
    CoreMiscCfg,
    moved(core.DataoutSize0, 0x3010),
    moved(core.DataoutSize1, 0x3014),
    CoreClipTruncate,
    keep=["S_STATUS", "S_POINTER", "OPERATION_ENABLE"],
)

# ---------------------------------------------------------------- DPU


class FeatureModeCfg(Register, offset=0x400C, name="FEATURE_MODE_CFG", evidence="I"):
    """Where data come from and go to, and in which form."""

    flying_mode = Flag(0, "0: data come from CORE; 1: from memory.")
    to_ppu = Flag(1, "The result goes to the PPU.")
    to_memory = Flag(3, "The result goes to memory.")
    conv_mode = Choice(5, 4, ConvMode, "Kind of the convolution before.")
    burst_len = Unsigned(9, 6, "Bus; 4 in streams.", evidence="?")
    surf_len = Atoms(24, 10, "Length of packed output.")
    nonalign = Flag(25, "Packed output.")
    tp_en = Flag(30, "Atom transpose.")


class BsCfg(Register, offset=0x4040, name="BS_CFG", evidence="I"):
    """BS, the first stage. As on RK3588 but for the algorithm."""

    bs_bypass = Flag(0, "Skip the stage.")
    bs_alu_bypass = Flag(1, "Skip the addition.")
    bs_alu_algo = Choice(3, 2, ShortAlgorithm, "Operation with the operand.")
    bs_mul_bypass = Flag(4, "Skip the multiplication.")
    bs_mul_prelu = Flag(5, "Multiply only where x < 0.")
    bs_relu_bypass = Flag(6, "Skip max(x, 0).")
    bs_relux_en = Flag(7, "Also min(x, BS_RELUX_CMP_VALUE).")
    bs_alu_src = Flag(8, "Operand per channel from BRDMA.")


class BnCfg(Register, offset=0x4060, name="BN_CFG", evidence="I"):
    """BN, the second stage. As on RK3588 but for the algorithm."""

    bn_bypass = Flag(0, "Skip the stage.")
    bn_alu_bypass = Flag(1, "Skip the addition.")
    bn_alu_algo = Choice(3, 2, ShortAlgorithm, "Operation with the operand.")
    bn_mul_bypass = Flag(4, "Skip the multiplication.")
    bn_mul_prelu = Flag(5, "Multiply only where x < 0.")
    bn_relu_bypass = Flag(6, "Skip max(x, 0).")
    bn_relux_en = Flag(7, "Also min(x, BN_RELUX_CMP_VALUE).")
    bn_alu_src = Flag(8, "Operand per channel from NRDMA.")


class EwCfg(Register, offset=0x4070, name="EW_CFG", evidence="I"):
    """EW, the third stage. As on RK3588 but for the algorithm."""

    ew_bypass = Flag(0, "Skip the stage.")
    ew_op_bypass = Flag(1, "Skip the operation.")
    ew_op_type = Choice(2, 2, EwOperation, "ALU or multiplication.")
    ew_alu_algo = Choice(4, 3, ShortAlgorithm, "Operation of the ALU.")
    ew_mul_prelu = Flag(5, "Multiply only where x < 0.", evidence="?")
    ew_op_src = Flag(6, "0: operand from registers; 1: a tensor through ERDMA.")
    ew_lut_bypass = Flag(7, "Skip the lookup table.")
    ew_op_cvt_bypass = Flag(8, "Use the operand without conversion.")
    ew_relu_bypass = Flag(9, "Skip max(x, 0).")
    ew_relux_en = Flag(10, "Also min(x, EW_RELUX_CMP_VALUE).", evidence="?")
    ew_data_mode = Choice(29, 28, OperandMode, "Operand per channel or per pixel.")
    ew_cvt_round = Choice(30, 30, Rounding, "Rounding of the operand converter.", evidence="?")
    ew_cvt_type = Flag(31, "0: multiply, then add; 1: add, then multiply.")


class DstSurfStride(Register, offset=0x4024, name="DST_SURF_STRIDE", evidence="I"):
    """Step of counter e of the write DMA."""

    dst_surf_stride = Atoms(31, 3, "Atoms from one atom of a pixel to the next.")


class SurfaceAdd(Register, offset=0x40C0, name="SURFACE_ADD", evidence="I"):
    """Step of counter g of the write DMA."""

    surf_add = Atoms(31, 3, "Atoms from one channel group to the next.")


DPU = RK3588.block("DPU").derive(
    *(FeatureModeCfg, BsCfg, BnCfg, EwCfg, DstSurfStride, SurfaceAdd), remove=["WDMA_SIZE_0", "WDMA_SIZE_1"]
)

# ---------------------------------------------------------------- DPU_RDMA


class BrdmaCfg(Register, offset=0x501C, name="RDMA_BRDMA_CFG", evidence="I"):
    """Operands of BS."""

    brdma_disable = Flag(0, "Read nothing.")
    brdma_data_use = Mask(4, 1, OperandKinds, "Kinds to read per channel.")


class NrdmaCfg(Register, offset=0x5028, name="RDMA_NRDMA_CFG", evidence="I"):
    """Operands of BN."""

    nrdma_disable = Flag(0, "Read nothing.")
    nrdma_data_use = Mask(4, 1, OperandKinds, "Kinds to read per channel.")


class BrdmaChannel(Register, offset=0x5024, name="RDMA_BRDMA_CHANNEL", evidence="I?"):
    """0 where BRDMA is off; else near the number of channels, minus one, that have operands."""

    brdma_channel = Size(12, 0, "Channels.")


class NrdmaChannel(Register, offset=0x5030, name="RDMA_NRDMA_CHANNEL", evidence="I?"):
    """The same for NRDMA."""

    nrdma_channel = Size(12, 0, "Channels.")


class EwSurfLast(Register, offset=0x503C, name="RDMA_EW_SURF_LAST", evidence="I?"):
    """One atom less than a surface of the EW operand."""

    ew_surf_last = Atoms(31, 3, "Atoms.")


class EwSurfStride(Register, offset=0x5040, name="RDMA_EW_SURF_STRIDE", evidence="I"):
    """A surface of the EW operand."""

    ew_surf_stride = Atoms(31, 3, "Atoms.")


class RdmaFeatureModeCfg(Register, offset=0x5044, name="RDMA_FEATURE_MODE_CFG", evidence="I"):
    """Main data and number formats."""

    flying_mode = Flag(0, "Main data come from memory.")
    conv_mode = Choice(2, 1, ConvMode, "Kind of the convolution before.")
    proc_precision = Choice(7, 5, Precision, "Number format of the arithmetic.")
    burst_len = Unsigned(14, 11, "Bus; 8 in streams.", evidence="?")
    in_precision = Choice(17, 15, Precision, "Number format of the input.")
    to_bytes = Flag(18, "Set where fp16 data leave as int8; results do not need it.", evidence="?")


class SurfNotch(Register, offset=0x504C, name="RDMA_SURF_NOTCH", evidence="I"):
    """What MRDMA skips after each surface."""

    surf_notch_addr = SignedAtoms(31, 3, "Atoms.")


DPU_RDMA = RK3588.block("DPU_RDMA").derive(
    *(BrdmaCfg, NrdmaCfg, BrdmaChannel, NrdmaChannel, EwSurfLast, EwSurfStride, RdmaFeatureModeCfg, SurfNotch),
    remove=["RDMA_EW_SURF_NOTCH"],
)

# ---------------------------------------------------------------- PPU and PPU_RDMA


class PaddingValue(Register, evidence="I"):
    """The pad value times one, two, three ... as an average over that many padding pixels needs it."""

    pad_value = Bits(18, 0, "19-bit signed integer, or fp16.")


PaddingValues = array(PaddingValue, 7, offset=0x6044, name="PADDING_VALUE_", first=1)


class OperationModeCfg(Register, offset=0x6024, name="OPERATION_MODE_CFG", evidence="I"):
    """What to compute, and from where."""

    pooling_method = Choice(1, 0, PoolingMethod, "Average, maximum or minimum.")
    flying_mode = Flag(4, "0: data come straight from the DPU; 1: from memory.")
    notch_addr = Unsigned(28, 16, "Atoms to skip after each output line.")


class PpuDstBaseAddr(Register, offset=0x6070, name="DST_BASE_ADDR", evidence="I"):
    """Where the result goes. Relocated by the loader."""

    dst_base_addr = Address(31, 3, "Address of the first atom.")


class PpuDstSurfStride(Register, offset=0x607C, name="DST_SURF_STRIDE", evidence="I"):
    """Pitch of the output surfaces."""

    dst_surf_stride = Atoms(31, 3, "Atoms.")


class PpuDataFormat(Register, offset=0x6084, name="DATA_FORMAT", evidence="I"):
    """Number format."""

    proc_precision = Unsigned(1, 0, "Number format: 0 int8, 2 fp16.")
    dpu_flyin = Flag(2, "Data come from the DPU, and the DPU's from memory.")
    index_add = Atoms(31, 3, "dst_surf_stride again.")


class SrcLineStride(Register, offset=0x7024, name="RDMA_SRC_LINE_STRIDE", evidence="I"):
    """Pitch of the input lines."""

    src_line_stride = Atoms(31, 3, "Atoms.")


class SrcSurfStride(Register, offset=0x7028, name="RDMA_SRC_SURF_STRIDE", evidence="I"):
    """Pitch of the input surfaces."""

    src_surf_stride = Atoms(31, 3, "Atoms.")


class RdmaDataFormat(Register, offset=0x7030, name="RDMA_DATA_FORMAT", evidence="I"):
    """Number format of the input; not a size as on RK3588."""

    in_precision = Choice(2, 0, Precision, "Number format.")


PPU = RK3588.block("PPU").derive(
    *PaddingValues,
    *(OperationModeCfg, PpuDstBaseAddr, PpuDstSurfStride, PpuDataFormat),
    remove=["PADDING_VALUE_1_CFG", "PADDING_VALUE_2_CFG"],
)
PPU_RDMA = RK3588.block("PPU_RDMA").derive(SrcLineStride, SrcSurfStride, RdmaDataFormat, *unknown(0x7018))

RK3566 = RK3588.derive(
    "rk3566",
    RK3588.block("ENABLE").derive(EnableMask),
    *(CNA, CMAC, CORE, DPU, DPU_RDMA, PPU, PPU_RDMA),
    text=__doc__,
)
