"""DPU: works on each pixel of the result of CORE, or of a tensor from memory, and writes it.

Order: accumulator or MRDMA data -> zero-point correction (CPEND) -> BS -> BN -> EW with the lookup tables -> output
converter -> regrouping or transposition -> write DMA. Integers are wide and signed; float formats work in fp32. This
file has the geometry, the formats and the write DMA; `dpu_stages` has the arithmetic, `dpu_lut` the tables.

The write DMA numbers the atoms of the result k = 0, 1, 2 ... in the order channel group, row, column, atom of the
pixel in the group, and places them with nested counters [E]:

    E = size_e_0, W = width_wdma, H = height_wdma
    e = k mod E;  t = k div E;  w = t mod W;  h = (t div W) mod H;  g = t div (W * H)
    address = dst_base_addr + 16 * (g * surf_add + h * (W + notch_addr_0) + w + e * dst_surf_stride)

A channel group is 32 channels of a convolution (2 atoms for int8, 16 channels and 2 atoms for fp16), 64 of a
depthwise one (4 atoms; 32 channels for fp16), and one atom in flying mode.
"""

from __future__ import annotations

from openrknn.chip.rk3588 import dpu_lut, dpu_stages
from openrknn.isa import common
from openrknn.isa.blocks import Block
from openrknn.isa.enums import ChannelReduction, ConvMode, OutputMode, Precision, TransposeLanes
from openrknn.isa.fields import Address, Atoms, Bits, Choice, Flag, Mask, Size, Unsigned
from openrknn.isa.registers import Register, registers_in
from openrknn.isa.words import Target

__all__ = ["DPU"]


class SStatus(common.SStatus, offset=0x4000, name="S_STATUS"):
    """State of the two executers. Read only; streams never touch it."""


class SPointer(common.SPointer, offset=0x4004, name="S_POINTER"):
    """Register groups of DPU. The lookup tables are not part of a group: they stay until rewritten."""


class OperationEnable(common.OperationEnable, offset=0x4008, name="OPERATION_ENABLE"):
    """Starts this block alone. Streams use the enable word instead."""


class FeatureModeCfg(Register, offset=0x400C, name="FEATURE_MODE_CFG", evidence="TE"):
    """Where data come from and go to, and in which form."""

    flying_mode = Flag(0, "0: data come from CORE; 1: from memory, through MRDMA.")
    output_mode = Mask(2, 1, OutputMode, "Where the result goes.")
    conv_mode = Choice(4, 3, ConvMode, "Kind of the convolution before.")
    burst_len = Size(8, 5, "Beats per burst. Bus only.")
    surf_len = Atoms(
        24, 9, "Length of packed output (nonalign).",
        notes="In atoms: a reduced vector has ceil(bytes / 16). The manual says units of 8 bytes.",
    )
    nonalign = Flag(25, "Packed output: what rgp_type leaves of each atom, back to back.")
    rgp_type = Unsigned(
        29, 26, "Packed output keeps this much of each atom: 0 all, then 4, 8, 16, 32, 64 bits for 1 to 5.",
        notes="2 and 3 were seen in streams; 3 is established.",
    )
    tp_en = Flag(
        30, "Atom transpose: the atoms are not regrouped, so that counters with E = 8 turn [c1][pixel] into "
        "[pixel][c1]."
    )
    comb_use = Flag(31, "Set with CombineUse.MAIN in DPU_RDMA.")


class DataFormat(Register, offset=0x4010, name="DATA_FORMAT", evidence="TE"):
    """Number formats, and the shifts for negative values."""

    proc_precision = Choice(2, 0, Precision, "Number format of the arithmetic.")
    mc_surf_out = Flag(3, "Write two or four surfaces in a series.", evidence="T")
    bs_mul_shift_value_neg = Unsigned(9, 4, "BS shift where the product is negative.")
    bn_mul_shift_value_neg = Unsigned(15, 10, "BN shift where the sum is negative.")
    ew_truncate_neg = Unsigned(25, 16, "EW shift where the product is negative.", evidence="T")
    in_precision = Choice(28, 26, Precision, "Number format of the input; the same as in DPU_RDMA.")
    out_precision = Choice(
        31, 29, Precision, "Number format of the output.",
        notes="INT16 out of a float pipe rounds to the nearest integer: softmax's exponent trick. As the result of an "
        "int8 convolution it made an RK3588 board time out. INT16 on both sides of a float pipe leaves the 16 bits as "
        "they are: fp16 (the divisions of a square root).",
    )


class OffsetPend(Register, offset=0x4014, name="OFFSET_PEND", evidence="TE"):
    """What channels beyond `orig_channel` are set to, inside the last atom that is written."""

    offset_pend = Bits(15, 0, "The value: 0, or 0xfbff (-65504 as fp16) before a maximum over channels.")
    sign = Unsigned(31, 16, "The sign of a negative int16, again and again; results do not need it.", evidence="?")


class DstBaseAddr(Register, offset=0x4020, name="DST_BASE_ADDR", evidence="TE"):
    """Where the result goes. Relocated by the loader."""

    dst_base_addr = Address(31, 0, "Address of the first atom; a multiple of 16.")


class DstSurfStride(Register, offset=0x4024, name="DST_SURF_STRIDE", evidence="TE"):
    """Step of counter e of the write DMA."""

    dst_surf_stride = Atoms(31, 4, "Atoms from one atom of a pixel to the next.")


class DataCubeWidth(Register, offset=0x4030, name="DATA_CUBE_WIDTH", evidence="TE"):
    """Width of the data. May be stale in short delta tasks: CNA or DPU_RDMA have the real size."""

    width = Size(12, 0, "Columns.")


class DataCubeHeight(Register, offset=0x4034, name="DATA_CUBE_HEIGHT", evidence="TE"):
    """Height of the data (may be stale, like the width), and the reduction over channels."""

    height = Size(12, 0, "Rows.")
    minmax_ctl = Mask(
        24, 22, ChannelReduction, "Reduce all channels of each pixel to one element, packed (nonalign)."
    )


class DataCubeNotchAddr(Register, offset=0x4038, name="DATA_CUBE_NOTCH_ADDR", evidence="TE"):
    """What the write DMA skips after each line."""

    notch_addr_0 = Unsigned(12, 0, "Atoms to skip, modulo 2^13: lines may overlap, and the later one wins.")
    notch_addr_1 = Unsigned(28, 16, "The same number again.")


class DataCubeChannel(Register, offset=0x403C, name="DATA_CUBE_CHANNEL", evidence="TE"):
    """Channels of the data."""

    channel = Size(12, 0, "Channels that are processed.")
    orig_channel = Size(
        28, 16, "Channels that carry data; the rest of the last atom becomes OFFSET_PEND.",
        notes="Atoms wholly beyond it must not be written in the depthwise case: the buffer ends before them.",
    )


class WdmaSize0(Register, offset=0x4058, name="WDMA_SIZE_0", evidence="TE"):
    """Channels of the write DMA."""

    channel_wdma = Size(12, 0, "Channels to write; follows from the counters.")
    size_c_wdma = Unsigned(26, 16, "Set in copies and transposes; results do not need it.")
    tp_precision = Choice(27, 27, TransposeLanes, "Lane width of BS_OW_CFG.tp_org_en.")


class WdmaSize1(Register, offset=0x405C, name="WDMA_SIZE_1", evidence="TE"):
    """Counters w and h of the write DMA."""

    width_wdma = Size(12, 0, "W.")
    height_wdma = Size(28, 16, "H.")


class SurfaceAdd(Register, offset=0x40C0, name="SURFACE_ADD", evidence="TE"):
    """Step of counter g of the write DMA."""

    surf_add = Atoms(31, 4, "Atoms from one channel group to the next.")


class Unknown40C4(common.Unknown, offset=0x40C4, name="UNKNOWN_40C4"):
    """Written as 0 by every task; in no description of the chip."""


DPU = Block(
    "DPU",
    Target.DPU,
    0x4000,
    (*registers_in(globals()), *registers_in(vars(dpu_stages)), *registers_in(vars(dpu_lut))),
    enable_bit=3,
    text=__doc__,
)
