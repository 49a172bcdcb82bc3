"""CNA: fetches feature data and weights into the convolution buffer (CBUF) and feeds them to CORE.

CBUF of RK3588: 384 KiB per core, 12 banks of 32 KiB. How a task cuts its work so that it fits is the compiler's
business: large inputs come as row bands, each a task with its own addresses, heights and top padding. Results depend
on what CBUF holds only through CBUF_CON1.data_entries.
"""

from __future__ import annotations

from openrknn.chip.rk3588.cna_input import CvtCon0, CvtCon1, CvtCon2, CvtCon3, CvtCon4, CvtCon5, DataSize0
from openrknn.isa import common
from openrknn.isa.blocks import Block
from openrknn.isa.enums import ArgbInput, ConvMode, CoreSplit, MacArray, Precision, SurfaceSeries
from openrknn.isa.fields import Address, Bits, Choice, Flag, SignedAtoms, Size, Unsigned
from openrknn.isa.registers import Register, array, registers_in
from openrknn.isa.words import Target

__all__ = ["CNA", "CvtCon0", "CvtCon1", "CvtCon2", "CvtCon3", "CvtCon4", "CvtCon5", "DataSize0"]


class SStatus(common.SStatus, offset=0x1000, name="S_STATUS"):
    """State of the two executers. Read only; streams never touch it."""


class SPointer(common.SPointer, offset=0x1004, name="S_POINTER", evidence="TEK"):
    """Register groups of CNA. On RK3588 the driver writes it once per job, on other chips the stream does."""

    core = Unsigned(29, 28, "Core that runs the job.", evidence="K", notes="Reserved in the reference manual.")


class OperationEnable(common.OperationEnable, offset=0x1008, name="OPERATION_ENABLE"):
    """Starts this block alone. Streams use the enable word instead."""


class ConvCon1(Register, offset=0x100C, name="CONV_CON1", evidence="TE"):
    """Kind of convolution, number formats, image input."""

    conv_mode = Choice(3, 0, ConvMode, "Direct or depthwise; DPU, DPU_RDMA and CORE must agree.")
    in_precision = Choice(6, 4, Precision, "Number format of the feature data.")
    proc_precision = Choice(9, 7, Precision, "Number format of the weights and of the MAC array.")
    argb_in = Choice(
        15, 12, ArgbInput, "Packed image rows with this many channels per pixel.",
        notes="Address of channel c of pixel (y, x): base + ((y * line_stride + x) * channels + c) * element bytes.",
    )
    deconv = Flag(16, "Put pad values between the input pixels, then convolve: transposed convolution.")
    group_line_off = Flag(
        29, "0: DMA_CON1.line_stride is the pitch of four lines, which lie behind one another; 1: of one.",
        notes="The manual calls it a matter of speed; it changes the pitches. See DMA_CON1 and DMA_CON2.",
    )
    nonalign_dma = Flag(30, "Fetch packed pixels; goes with argb_in.")


class ConvCon2(Register, offset=0x1010, name="CONV_CON2", evidence="TE"):
    """Order and start of the work. None of it changes results."""

    cmd_fifo_srst = Flag(0, "Reset the command FIFO; for debugging.", evidence="T")
    csc_do_en = Flag(1, "1: send no feature data to CORE.", evidence="T")
    csc_wo_en = Flag(2, "1: send no weights to CORE.", evidence="T")
    feature_grains = Unsigned(
        13, 4, "Rows to buffer before the convolution starts.",
        notes="The manual suggests y stride + kernel height + 1.",
    )
    kernel_group = Unsigned(
        23, 16, "Groups of kernels, minus one: 32 kernels per group for int8, 16 for 16-bit formats.", evidence="T",
        notes="Streams leave it 0 whatever the number of kernels.",
    )
    core_split = Choice(
        30, 28, CoreSplit, "How this task is one core's part of a convolution for several cores.", evidence="E",
        notes="Reserved in the manual. Set in every convolution of two- and three-core lists that is split; rows or "
        "kernels of the task shrink as it says. Results do not need it.",
    )


class ConvCon3(Register, offset=0x1014, name="CONV_CON3", evidence="TE"):
    """Strides and dilation."""

    conv_x_stride = Unsigned(
        2, 0, "Stride in x.", evidence="ST", notes="With 0 every output sees the same pixel: so Expand is compiled."
    )
    conv_y_stride = Unsigned(5, 3, "Stride in y; 0 as in x.", evidence="ST")
    deconv_x_stride = Size(10, 8, "Stride of a transposed convolution in x: one pixel and stride - 1 pad values.")
    deconv_y_stride = Size(13, 11, "Stride of a transposed convolution in y.")
    atrous_x_dilation = Size(20, 16, "Dilation in x.")
    atrous_y_dilation = Size(25, 21, "Dilation in y.")
    nn_mode = Choice(30, 28, MacArray, "MAC array shape for cores that work as one.", evidence="T")


class DataSize1(Register, offset=0x1024, name="DATA_SIZE1", evidence="TE"):
    """Channels of the input."""

    datain_channel = Unsigned(15, 0, "Channels, rounded up to whole atoms. In image mode the padded count, 16 or 8.")
    datain_channel_real = Size(29, 16, "Channels that carry data.")


class DataSize2(Register, offset=0x1028, name="DATA_SIZE2", evidence="TE"):
    """Width of the output."""

    dataout_width = Unsigned(10, 0, "Output columns.")


class DataSize3(Register, offset=0x102C, name="DATA_SIZE3", evidence="TE"):
    """Pixels of the output."""

    dataout_atomics = Unsigned(21, 0, "Output pixels: rows times columns. Implies padding on the right and below.")
    surf_mode = Choice(23, 22, SurfaceSeries, "Surfaces in a series.", evidence="T")


class WeightSize0(Register, offset=0x1030, name="WEIGHT_SIZE0", evidence="TE"):
    """Size of all weights."""

    weight_bytes = Unsigned(
        31, 0, "Bytes of all weights, before they were compressed.",
        notes="RK3588 rounds them up to 64 where they are compressed: four bytes for each of 16 lanes.",
    )


class WeightSize1(Register, offset=0x1034, name="WEIGHT_SIZE1", evidence="TE"):
    """Size of one kernel."""

    weight_bytes_per_kernel = Unsigned(
        18, 0, "Bytes per output channel: element bytes * rows * columns * channels rounded up (16 int8, 8 fp16)."
    )


class WeightSize2(Register, offset=0x1038, name="WEIGHT_SIZE2", evidence="TE"):
    """Shape of the kernels."""

    weight_kernels = Unsigned(13, 0, "Output channels, rounded up to even; 1 for a depthwise convolution.")
    weight_height = Unsigned(20, 16, "Kernel rows.")
    weight_width = Unsigned(28, 24, "Kernel columns.")


class CbufCon0(Register, offset=0x1040, name="CBUF_CON0", evidence="TE"):
    """Division of CBUF. Does not change results; streams write it twice."""

    data_bank = Unsigned(3, 0, "Banks for feature data.")
    weight_bank = Unsigned(7, 4, "Banks for weights. Weights that need more are streamed.")
    fc_data_bank = Unsigned(10, 8, "Banks for zero skipping; 0 without it.", evidence="T")
    data_reuse = Flag(12, "The feature data are still in CBUF.", evidence="T")
    weight_reuse = Flag(13, "The weights are still in CBUF; DCOMP_ADDR0 holds the address of the same weights.")


class CbufCon1(Register, offset=0x1044, name="CBUF_CON1", evidence="E"):
    """Room that one input row takes in CBUF."""

    data_entries = Unsigned(
        14, 0,
        "64-byte entries of one row. C1 = ceil(channels * element bytes / 16), q = C1 div 4, r = C1 mod 4: "
        "q * W + (W if r == 3 else ceil(r * W / 4)). In image mode the pixels of a line in memory times H.",
        notes="A model's image input has lines of W rounded up to 16 (int8) or 8 (fp16) pixels, and the loader writes "
        "the same into DMA_CON1; other tensors have lines of W. A smaller value makes rows overlap in CBUF, with wrong "
        "results on a board. A bank has 512 entries. The manual gives 13 bits and Mesa 14; image tasks hold the full "
        "product in up to 15.",
    )


class FcCon0(Register, offset=0x1060, name="FC_CON0", evidence="T"):
    """Zero skipping: weights that would meet a given feature value are not fetched. Never used by the toolkit."""

    fc_skip_en = Flag(0, "Skip.")
    fc_skip_data = Bits(31, 16, "Feature value to skip, normally 0.")


class FcCon1(Register, offset=0x1064, name="FC_CON1", evidence="T"):
    """Zero skipping: data offset."""

    data_offset = Unsigned(16, 0, "Feature data offset.")


class PadCon0(Register, offset=0x1068, name="PAD_CON0", evidence="TE"):
    """Padding above and to the left; the output size implies the rest."""

    pad_top = Unsigned(3, 0, "Rows of padding above.")
    pad_left = Unsigned(7, 4, "Columns of padding to the left.")


class FeatureDataAddr(Register, offset=0x1070, name="FEATURE_DATA_ADDR", evidence="TE"):
    """Where the input is. Relocated by the loader."""

    feature_base_addr = Address(31, 0, "Address of the input of this task.")


class FcCon2(Register, offset=0x1074, name="FC_CON2", evidence="T"):
    """Zero skipping: weight offset."""

    weight_offset = Unsigned(16, 0, "Weight offset.")


class DmaCon0(Register, offset=0x1078, name="DMA_CON0", evidence="TE"):
    """Bus settings. Do not change results."""

    data_burst_len = Size(3, 0, "Beats per burst for feature data: 4, 8 or 16.")
    weight_burst_len = Size(19, 16, "Beats per burst for weights.")
    ov4k_bypass = Flag(31, "Do not cut bursts at 4 KiB.", evidence="T")


class DmaCon1(Register, offset=0x107C, name="DMA_CON1", evidence="TE"):
    """Pitch of the input lines."""

    line_stride = SignedAtoms(
        27, 0, "CONV_CON1.group_line_off 0: the pitch of four lines; 1: of one. Image mode: pixels per line.",
        notes="With group_line_off 0 it does not matter where the input has four lines or fewer (RV1103 board).",
    )


class DmaCon2(Register, offset=0x1080, name="DMA_CON2", evidence="TE"):
    """Pitch of the input surfaces."""

    surf_stride = SignedAtoms(
        27, 0,
        "Surface pitch minus what the lines of one step cover: pitch = surf_stride + 4 * dma_width, or + dma_width "
        "with group_line_off.",
        notes="Negative where one row is read out of a larger tensor: -144 with H = 1 gives a pitch of 48.",
    )


class FcDataSize0(Register, offset=0x1084, name="FC_DATA_SIZE0", evidence="TE"):
    """Size of what the DMA fetches."""

    dma_height = Unsigned(10, 0, "Rows.")
    dma_width = Unsigned(29, 16, "Columns; part of the surface pitch, see DMA_CON2.")


class FcDataSize1(Register, offset=0x1088, name="FC_DATA_SIZE1", evidence="TE"):
    """Channels that the DMA fetches."""

    dma_channel = Unsigned(15, 0, "Channels.")


class ClkGate(Register, offset=0x1090, name="CLK_GATE", evidence="T"):
    """Clock gating. Streams never touch it."""

    cna_feature_disable_clkgate = Flag(0, "Never gate the feature fetch.")
    cna_weight_disable_clkgate = Flag(1, "Never gate the weight fetch.")
    csc_disable_clkgate = Flag(2, "Never gate the sequencer.")
    cbuf_cs_disable_clkgate = Flag(4, "Never gate CBUF.")


class DcompCtrl(Register, offset=0x1100, name="DCOMP_CTRL", evidence="TE"):
    """Weight decompression: the form of the streams is in `openrknn.layout.compression`."""

    decomp_control = Unsigned(
        2, 0, "0: weights are stored as they are. 1: int8 weights on RK3588 and RK3566. 5: fp16 weights on RK3566; all "
        "weights on the chips with two lanes.",
    )
    wt_dec_bypass = Flag(3, "Bypass the decompressor.", evidence="T")


class DcompRegnum(Register, offset=0x1104, name="DCOMP_REGNUM", evidence="TE"):
    """Compressed weights: the size of the header of each lane."""

    dcomp_regnum = Bits(31, 0, "Two bits per lane, lane 0 lowest: units of 16 bytes. RK3566: three bits, 8 bytes.")


class DcompAddr0(Register, offset=0x1110, name="DCOMP_ADDR0", evidence="TE"):
    """Where the weights are, compressed or not. Relocated by the loader.

    Direct convolution, e = bytes per element: groups of 32 / e output channels, in each groups of 32 input channels,
    in each kernel rows, columns, output channels, input channels; last groups are short. Depthwise: groups of 64 / e
    channels, in each rows, columns, channels. May point at data that earlier tasks wrote (matrix products). Compressed
    weights: lane 0; each lane begins at the next multiple of 64 bytes behind the one before.
    """

    decompress_addr0 = Address(31, 0, "Address of the weights.")


class DcompAmount(Register, evidence="TE"):
    """Compressed weights: how much one lane holds, header and payload. 0 without compression."""

    amount = Unsigned(31, 0, "Units of 16 bytes (RK3566: 8 bytes), minus 1.")


DcompAmounts = array(DcompAmount, 16, offset=0x1140, name="DCOMP_AMOUNT")


class PadCon1(Register, offset=0x1184, name="PAD_CON1", evidence="E"):
    """The value of padding pixels: the zero point of the input. Also stands between the pixels of `deconv`."""

    pad_value = Bits(
        31, 0, "int8 direct: low byte. int8 depthwise: both low bytes, one per channel lane. fp16: low 16 bits.",
        notes="Padding pixels take part in the window sums of CORE.MISC_CFG.qd_en. Order of the two lanes is open.",
    )


CNA = Block("CNA", Target.CNA, 0x1000, registers_in(globals()), enable_bit=0, text=__doc__)
