"""DPU_RDMA: four readers for the DPU. MRDMA main data, BRDMA and NRDMA operands per channel, ERDMA the EW operand.

Per-channel operands are stored in blocks of 8 channels; in a block the enabled kinds follow one another: 8 ALU (32
bits), 8 CPEND (16 bits), 8 MUL (16 bits). ALU + CPEND + MUL: 64 bytes per 8 channels; ALU alone 32; MUL alone 16. [E]
"""

from __future__ import annotations

from openrknn.isa import common
from openrknn.isa.blocks import Block
from openrknn.isa.enums import CombineUse, ConvMode, OperandKinds, OperandMode, PixelBits, Precision
from openrknn.isa.fields import Address, Atoms, Bits, Choice, Flag, Mask, SignedAtoms, Size, Unsigned
from openrknn.isa.registers import Register, registers_in
from openrknn.isa.words import Target

__all__ = ["DPU_RDMA"]


class SStatus(common.SStatus, offset=0x5000, name="RDMA_S_STATUS"):
    """State of the two executers. Read only; streams never touch it."""


class SPointer(common.SPointer, offset=0x5004, name="RDMA_S_POINTER"):
    """Register groups of DPU_RDMA."""


class OperationEnable(common.OperationEnable, offset=0x5008, name="RDMA_OPERATION_ENABLE"):
    """Starts this block alone. Streams use the enable word instead."""


class DataCubeWidth(Register, offset=0x500C, name="RDMA_DATA_CUBE_WIDTH", evidence="TE"):
    """Width of what is read."""

    width = Size(12, 0, "Columns.")


class DataCubeHeight(Register, offset=0x5010, name="RDMA_DATA_CUBE_HEIGHT", evidence="TE"):
    """Height of what is read."""

    height = Size(12, 0, "Rows.")
    ew_line_notch_addr = Unsigned(28, 16, "Atoms that ERDMA skips after each line.", evidence="T")


class DataCubeChannel(Register, offset=0x5014, name="RDMA_DATA_CUBE_CHANNEL", evidence="TE"):
    """Channels of what is read."""

    channel = Size(12, 0, "Channels.")


class SrcBaseAddr(Register, offset=0x5018, name="RDMA_SRC_BASE_ADDR", evidence="TE"):
    """Where the main data are (flying mode). Relocated by the loader."""

    src_base_addr = Address(31, 0, "Address.")


class BrdmaCfg(Register, offset=0x501C, name="RDMA_BRDMA_CFG", evidence="TE"):
    """Operands of BS."""

    brdma_data_use = Mask(4, 1, OperandKinds, "Kinds to read per channel.")


class BsBaseAddr(Register, offset=0x5020, name="RDMA_BS_BASE_ADDR", evidence="TE"):
    """Where the operands of BS are. Relocated by the loader."""

    bs_base_addr = Address(31, 0, "Address.")


class NrdmaCfg(Register, offset=0x5028, name="RDMA_NRDMA_CFG", evidence="TE"):
    """Operands of BN."""

    nrdma_data_use = Mask(4, 1, OperandKinds, "Kinds to read per channel; BN has no CPEND.")


class BnBaseAddr(Register, offset=0x502C, name="RDMA_BN_BASE_ADDR", evidence="TE"):
    """Where the operands of BN are. Relocated by the loader."""

    bn_base_addr = Address(31, 0, "Address.")


class ErdmaCfg(Register, offset=0x5034, name="RDMA_ERDMA_CFG", evidence="TE"):
    """The operand of EW."""

    erdma_disable = Flag(0, "No operand.")
    ov4k_bypass = Flag(1, "Do not cut bursts at 4 KiB. Bus only.")
    erdma_data_size = Choice(3, 2, PixelBits, "Element size.")
    erdma_nonalign = Flag(28, "Read packed.", evidence="T")
    erdma_surf_mode = Flag(29, "0: one surface in a series, 1: two.", evidence="T")
    erdma_data_mode = Choice(31, 30, OperandMode, "Operand per channel or per pixel.")


class EwBaseAddr(Register, offset=0x5038, name="RDMA_EW_BASE_ADDR", evidence="TE"):
    """Where the operand of EW is. Relocated by the loader."""

    ew_base_addr = Address(31, 0, "Address.")


class EwSurfStride(Register, offset=0x5040, name="RDMA_EW_SURF_STRIDE", evidence="TE"):
    """One surface of the operand. Do not use it as a pitch: see RDMA_EW_SURF_NOTCH."""

    ew_surf_stride = Atoms(
        31, 4, "Atoms of one surface; 1 per channel.", notes="Combined reading steps by two surfaces, this holds one."
    )


class FeatureModeCfg(Register, offset=0x5044, name="RDMA_FEATURE_MODE_CFG", evidence="TE"):
    """What MRDMA does, and number formats."""

    flying_mode = Flag(0, "Main data come from memory.")
    conv_mode = Choice(2, 1, ConvMode, "Kind of the convolution before.")
    mrdma_fp16tofp32_en = Flag(3, "Widen fp16 to fp32.")
    mrdma_disable = Flag(4, "No main data: set in convolutions.")
    proc_precision = Choice(7, 5, Precision, "Number format of the arithmetic.")
    comb_use = Mask(10, 8, CombineUse, "MRDMA and ERDMA read one tensor: even surfaces from SRC, odd ones from EW.")
    burst_len = Size(14, 11, "Beats per burst. Bus only.")
    in_precision = Choice(17, 15, Precision, "Number format of the input.")


class SrcDmaCfg(Register, offset=0x5048, name="RDMA_SRC_DMA_CFG", evidence="TE"):
    """Unpooling, and the notch of MRDMA.

    Unpooling repeats each atom kernel_width times along the line, and kernel_height times as counter e of the write
    DMA: nearest upsampling with dst_surf_stride and notch of one output line. Formats then only say 16-byte moves.
    """

    kernel_width = Size(2, 0, "Repeats in x.")
    kernel_height = Size(5, 3, "Repeats in y.")
    kernel_stride_width = Size(8, 6, "Stride in x.")
    kernel_stride_height = Size(11, 9, "Stride in y.")
    unpooling_en = Flag(12, "Unpool.")
    pooling_method = Flag(13, "0: average (repeat); 1: minimum or maximum.", evidence="T")
    line_notch_addr = Unsigned(31, 19, "Atoms that MRDMA skips after each line but the last: pitch = width + notch.")


class SurfNotch(Register, offset=0x504C, name="RDMA_SURF_NOTCH", evidence="TE"):
    """What MRDMA skips after each surface."""

    surf_notch_addr = SignedAtoms(31, 4, "Surface pitch = (height - 1) * line pitch + width + this.")


class PadCfg(Register, offset=0x5064, name="RDMA_PAD_CFG", evidence="T"):
    """Padding of unpooling; 0 in streams."""

    pad_left = Unsigned(2, 0, "Columns to the left.")
    pad_top = Unsigned(6, 4, "Rows above.")
    pad_value = Bits(31, 16, "Value.")


class Weight(Register, offset=0x5068, name="RDMA_WEIGHT", evidence="TE"):
    """Shares of the four readers on the bus; 1 each in streams."""

    m_weight = Unsigned(7, 0, "MRDMA.")
    b_weight = Unsigned(15, 8, "BRDMA.")
    n_weight = Unsigned(23, 16, "NRDMA.")
    e_weight = Unsigned(31, 24, "ERDMA.")


class EwSurfNotch(Register, offset=0x506C, name="RDMA_EW_SURF_NOTCH", evidence="TE"):
    """What ERDMA skips after each surface (operand per pixel)."""

    ew_surf_notch = SignedAtoms(
        31, 4, "Surface pitch = (height - 1) * (width + ew_line_notch_addr) + width + this."
    )


DPU_RDMA = Block("DPU_RDMA", Target.DPU_RDMA, 0x5000, registers_in(globals()), enable_bit=4, text=__doc__)
