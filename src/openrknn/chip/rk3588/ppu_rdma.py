"""PPU_RDMA: reads the input of the PPU. Address: base + 16 * (surface * surf_stride + y * line_stride + x). [E]"""

from __future__ import annotations

from openrknn.isa import common
from openrknn.isa.blocks import Block
from openrknn.isa.enums import PixelBits
from openrknn.isa.fields import Address, Atoms, Choice, Size
from openrknn.isa.registers import Register, registers_in
from openrknn.isa.words import Target

__all__ = ["PPU_RDMA"]


class SStatus(common.SStatus, offset=0x7000, name="RDMA_S_STATUS"):
    """State of the two executers. Read only; streams never touch it."""


class SPointer(common.SPointer, offset=0x7004, name="RDMA_S_POINTER"):
    """Register groups of PPU_RDMA."""


class OperationEnable(common.OperationEnable, offset=0x7008, name="RDMA_OPERATION_ENABLE"):
    """Starts this block alone. Streams use the enable word instead."""


class CubeInWidth(Register, offset=0x700C, name="RDMA_CUBE_IN_WIDTH", evidence="TE"):
    """Width of the input."""

    cube_in_width = Size(12, 0, "Columns.")


class CubeInHeight(Register, offset=0x7010, name="RDMA_CUBE_IN_HEIGHT", evidence="TE"):
    """Height of the input."""

    cube_in_height = Size(12, 0, "Rows.")


class CubeInChannel(Register, offset=0x7014, name="RDMA_CUBE_IN_CHANNEL", evidence="TE"):
    """Channels of the input."""

    cube_in_channel = Size(12, 0, "Channels.")


class SrcBaseAddr(Register, offset=0x701C, name="RDMA_SRC_BASE_ADDR", evidence="TE"):
    """Where the input is. Relocated by the loader."""

    src_base_addr = Address(31, 0, "Address.")


class SrcLineStride(Register, offset=0x7024, name="RDMA_SRC_LINE_STRIDE", evidence="TE"):
    """Pitch of the input lines."""

    src_line_stride = Atoms(31, 4, "Atoms from one line to the next.")


class SrcSurfStride(Register, offset=0x7028, name="RDMA_SRC_SURF_STRIDE", evidence="TE"):
    """Pitch of the input surfaces."""

    src_surf_stride = Atoms(31, 4, "Atoms from one surface to the next.")


class DataFormat(Register, offset=0x7030, name="RDMA_DATA_FORMAT", evidence="TE"):
    """Element size of the input."""

    in_precision = Choice(1, 0, PixelBits, "Element size, not a number format.")


PPU_RDMA = Block("PPU_RDMA", Target.PPU_RDMA, 0x7000, registers_in(globals()), enable_bit=6, text=__doc__)
