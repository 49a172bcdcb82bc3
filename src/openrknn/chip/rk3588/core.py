"""CORE: the MAC array and the accumulator.

acc[o, y, x] = sum over kernel rows, columns and channels of x * w: exact integers for int8, a wide float otherwise.
Then, in this order [E]: the zero-point correction of the DPU's CPEND operand (BS_OW_CFG), the shift of
CLIP_TRUNCATE, the BS stage of the DPU.
"""

from __future__ import annotations

from openrknn.isa import common
from openrknn.isa.blocks import Block
from openrknn.isa.enums import Precision, Rounding
from openrknn.isa.fields import Bits, Choice, Flag, Size, Unsigned
from openrknn.isa.registers import Register, registers_in
from openrknn.isa.words import Target

__all__ = ["CORE"]


class SStatus(common.SStatus, offset=0x3000, name="S_STATUS"):
    """State of the two executers. Read only; streams never touch it."""


class SPointer(common.SPointer, offset=0x3004, name="S_POINTER", evidence="TEK"):
    """Register groups of CORE. On RK3588 the driver writes it once per job, on other chips the stream does."""

    core = Unsigned(29, 28, "Core that runs the job.", evidence="K", notes="Reserved in the reference manual.")


class OperationEnable(common.OperationEnable, offset=0x3008, name="OPERATION_ENABLE"):
    """Starts this block alone. Streams use the enable word instead."""


class MacGating(Register, offset=0x300C, name="MAC_GATING", evidence="T", reset=0x0780_0800):
    """Clock gating of the MAC array. Streams never touch it."""

    slcg_op_en = Bits(26, 0, "Gating signals.")


class MiscCfg(Register, offset=0x3010, name="MISC_CFG", evidence="TE"):
    """What the array computes."""

    qd_en = Flag(
        0, "Also deliver S[y, x], the sum of the inputs over the window and the channels (depthwise: per channel).",
        notes="The DPU adds CPEND * S: weights with a zero point. Padding pixels and padding channels take part.",
    )
    dw_en = Flag(1, "Depthwise.")
    proc_precision = Choice(10, 8, Precision, "Number format.")
    soft_gating = Bits(19, 14, "Gating of the accumulator.", evidence="T")


class DataoutSize0(Register, offset=0x3014, name="DATAOUT_SIZE_0", evidence="TE"):
    """Size of the output."""

    dataout_width = Size(15, 0, "Output columns.")
    dataout_height = Size(31, 16, "Output rows.")


class DataoutSize1(Register, offset=0x3018, name="DATAOUT_SIZE_1", evidence="TE"):
    """Channels of the output."""

    dataout_channel = Size(15, 0, "Output channels.")


class ClipTruncate(Register, offset=0x301C, name="CLIP_TRUNCATE", evidence="TE"):
    """Right shift of the accumulator, after the zero-point correction and before the BS stage. 0 in vendor streams."""

    clip_truncate = Unsigned(4, 0, "Bits to shift.", notes="Mesa uses 0 and 1. Whether it rounds or floors is open.")
    round_type = Choice(6, 6, Rounding, "Rounding.", evidence="T")


class Unknown3030(common.Unknown, offset=0x3030, name="UNKNOWN_3030"):
    """Written as 0 by every convolution; in no description of the chip."""


CORE = Block("CORE", Target.CORE, 0x3000, registers_in(globals()), enable_bit=2, text=__doc__)
