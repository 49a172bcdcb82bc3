"""The register map of RK3562 ("RKNPU t4"), as far as it is known. RK3576 and RV1126B derive from it.

The blocks, the data flow and most fields are those of RK3588, at other offsets: CNA has weights before data, DPU is
two words lower from 0x4018 on. Every clamp is a pair of registers, minimum and maximum, instead of ReLU bits; streams
leave 0x80000000 and 0x7fffffff where nothing is clamped. Strides and notches count atoms from bit 0 on. Streams write
the S_POINTERs of CNA and CORE themselves, and two bus registers of DDMA.
"""

from __future__ import annotations

from openrknn.chip.rk3562.registers_dpu import DPU, DPU_RDMA, PPU, PPU_RDMA
from openrknn.chip.rk3588 import cna, core
from openrknn.chip.rk3588.dma import dma_block
from openrknn.chip.rk3588.registers import RK3588
from openrknn.isa.common import moved, unknown
from openrknn.isa.enums import ArgbInput, Precision
from openrknn.isa.fields import Atoms, Bits, Choice, Flag, Signed, SignedAtoms, Size, Unsigned
from openrknn.isa.registers import Register, array, register
from openrknn.isa.words import Target

__all__ = ["RK3562"]

# ---------------------------------------------------------------- CNA

ConvCon1 = register(0x100C, "CONV_CON1", "I", "Kind of convolution, number formats, image input.",
    dw_en=Flag(0, "Depthwise."),
    image=Flag(1, "Image input."),
    inline_zero_points=Flag(2, "Depthwise int8: two weights, then their two negated zero points, take turns."),
    in_precision=Choice(6, 4, Precision, "Number format of the feature data."),
    proc_precision=Choice(9, 7, Precision, "Number format of the MAC array."),
    argb_in=Choice(15, 12, ArgbInput, "Packed image rows with this many channels per pixel."),
    deconv=Flag(16, "Never set: CONV_CON3 has the strides of transposed convolutions.", evidence="?"),
    weight_precision=Choice(22, 20, Precision, "A third number format, equal to the others.", evidence="I?"),
    ragged=Flag(26, "Image lines in memory are longer than the image; results do not need it.", evidence="I?"),
    not_deconv=Flag(28, "Clear in transposed convolutions."),
    group_line_off=Flag(29,
        "0: DMA_CON1.line_stride is the pitch of four lines, which lie behind one another; 1: of one."))
ConvCon2 = register(0x1010, "CONV_CON2", "?", "Like RK3588's FEATURE_GRAINS in some way.",
    grains=Unsigned(13, 0, "Unknown."))
WeightSize1 = register(0x1020, "WEIGHT_SIZE1", "I", "Size of one kernel.",
    weight_bytes_per_kernel=Unsigned(18, 0, "Bytes per output channel."),
    always=Unsigned(31, 28, "2 in every stream.", evidence="?"))
Division = register(0x1018, "DIVISION", "?", "Something about the division of CBUF.",
    data_a=Unsigned(7, 0, "Half of CBUF_CON0.data, rounded down."),
    data_b=Unsigned(15, 8, "The same number again."),
    not_deconv=Unsigned(30, 16, "0x18 but in transposed convolutions."),
    data_reuse=Flag(31, "The first rows are in CBUF already: the DMA starts after them and fetches the rest.",
        evidence="I", notes="They are as many as DATA_SIZE0.datain_height exceeds FC_DATA_SIZE0.dma_height."))
CbufWeights = register(0x1038, "CBUF_WEIGHTS", "I",
    "Weights in CBUF. Streams write it twice, once right behind the pointers.",
    always=Unsigned(3, 0, "8 in every stream.", evidence="?"),
    weight_reuse=Flag(13, "The weights are in CBUF already.",
        notes="Set in every row band behind the first whose weights all fit into their banks, and nowhere else."))
CbufCon0 = register(0x1040, "CBUF_CON0", "?", "Division of CBUF.",
    start=Unsigned(15, 0, "Not 0 in row bands that use rows of the band before."),
    data=Unsigned(31, 24, "Less than 14 where the weights are large."))
DataSize1 = register(0x1028, "DATA_SIZE1", "I", "Channels of the input.",
    datain_channel_real=Unsigned(15, 0, "Channels that carry data."))
CbufCon1 = register(0x1044, "CBUF_CON1", "I", "Room that an input row takes in CBUF.",
    data_entries=Unsigned(15, 0, "64-byte entries of one row; for images the columns of a line in memory."),
    datain_width=Unsigned(31, 16, "Input columns again; for images those of a line in memory."))
CbufEntries = register(0x103C, "CBUF_ENTRIES", "I?", "Entries of one row again, and where in CBUF the rows start.",
    start=Unsigned(15, 0, "Not 0 in row bands that use rows of the band before.", evidence="?"),
    data_entries=Unsigned(31, 16, "Entries of one row."))
CvtScale01 = register(0x104C, "CVT_SCALE01", "I", "Input converter, scales of channels 0 and 1.",
    cvt_scale0=Signed(15, 0, "Scale 0."),
    cvt_scale1=Signed(31, 16, "Scale 1."))
CvtScale23 = register(0x1050, "CVT_SCALE23", "I", "Input converter, scales of channels 2 and 3.",
    cvt_scale2=Signed(15, 0, "Scale 2."),
    cvt_scale3=Signed(31, 16, "Scale 3."))


class CvtOffset(Register, evidence="I"):
    """Input converter, offset of one channel."""

    cvt_offset = Signed(31, 0, "Offset.")


CvtOffsets = array(CvtOffset, 4, offset=0x1054, name="CVT_OFFSET")

CvtLanes = register(0x1064, "CVT_LANES", "I",
    "Which channels of a feature map the input converter works on; images need no bits here.",
    cvt_lanes=Bits(31, 0, "All ones in matrix products, else 0."))
DwZeroPoint = register(0x1074, "DW_ZERO_POINT", "I",
    "Depthwise int8 whose weights all have one zero point: it stands here and not between the weights.",
    negated=Unsigned(7, 0, "Negated zero point; 0x80 is 128."),
    negated_1=Unsigned(15, 8, "The same number again."))
LanePad = register(0x1070, "LANE_PAD", "I?",
    "The zero point of an image input, else 0: perhaps what lanes without a channel hold.",
    lane_pad=Bits(31, 0, "The pad value again."))
PadCon0 = register(0x1080, "PAD_CON0", "I",
    "Padding on all four sides. Row bands show the order: the first has no bottom, the last no top.",
    pad_top=Unsigned(7, 0, "Rows above."),
    pad_left=Unsigned(15, 8, "Columns to the left."),
    pad_bottom=Unsigned(23, 16, "Rows below."),
    pad_right=Unsigned(31, 24, "Columns to the right."))
DmaCon0 = register(0x108C, "DMA_CON0", "I", "Bus settings.",
    data_burst_len=Size(3, 0, "Beats per burst for feature data."),
    data_bus=Unsigned(15, 12, "Bus; 4 in streams.", evidence="?"),
    weight_burst_len=Size(19, 16, "Beats per burst for weights."),
    weight_bus=Unsigned(31, 28, "Bus; 8 where a vector is spread over channels.", evidence="?"))
SurfStride = register(0x1094, "SURF_STRIDE", "I", "Pitch of the input surfaces.",
    surf_stride=SignedAtoms(27, 0, "Surface pitch, whole."))
SurfSize = register(0x1098, "SURF_SIZE", "I", "Size of the part of a surface that this task reads.",
    surf_size=Atoms(27, 0, "Pixels, rounded up to a multiple of 4."))
ReadSize = register(0x118C, "READ_SIZE", "I?", "Input width, twice.",
    width_0=Size(15, 0, "Columns."),
    width_1=Size(31, 16, "Columns."))
DataSize0 = register(0x102C, "DATA_SIZE0", "I",
    "Size of the input of this task; wider than on RK3588: 3584 rows in a softmax over anchors.",
    datain_height=Unsigned(12, 0, "Input rows."),
    datain_width=Unsigned(28, 16, "Input columns."))
DataSize2 = register(0x1030, "DATA_SIZE2", "I",
    "Width of the output; wider than on RK3588: 2850 columns in a softmax over pixels.",
    dataout_width=Unsigned(12, 0, "Output columns."))
FcDataSize0 = register(0x1078, "FC_DATA_SIZE0", "I", "Size of what the DMA fetches.",
    dma_height=Unsigned(12, 0, "Rows."),
    dma_width=Unsigned(29, 16, "Columns."))



_CNA_KEPT = ["S_STATUS", "S_POINTER", "OPERATION_ENABLE", "CONV_CON3", "DCOMP_CTRL", "DCOMP_REGNUM", "DCOMP_ADDR0"]

CNA = RK3588.block("CNA").derive(
    *(ConvCon1, ConvCon2, Division, CbufWeights, CbufCon0, LanePad, CvtLanes, DwZeroPoint),
    *(moved(cna.WeightSize0, 0x101C), WeightSize1, moved(cna.WeightSize2, 0x1024), DataSize1),
    *(DataSize0, DataSize2, moved(cna.DataSize3, 0x1034), CbufEntries, CbufCon1),
    *(moved(cna.CvtCon0, 0x1048), CvtScale01, CvtScale23),
    *CvtOffsets,
    *(FcDataSize0, moved(cna.FcDataSize1, 0x107C), PadCon0, moved(cna.PadCon1, 0x1084)),
    *(moved(cna.FeatureDataAddr, 0x1088), DmaCon0, moved(cna.DmaCon1, 0x1090), SurfStride, SurfSize, ReadSize),
    *unknown(0x1068, 0x106C),
    keep=[*_CNA_KEPT, "DCOMP_AMOUNT0", "DCOMP_AMOUNT1"],
)

# ---------------------------------------------------------------- CORE

MiscCfg = register(0x3018, "MISC_CFG", "I", "What the array computes.",
    qd_en=Flag(0, "Also deliver the window sums of the input."),
    dw_en=Flag(1, "Depthwise."),
    dw_too=Flag(3, "Set in int8 depthwise convolutions.", evidence="?"),
    proc_precision=Choice(10, 8, Precision, "Number format."))


class ClipTruncate(Register, offset=0x3024, name="CLIP_TRUNCATE", evidence="I"):
    """Right shift of the accumulator, as on RK3588; the number stands here twice.

    Files in the wild hold 0x42, 0x63, 0x84 and 0xa5 (OSNet), where the BS stage alone could not scale the sums down.
    """

    clip_truncate = Unsigned(4, 0, "Bits to shift.")
    clip_again = Unsigned(9, 5, "The same number once more, or 1 beside 0 for int8 image input.", evidence="?")


CORE = RK3588.block("CORE").derive(
    *(MiscCfg, moved(core.DataoutSize0, 0x301C), moved(core.DataoutSize1, 0x3020), ClipTruncate),
    *unknown(0x300C, 0x3010, 0x3014),
    keep=["S_STATUS", "S_POINTER", "OPERATION_ENABLE"],
)

DDMA = dma_block("DDMA", 0x8000, Target.EXTRA, "Bus interface: streams set writes of 16 bytes per beat, all enabled.")

RK3562 = RK3588.derive(
    "rk3562", CNA, CORE, DPU, DPU_RDMA, PPU, PPU_RDMA, DDMA, text=__doc__
)
