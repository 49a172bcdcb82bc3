"""The register map of RV1103B and RV1106B ("RKNPU w1"), as far as it is known.

Another generation: there is no CORE block (enable word 0x19 for a convolution), sizes are stored minus one, width and
height share registers, scale and shift of the output converter share one. Addresses are certain, for the loader
relocates them; sizes and converters were read off a dozen operators that RK3588 has too. The rest is raw. One command
is one unit of PC.REGISTER_AMOUNTS.
"""

from __future__ import annotations

from openrknn.isa.common import unknown
from openrknn.isa.fields import Address, Atoms, Bits, Signed, SignedAtoms, Size, Unsigned
from openrknn.isa.registers import Register
from openrknn.isa.rk3562 import PadCon0
from openrknn.isa.rk3562_dpu import Maximum, Minimum
from openrknn.isa.rk3588 import RK3588

__all__ = ["RV1106B"]

# ---------------------------------------------------------------- CNA


class WeightShape(Register, offset=0x1018, name="WEIGHT_SHAPE", evidence="I"):
    """Shape of the kernels."""

    weight_kernels = Size(13, 0, "Output channels.")
    weight_height = Size(20, 16, "Kernel rows.", evidence="I?")
    weight_width = Size(28, 24, "Kernel columns.", evidence="I?")


class DataSize0(Register, offset=0x101C, name="DATA_SIZE0", evidence="I"):
    """Size of the input."""

    datain_height = Size(15, 0, "Input rows.", evidence="I?")
    datain_width = Size(31, 16, "Input columns.", evidence="I?")


class DataSize1(Register, offset=0x1020, name="DATA_SIZE1", evidence="I"):
    """Channels of the input."""

    datain_channel_real = Size(15, 0, "Channels that carry data.")
    other_channel = Size(31, 16, "Perhaps channels of the output.", evidence="?")


class DataSize2(Register, offset=0x1024, name="DATA_SIZE2", evidence="I"):
    """Width of the output."""

    dataout_width = Size(15, 0, "Output columns.")
    weights = Unsigned(31, 16, "Something about the weights.", evidence="?")


class FeatureDataAddr(Register, offset=0x1034, name="FEATURE_DATA_ADDR", evidence="I"):
    """Where the input is. Relocated by the loader."""

    feature_base_addr = Address(31, 0, "Address.")


class WeightAddr(Register, offset=0x1038, name="WEIGHT_ADDR", evidence="I"):
    """Where the weights are. Relocated by the loader."""

    weight_addr = Address(31, 0, "Address.")


class CvtScale01(Register, offset=0x1060, name="CVT_SCALE01", evidence="I"):
    """Input converter, scales of channels 0 and 1."""

    cvt_scale0 = Signed(15, 0, "Scale 0.")
    cvt_scale1 = Signed(31, 16, "Scale 1.")


class CvtScale23(Register, offset=0x1064, name="CVT_SCALE23", evidence="I"):
    """Input converter, scales of channels 2 and 3."""

    cvt_scale2 = Signed(15, 0, "Scale 2.")
    cvt_scale3 = Signed(31, 16, "Scale 3.")


class CvtOffset(Register, offset=0x1074, name="CVT_OFFSET", evidence="I"):
    """Input converter, offset."""

    cvt_offset = Signed(31, 0, "Offset.")


class FcDataSize0(Register, offset=0x107C, name="FC_DATA_SIZE0", evidence="I"):
    """Size of what the DMA fetches."""

    dma_height = Size(15, 0, "Rows.", evidence="I?")
    dma_width = Size(31, 16, "Columns.", evidence="I?")


class FcDataSize1(Register, offset=0x1080, name="FC_DATA_SIZE1", evidence="I"):
    """Channels that the DMA fetches."""

    dma_channel = Size(15, 0, "Channels.")


class PadCon1(Register, offset=0x1088, name="PAD_CON1", evidence="I"):
    """The value of padding pixels."""

    pad_value = Bits(31, 0, "Zero point of the input.")


class LineStride(Register, offset=0x1090, name="LINE_STRIDE", evidence="I"):
    """Pitch of the input lines."""

    line_stride = Atoms(27, 0, "Atoms; for images in units of 8 bytes.")


class SurfStride(Register, offset=0x1094, name="SURF_STRIDE", evidence="I"):
    """Pitch of the input surfaces."""

    surf_stride = Atoms(27, 0, "Atoms; for images in units of 8 bytes.")


_CNA_RAW = (0x100C, 0x1010, 0x1014, 0x1028, 0x102C, 0x1030, 0x103C, 0x1040, 0x1044, 0x1048, 0x104C, 0x1050, 0x1054)

CNA = RK3588.block("CNA").derive(
    *(WeightShape, DataSize0, DataSize1, DataSize2, FeatureDataAddr, WeightAddr, CvtScale01, CvtScale23, CvtOffset),
    *(FcDataSize0, FcDataSize1, PadCon0.place(offset=0x1084, name="PAD_CON0"), PadCon1, LineStride, SurfStride),
    *unknown(*_CNA_RAW, 0x1058, 0x105C, 0x1070, 0x1078, 0x108C, 0x1100, 0x1104, 0x1184, 0x1188),
    keep=["S_STATUS", "S_POINTER", "OPERATION_ENABLE"],
)

# ---------------------------------------------------------------- DPU


class DstBaseAddr(Register, offset=0x4010, name="DST_BASE_ADDR", evidence="I"):
    """Where the result goes. Relocated by the loader."""

    dst_base_addr = Address(31, 0, "Address.")


class DstSurfStride(Register, offset=0x4014, name="DST_SURF_STRIDE", evidence="I"):
    """Pitch of the output surfaces."""

    dst_surf_stride = Atoms(27, 0, "Atoms.")


class DataCubeSize(Register, offset=0x4018, name="DATA_CUBE_SIZE", evidence="I"):
    """Size of the data."""

    size_low = Size(15, 0, "Rows or columns.")
    size_high = Size(31, 16, "Columns or rows.")


class DataCubeChannel(Register, offset=0x401C, name="DATA_CUBE_CHANNEL", evidence="I"):
    """Channels of the data."""

    channel_0 = Size(15, 0, "Channels that carry data.")
    channel_1 = Size(31, 16, "Channels.")


class WdmaSize(Register, offset=0x407C, name="WDMA_SIZE", evidence="I"):
    """Counters of the write DMA."""

    size_low = Size(15, 0, "Columns or rows.")
    size_high = Size(31, 16, "Rows or columns.")


class BsShift(Register, offset=0x4080, name="BS_SHIFT", evidence="I?"):
    """Shifts of BS: 14 in convolutions with operands."""

    bs_shift_0 = Unsigned(5, 0, "Shift.")
    bs_shift_1 = Unsigned(13, 8, "Shift.")


class EwCvtScaleValue(Register, offset=0x4088, name="EW_CVT_SCALE_VALUE", evidence="I?"):
    """Operand converter: the scale of the operand in an addition."""

    ew_op_cvt_scale = Signed(15, 0, "Scale.")
    other = Unsigned(31, 16, "Perhaps the shift.", evidence="?")


class OutCvtOffset(Register, offset=0x408C, name="OUT_CVT_OFFSET", evidence="I"):
    """Offset of the output converter: the zero point of the output."""

    out_cvt_offset = Signed(31, 0, "Offset.")


class OutCvt(Register, offset=0x4090, name="OUT_CVT", evidence="I"):
    """Scale and shift of the output converter."""

    out_cvt_scale = Signed(15, 0, "Scale.")
    out_cvt_shift = Unsigned(21, 16, "Shift.")
    other = Unsigned(31, 22, "0x100 where a maximum is taken.", evidence="?")


Clamps = tuple(
    shape.place(offset=offset + 4 * upper, name=f"CLAMP{index}_{shape.__name__.upper()}")
    for index, offset in enumerate((0x403C, 0x4044, 0x405C, 0x4064))
    for upper, shape in enumerate((Minimum, Maximum))
)

_DPU_RAW = (0x400C, 0x4020, 0x4024, 0x4028, 0x402C, 0x4030, 0x4034, 0x4038, 0x404C, 0x4050, 0x4054, 0x4058)

DPU = RK3588.block("DPU").derive(
    *(DstBaseAddr, DstSurfStride, DataCubeSize, DataCubeChannel, WdmaSize, BsShift, EwCvtScaleValue, OutCvtOffset),
    OutCvt,
    *Clamps,
    *unknown(*_DPU_RAW, 0x406C, 0x4070, 0x4074, 0x4078),
    *unknown(*range(0x4108, 0x4124, 4), *range(0x4130, 0x4198, 4)),
    keep=["S_STATUS", "S_POINTER", "OPERATION_ENABLE", "LUT_ACCESS_CFG", "LUT_ACCESS_DATA"],
)

# ---------------------------------------------------------------- DPU_RDMA


class DataCubeRead(Register, offset=0x500C, name="RDMA_DATA_CUBE_SIZE", evidence="I"):
    """Size of what is read."""

    size_low = Size(15, 0, "Rows or columns.")
    size_high = Size(31, 16, "Columns or rows.")


class EwCubeRead(Register, offset=0x5010, name="RDMA_EW_CUBE_SIZE", evidence="I?"):
    """Size of the operand of EW."""

    size_low = Size(15, 0, "Rows or columns.")
    size_high = Size(31, 16, "Columns or rows.")


class SurfNotch(Register, offset=0x504C, name="RDMA_SURF_NOTCH", evidence="I?"):
    """What MRDMA skips after each surface."""

    surf_notch_addr = SignedAtoms(31, 0, "Atoms.")


class LineNotch(Register, offset=0x5078, name="RDMA_LINE_NOTCH", evidence="I?"):
    """What MRDMA skips after each line."""

    line_notch_addr = Unsigned(12, 0, "Atoms.")


DPU_RDMA = RK3588.block("DPU_RDMA").derive(
    *(DataCubeRead, EwCubeRead, SurfNotch, LineNotch),
    *unknown(0x501C, 0x5040, 0x5044, 0x506C, 0x507C, 0x5080),
    keep=[
        *("RDMA_S_STATUS", "RDMA_S_POINTER", "RDMA_OPERATION_ENABLE", "RDMA_DATA_CUBE_CHANNEL", "RDMA_SRC_BASE_ADDR"),
        *("RDMA_BS_BASE_ADDR", "RDMA_ERDMA_CFG", "RDMA_EW_BASE_ADDR", "RDMA_WEIGHT"),
    ],
)

RV1106B = RK3588.derive(
    "rv1106b", ("rv1103b", "rv1106b"), CNA, DPU, DPU_RDMA, text=__doc__, words_per_fetch=1
).without("CORE", "PPU", "PPU_RDMA", "DDMA", "SDMA", "GLOBAL")
