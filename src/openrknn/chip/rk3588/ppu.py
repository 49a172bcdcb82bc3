"""PPU: pooling over windows of each surface.

max: padding never wins. Average int8: y = round(sum * rw * rh >> 32), the sum over the window with padding pixels at
the pad value, rw and rh the two reciprocals; input and output have one scale and zero point. Average fp16: y = sum *
rw * rh, floats of 17 bits (bias 31). Integer average pooling rounds half to even, proved on RV1103 silicon [E]. Output
address: dst_base_addr + 16 * (surface * dst_surf_stride + y * (width + notch_addr) + x). [E]
Between the operators of a multi-core list stand dummy tasks of this block, 1x1x32 pools, at which the cores meet.
"""

from __future__ import annotations

from openrknn.isa import common
from openrknn.isa.blocks import Block
from openrknn.isa.enums import PoolingMethod, Precision
from openrknn.isa.fields import Address, Atoms, Bits, Choice, Flag, Size, Unsigned
from openrknn.isa.registers import Register, registers_in
from openrknn.isa.words import Target

__all__ = ["PPU"]


class SStatus(common.SStatus, offset=0x6000, name="S_STATUS"):
    """State of the two executers. Read only; streams never touch it."""


class SPointer(common.SPointer, offset=0x6004, name="S_POINTER"):
    """Register groups of PPU."""


class OperationEnable(common.OperationEnable, offset=0x6008, name="OPERATION_ENABLE"):
    """Starts this block alone. Streams use the enable word instead."""


class DataCubeInWidth(Register, offset=0x600C, name="DATA_CUBE_IN_WIDTH", evidence="TE"):
    """Width of the input."""

    cube_in_width = Size(12, 0, "Columns.")


class DataCubeInHeight(Register, offset=0x6010, name="DATA_CUBE_IN_HEIGHT", evidence="TE"):
    """Height of the input."""

    cube_in_height = Size(12, 0, "Rows.")


class DataCubeInChannel(Register, offset=0x6014, name="DATA_CUBE_IN_CHANNEL", evidence="TE"):
    """Channels of the input."""

    cube_in_channel = Size(12, 0, "Channels.")


class DataCubeOutWidth(Register, offset=0x6018, name="DATA_CUBE_OUT_WIDTH", evidence="TE"):
    """Width of the output."""

    cube_out_width = Size(12, 0, "Columns.")


class DataCubeOutHeight(Register, offset=0x601C, name="DATA_CUBE_OUT_HEIGHT", evidence="TE"):
    """Height of the output."""

    cube_out_height = Size(12, 0, "Rows.")


class DataCubeOutChannel(Register, offset=0x6020, name="DATA_CUBE_OUT_CHANNEL", evidence="TE"):
    """Channels of the output."""

    cube_out_channel = Size(12, 0, "Channels.")


class OperationModeCfg(Register, offset=0x6024, name="OPERATION_MODE_CFG", evidence="TE"):
    """What to compute, and from where."""

    pooling_method = Choice(1, 0, PoolingMethod, "Average, maximum or minimum.")
    flying_mode = Flag(4, "0: data come straight from the DPU; 1: from memory, through PPU_RDMA (the form in streams).")
    use_cnt = Unsigned(7, 5, "Unknown.", evidence="T?")
    notch_addr = Unsigned(28, 16, "Atoms to skip after each output line.")
    index_en = Flag(30, "Also write where in its window each result came from.", evidence="T")


class PoolingKernelCfg(Register, offset=0x6034, name="POOLING_KERNEL_CFG", evidence="TE"):
    """The window."""

    kernel_width = Size(3, 0, "Columns.")
    kernel_height = Size(11, 8, "Rows.")
    kernel_stride_width = Size(19, 16, "Stride in x.")
    kernel_stride_height = Size(23, 20, "Stride in y.")


class RecipKernelWidth(Register, offset=0x6038, name="RECIP_KERNEL_WIDTH", evidence="TE"):
    """rw of the average; 0 for other methods."""

    recip_kernel_width = Bits(16, 0, "int8: 65536 / kernel width. fp16: its inverse as a 17-bit float.")


class RecipKernelHeight(Register, offset=0x603C, name="RECIP_KERNEL_HEIGHT", evidence="TE"):
    """rh of the average; 0 for other methods."""

    recip_kernel_height = Bits(16, 0, "int8: 65536 / kernel height. fp16: its inverse as a 17-bit float.")


class PoolingPaddingCfg(Register, offset=0x6040, name="POOLING_PADDING_CFG", evidence="TE"):
    """Padding. What is right and below follows from the output size; it is given where it is not 0."""

    pad_left = Unsigned(2, 0, "Columns to the left.")
    pad_top = Unsigned(6, 4, "Rows above.")
    pad_right = Unsigned(10, 8, "Columns to the right.")
    pad_bottom = Unsigned(14, 12, "Rows below.")


class PaddingValue1Cfg(Register, offset=0x6044, name="PADDING_VALUE_1_CFG", evidence="TE"):
    """Low part of the 35-bit signed pad value."""

    pad_value_0 = Bits(31, 0, "Bits 31:0.")


class PaddingValue2Cfg(Register, offset=0x6048, name="PADDING_VALUE_2_CFG", evidence="TE"):
    """High part of the pad value."""

    pad_value_1 = Bits(2, 0, "Bits 34:32; 7 for a negative value.")


class DstBaseAddr(Register, offset=0x6070, name="DST_BASE_ADDR", evidence="TE"):
    """Where the result goes. Relocated by the loader."""

    dst_base_addr = Address(31, 4, "Address of the first atom.")


class DstSurfStride(Register, offset=0x607C, name="DST_SURF_STRIDE", evidence="TE"):
    """Pitch of the output surfaces."""

    dst_surf_stride = Atoms(31, 4, "Atoms from one surface to the next.")


class DataFormat(Register, offset=0x6084, name="DATA_FORMAT", evidence="TE"):
    """Number format, and the pitch of an index output."""

    proc_precision = Choice(2, 0, Precision, "Number format.")
    dpu_flyin = Flag(3, "Data come from the DPU, and the DPU's from memory.", evidence="T")
    index_add = Atoms(31, 4, "dst_surf_stride; with index_en times the number of surfaces.")


class MiscCtrl(Register, offset=0x60DC, name="MISC_CTRL", evidence="TE"):
    """Bus and form of the output."""

    burst_len = Size(3, 0, "Beats per burst. Bus only.")
    nonalign = Flag(7, "Packed output.", evidence="T")
    mc_surf_out = Flag(8, "Several surfaces in a series.", evidence="T")
    surf_len = Unsigned(31, 16, "Length of packed output.", evidence="T")


PPU = Block("PPU", Target.PPU, 0x6000, registers_in(globals()), enable_bit=5, text=__doc__)
