"""The register map of RV1103B and RV1106B ("RKNPU w1").

Another generation: there is no CORE block (enable word 0x19 for a convolution, 0x09 without operands), sizes are stored
minus one, width and height share registers, scale and shift of the output converter share one. There is one stage
after BS, which does the work of BN and EW. Atoms have 8 bytes. One command is one unit of PC.REGISTER_AMOUNTS. Streams
of int8 execute and give what the simulator gives; what softmax writes (fp16, reductions, divisions) is not decoded yet.
"""

from __future__ import annotations

from openrknn.chip.rk3562.registers import PadCon0
from openrknn.chip.rk3562.registers_dpu import clamps
from openrknn.chip.rk3576 import registers_lut
from openrknn.chip.rk3588.registers import RK3588
from openrknn.isa.common import unknown
from openrknn.isa.enums import AluAlgorithm, EwAlgorithm
from openrknn.isa.fields import Address, Atoms, Bits, Choice, Flag, Signed, SignedAtoms, Size, Unsigned
from openrknn.isa.registers import Register, array, register

__all__ = ["RV1106B"]

# ---------------------------------------------------------------- CNA

ConvCon3 = register(0x100C, "CONV_CON3", "I", "Strides and dilation.",
    conv_x_stride=Unsigned(3, 0, "Stride in x."),
    conv_y_stride=Unsigned(7, 4, "Stride in y."),
    deconv_x_stride=Size(11, 8, "Stride of a transposed convolution in x."),
    deconv_y_stride=Size(15, 12, "Stride of a transposed convolution in y."),
    atrous_x_dilation=Size(20, 16, "Dilation in x."),
    atrous_y_dilation=Size(28, 24, "Dilation in y."))
WeightSize0 = register(0x1010, "WEIGHT_SIZE0", "I", "Size of all weights.",
    weight_bytes=Unsigned(31, 0, "Bytes of all weights; of pairs with zero points in a depthwise convolution."))
ConvCon1 = register(0x1014, "CONV_CON1", "I", "Kind of convolution, and the size of one kernel.",
    weight_bytes_per_kernel=Unsigned(19, 0, "Bytes per output channel; depthwise: of eight channels."),
    features=Flag(20, "The input is a feature map."),
    average=Flag(23, "Set where a depthwise convolution stands for average pooling.", evidence="?"),
    dw_en=Flag(24, "Depthwise."),
    image=Flag(26, "The input is an image."),
    works=Flag(28, "Set in every convolution, clear in copies through the array.", evidence="?"),
    pooling=Flag(30, "Maximum of windows instead of products."),
    qd_en=Flag(31, "Also deliver the window sums of the input."))
WeightShape = register(0x1018, "WEIGHT_SHAPE", "I", "Shape of the kernels.",
    weight_kernels=Size(13, 0, "Output channels; 2 for a depthwise convolution with zero points between its weights."),
    weight_height=Size(20, 16, "Kernel rows."),
    weight_width=Size(28, 24, "Kernel columns."))
DataSize0 = register(0x101C, "DATA_SIZE0", "I", "Size of the input.",
    datain_height=Size(15, 0, "Input rows."),
    datain_width=Size(31, 16, "Input columns."))
DataSize1 = register(0x1020, "DATA_SIZE1", "I", "Channels of the input.",
    datain_channel_real=Size(15, 0, "Channels that carry data."),
    dataout_channel=Size(31, 16, "Channels of the output."))
DataSize2 = register(0x1024, "DATA_SIZE2", "I", "Width of the output.",
    dataout_width=Size(15, 0, "Output columns."),
    weights=Unsigned(31, 16, "Bytes of one kernel again; depthwise a quarter of that.", evidence="?"))
DataSize3 = register(0x1028, "DATA_SIZE3", "I", "Pixels of the output, and padding above.",
    dataout_atomics=Size(21, 0, "Output pixels."),
    flag_22=Flag(22, "Set but in pooling.", evidence="?"),
    pad_top=Unsigned(27, 24, "Rows above."),
    flag_31=Flag(31, "Set but in pooling.", evidence="?"))
CbufEntries = register(0x102C, "CBUF_ENTRIES", "I?", "Entries of one row, and where in CBUF something starts.",
    start=Unsigned(15, 0, "Unknown.", evidence="?"),
    data_entries=Unsigned(31, 16, "16-byte entries of one row."))
Atomics = register(0x103C, "ATOMICS", "I?", "Pixels of the output again.",
    dataout_atomics=Size(21, 0, "Output pixels; of all windows in pooling."),
    flag_29=Flag(29, "Set in every stream.", evidence="?"))
Division = register(0x1044, "DIVISION", "I",
    "Division of CBUF, and rows that stay in it from one row band to the next.",
    banks=Unsigned(15, 0, "0x606 in every stream.", evidence="?"),
    data_reuse=Flag(31, "Rows of the task before are kept: the DMA fetches only dma_height of datain_height rows."))
WeightReuse = register(0x1048, "WEIGHT_REUSE", "I", "Weights that stay in CBUF.",
    always=Unsigned(3, 0, "8 in every stream.", evidence="?"),
    windows=Flag(17, "Set in pooling.", evidence="?"),
    weight_reuse=Flag(31, "The weights of the task before are kept; streams hold their address all the same."))
CbufCon1 = register(0x104C, "CBUF_CON1", "I", "Room that an input row takes in CBUF.",
    data_entries=Unsigned(15, 0, "16-byte entries of one row; an image has four bytes per pixel there."),
    datain_width=Unsigned(31, 16, "Input columns again; for images those of a line in memory."))


class Cvt(Register, evidence="I"):
    """Input converter, shift and offset of one channel. The offset is shifted up."""

    cvt_offset = Signed(24, 0, "Offset.")
    cvt_truncate = Unsigned(31, 26, "Shift.")


Cvts = array(Cvt, 4, offset=0x1050, name="CVT")

LanePad = register(0x1074, "LANE_PAD", "I?",
    "The zero point of an image input, else 0: perhaps what lanes without a channel hold.",
    lane_pad=Signed(31, 0, "The pad value again."))
WeightZeroPoint = register(0x1078, "WEIGHT_ZERO_POINT", "I",
    "Weights that all have one zero point: it stands here, twice (bilinear resizing, matrix products).",
    negated=Unsigned(7, 0, "Negated zero point; 0x80 is 128."),
    negated_1=Unsigned(15, 8, "The same again."))
CvtLanes = register(0x1100, "CVT_LANES", "I?", "0xff000000 where the input converter works, else 0.",
    cvt_lanes=Bits(31, 24, "All ones for images."))
FeatureDataAddr = register(0x1034, "FEATURE_DATA_ADDR", "I", "Where the input is. Relocated by the loader.",
    feature_base_addr=Address(31, 0, "Address."))
WeightAddr = register(0x1038, "WEIGHT_ADDR", "I", "Where the weights are. Relocated by the loader.",
    weight_addr=Address(31, 0, "Address."))
CvtScale01 = register(0x1060, "CVT_SCALE01", "I", "Input converter, scales of channels 0 and 1.",
    cvt_scale0=Signed(15, 0, "Scale 0."),
    cvt_scale1=Signed(31, 16, "Scale 1."))
CvtScale23 = register(0x1064, "CVT_SCALE23", "I", "Input converter, scales of channels 2 and 3.",
    cvt_scale2=Signed(15, 0, "Scale 2."),
    cvt_scale3=Signed(31, 16, "Scale 3."))
FcDataSize0 = register(0x107C, "FC_DATA_SIZE0", "I", "Size of what the DMA fetches.",
    dma_height=Size(15, 0, "Rows."),
    dma_width=Size(31, 16, "Columns; for images those of a line in memory."))
FcDataSize1 = register(0x1080, "FC_DATA_SIZE1", "I", "Channels that the DMA fetches.",
    dma_channel=Size(15, 0, "Channels."))
PadCon1 = register(0x1088, "PAD_CON1", "I", "The value of padding pixels.",
    pad_value=Bits(31, 0, "Zero point of the input."))
LineStride = register(0x1090, "LINE_STRIDE", "I", "Pitch of the input lines.",
    line_stride=Atoms(27, 0, "Atoms; for images in units of 8 bytes."))
SurfStride = register(0x1094, "SURF_STRIDE", "I", "Pitch of the input surfaces.",
    surf_stride=Atoms(27, 0, "Atoms; for images in units of 8 bytes."))


_CNA_RAW = (0x1030, 0x1040, 0x1070, 0x108C, 0x1104, 0x1184, 0x1188)

CNA = RK3588.block("CNA").derive(
    *(ConvCon3, WeightSize0, ConvCon1, WeightShape, DataSize0, DataSize1, DataSize2, DataSize3, CbufEntries, Atomics),
    *(FeatureDataAddr, WeightAddr, Division, WeightReuse, CbufCon1),
    *Cvts,
    *(CvtScale01, CvtScale23, LanePad, FcDataSize0, FcDataSize1, PadCon0.place(offset=0x1084, name="PAD_CON0")),
    *(PadCon1, LineStride, SurfStride, WeightZeroPoint, CvtLanes),
    *unknown(*_CNA_RAW),
    keep=["S_STATUS", "S_POINTER", "OPERATION_ENABLE"],
)

# ---------------------------------------------------------------- DPU

FeatureModeCfg = register(0x400C, "FEATURE_MODE_CFG", "I", "Where data come from and go to.",
    flying_mode=Flag(0, "0: data come from the array; 1: from memory."),
    flag_1=Flag(1, "Set in the divisions of softmax.", evidence="?"),
    flag_2=Flag(2, "Set in transposes.", evidence="?"),
    to_memory=Flag(4, "Set in every stream."),
    copies=Unsigned(7, 5, "1 in copies and element-wise operations without a table, 5 in pooling.", evidence="?"),
    flag_9=Flag(9, "Set where numbers change their format.", evidence="?"),
    flag_10=Flag(10, "Set in the divisions of softmax.", evidence="?"),
    burst_len=Unsigned(15, 12, "3 in most streams. Bus only.", evidence="?"),
    reduction=Unsigned(23, 16, "0x25 in a maximum.", evidence="?"),
    flags=Unsigned(31, 24, "2 and 0x82 where the output is packed or transposed.", evidence="?"))
DstBaseAddr = register(0x4010, "DST_BASE_ADDR", "I", "Where the result goes. Relocated by the loader.",
    dst_base_addr=Address(31, 0, "Address."))
DstSurfStride = register(0x4014, "DST_SURF_STRIDE", "I", "Pitch of the output surfaces.",
    dst_surf_stride=Atoms(27, 0, "Atoms."))
DataCubeSize = register(0x4018, "DATA_CUBE_SIZE", "I", "Size of the data.",
    width=Size(15, 0, "Columns."),
    height=Size(31, 16, "Rows."))
DataCubeChannel = register(0x401C, "DATA_CUBE_CHANNEL", "I", "Channels of the data.",
    orig_channel=Size(15, 0, "Channels that carry data."),
    channel_wdma=Size(31, 16, "The same number again, but in packed, transposed and interleaved output."))
DataFormat = register(0x4020, "DATA_FORMAT", "I?",
    "Number formats, each in four bits: 0 int8, 1 fp16, 3 and 7 raw moves of 32 and 16 bits.",
    formats=Unsigned(15, 0, "0 int8; 0x1111 fp16."),
    regroup=Unsigned(18, 16, "2 lane transpose, 3 atom transpose."),
    group=Unsigned(31, 24, "0x37 for 8-bit output, 0x33 for 16-bit.", evidence="?"))
Notch = register(0x4024, "DATA_CUBE_NOTCH_ADDR", "I?", "What the write DMA skips after each line.",
    notch_addr_0=Unsigned(15, 0, "Atoms."))
SurfaceAdd = register(0x4028, "SURFACE_ADD", "I", "What the write DMA skips after each channel group.",
    surf_add=SignedAtoms(31, 0, "Atoms from the end of one channel group to the start of the next."))
SurfLen = register(0x402C, "SURF_LEN", "I?", "Length of packed output.", surf_len=Unsigned(31, 0, "Unknown unit."))
BsCfg = register(0x4030, "BS_CFG", "I",
    "BS, the first stage; the correction before it is on where BRDMA reads its operands.",
    bs_bypass=Flag(0, "Skip the stage."),
    shifts=Flag(1, "Clear in additions of tensors; results do not need it.", evidence="?"),
    bs_alu_bypass=Flag(4, "Skip the addition."),
    bs_mul_bypass=Flag(5, "Skip the multiplication."),
    bs_alu_src=Flag(6, "Addend per channel from BRDMA."),
    bs_mul_src=Flag(7, "Multiplier per channel from BRDMA."),
    bs_alu_algo=Choice(19, 16, AluAlgorithm, "ADD where the addition works."),
    always=Flag(30, "Set in every stream.", evidence="?"))
BsAluCfg = register(0x4034, "BS_ALU_CFG", "I", "Addend of BS.", bs_alu_operand=Bits(31, 0, "int32 or fp32."))
BsMulCfg = register(0x4038, "BS_MUL_CFG", "I", "Multiplier of BS.",
    bs_mul_operand=Bits(15, 0, "int16 or fp16."),
    other=Unsigned(31, 16, "11 and 63 in softmax, else 0.", evidence="?"))
EwCfg = register(0x404C, "EW_CFG", "I",
    "EW, the second stage, which does the work of BN as well: table, then an operation, then clamp.",
    ew_bypass=Flag(0, "Skip the stage."),
    ew_alu_bypass=Flag(1, "Skip the ALU."),
    ew_mul_bypass=Flag(2, "Skip the product."),
    ew_div_bypass=Flag(3, "Skip the division."),
    ew_alu_src=Flag(4, "ALU: operand through ERDMA; 0: EW_OPERAND."),
    ew_mul_src=Flag(5, "Product: operand through ERDMA; 0: EW_OPERAND."),
    ew_div_src=Flag(6, "Division: operand through ERDMA.", evidence="?"),
    product=Flag(8, "Set in products with a tensor.", evidence="?"),
    division=Flag(9, "Set in divisions.", evidence="?"),
    ew_mul_prelu=Flag(10, "Multiply only where x < 0."),
    ew_lut_bypass=Flag(11, "Skip the lookup table."),
    always=Flag(14, "Set in every stream.", evidence="?"),
    ew_alu_algo=Choice(19, 16, EwAlgorithm, "Operation of the ALU."),
    ew_op_cvt_shift=Unsigned(25, 20, "Shift of the operand converter."),
    operands=Unsigned(31, 28, "2 with an operand tensor, else 1.", evidence="?"))
EwOperand = register(0x4050, "EW_OPERAND", "I",
    "Operand of EW from a register: fp32, or an int16 multiplier (the slope of LeakyReLU).",
    ew_operand=Bits(31, 0, "The number."))
WdmaSize = register(0x407C, "WDMA_SIZE", "I", "Counters of the write DMA.",
    width_wdma=Size(15, 0, "W."),
    height_wdma=Size(31, 16, "H."))
BsShift = register(0x4080, "BS_SHIFT", "I", "Shifts of BS.",
    bs_mul_shift_value=Unsigned(5, 0, "Shift where the product is not negative."),
    bs_mul_shift_value_neg=Unsigned(13, 8, "Shift where the product is negative."))
EwCvtScaleValue = register(0x4088, "EW_CVT_SCALE_VALUE", "I",
    "Operand converter: (e + offset) * scale >> EW_CFG.ew_op_cvt_shift.",
    ew_op_cvt_scale=Signed(15, 0, "Scale."),
    ew_op_cvt_offset=Signed(31, 16, "Offset."))
OutCvtOffset = register(0x408C, "OUT_CVT_OFFSET", "I", "Offset of the output converter: the zero point of the output.",
    out_cvt_offset=Signed(31, 0, "Offset."))
OutCvt = register(0x4090, "OUT_CVT", "I", "Scale and shift of the output converter.",
    out_cvt_scale=Signed(15, 0, "Scale."),
    out_cvt_shift=Unsigned(21, 16, "Shift."),
    other=Unsigned(31, 22, "0x100 where a maximum is taken.", evidence="?"))
Packing = register(0x4070, "PACKING", "I?", "How packed output is cut.",
    kept=Unsigned(3, 0, "Bytes of the last atom of each surface that are kept; 0: all.", evidence="I"),
    other=Unsigned(15, 4, "1 in convolutions, 0x90 in packed output.", evidence="?"))
OffsetPend = register(0x4078, "OFFSET_PEND", "I",
    "What channels without data become: 0xfbff, the smallest fp16, before a maximum.",
    offset_pend=Bits(15, 0, "The number."))


CLAMPS = {
    "BS_LIMIT": (0x403C, 0x4040),
    "BS_CLAMP": (0x4044, 0x4048),
    "EW_LIMIT": (0x405C, 0x4060),
    "EW_CLAMP": (0x4064, 0x4068),
}

DPU = RK3588.block("DPU").derive(
    *(FeatureModeCfg, DstBaseAddr, DstSurfStride, DataCubeSize, DataCubeChannel, DataFormat, Notch, SurfaceAdd),
    *(SurfLen, BsCfg, BsAluCfg, BsMulCfg, EwCfg, EwOperand, WdmaSize, BsShift, EwCvtScaleValue, OutCvtOffset, OutCvt),
    *(Packing, OffsetPend),
    *clamps(CLAMPS),
    *registers_lut.REGISTERS,
    *unknown(0x4054, 0x4058, 0x406C, 0x4074),
    keep=["S_STATUS", "S_POINTER", "OPERATION_ENABLE", "LUT_ACCESS_CFG", "LUT_ACCESS_DATA", "LUT_INFO"],
)

# ---------------------------------------------------------------- DPU_RDMA

DataCubeRead = register(0x500C, "RDMA_DATA_CUBE_SIZE", "I", "Size of what is read.",
    width=Size(15, 0, "Columns."),
    height=Size(31, 16, "Rows."))
EwCubeRead = register(0x5010, "RDMA_EW_CUBE_SIZE", "I?", "Size of the operand of EW.",
    width=Size(15, 0, "Columns."),
    height=Size(31, 16, "Rows."))
BrdmaCfg = register(0x501C, "RDMA_BRDMA_CFG", "I",
    "Operands of BS. Four channels have their addends, then their multipliers; eight share eight byte corrections.",
    alu=Flag(0, "Read addends."),
    mul=Flag(1, "Read multipliers."),
    cpend=Flag(3, "Read corrections."))
EwSurfStride = register(0x5040, "RDMA_EW_SURF_STRIDE", "I", "Pitch of the surfaces of the operand of EW.",
    ew_surf_stride=Atoms(27, 0, "Atoms."))
EwSurfNotch = register(0x506C, "RDMA_EW_SURF_NOTCH", "I?",
    "The same as a distance from the end of one surface to the next.",
    ew_surf_notch=SignedAtoms(31, 0, "Atoms."))
RdmaFeatureModeCfg = register(0x5044, "RDMA_FEATURE_MODE_CFG", "I?", "Main data and their format.",
    flying_mode=Flag(0, "Main data come from memory."),
    converts=Flag(3, "Set in most tasks with main data.", evidence="?"),
    mrdma_disable=Flag(4, "No main data."),
    flag_8=Flag(8, "Set in the divisions of softmax.", evidence="?"),
    formats=Unsigned(31, 16, "0 int8; 1 fp16; 0x181 raw moves.", evidence="?"))
SurfNotch = register(0x504C, "RDMA_SURF_NOTCH", "I?", "What MRDMA skips after each surface.",
    surf_notch_addr=SignedAtoms(31, 0, "Atoms."))
LineNotch = register(0x5078, "RDMA_LINE_NOTCH", "I?", "What MRDMA skips after each line.",
    line_notch_addr=Unsigned(12, 0, "Atoms."))


DPU_RDMA = RK3588.block("DPU_RDMA").derive(
    *(DataCubeRead, EwCubeRead, BrdmaCfg, EwSurfStride, EwSurfNotch, RdmaFeatureModeCfg, SurfNotch, LineNotch),
    *unknown(0x507C, 0x5080),
    keep=[
        *("RDMA_S_STATUS", "RDMA_S_POINTER", "RDMA_OPERATION_ENABLE", "RDMA_DATA_CUBE_CHANNEL", "RDMA_SRC_BASE_ADDR"),
        *("RDMA_BS_BASE_ADDR", "RDMA_ERDMA_CFG", "RDMA_EW_BASE_ADDR", "RDMA_WEIGHT"),
    ],
)

RV1106B = RK3588.derive("rv1106b", CNA, DPU, DPU_RDMA, text=__doc__).without(
    "CORE", "PPU", "PPU_RDMA", "DDMA", "SDMA", "GLOBAL"
)
