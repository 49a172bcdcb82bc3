"""Registers of CNA that a session writes before it runs: the size of a picture, and the converter of its pixels.

They are apart from the rest of CNA, because a process that finds its program in the cache needs no others.
"""

from __future__ import annotations

from openrknn.isa.fields import Bits, Choice, Flag, Signed, Unsigned
from openrknn.isa.registers import Register, registers_in
from openrknn.isa.rounding import Rounding

__all__ = ["BY_NAME", "CvtCon0", "CvtCon1", "CvtCon2", "CvtCon3", "CvtCon4", "CvtCon5", "DataSize0"]


class DataSize0(Register, offset=0x1020, name="DATA_SIZE0", evidence="TE"):
    """Size of the input of this task."""

    datain_height = Unsigned(10, 0, "Input rows.")
    datain_width = Unsigned(26, 16, "Input columns.")


class CvtCon0(Register, offset=0x104C, name="CVT_CON0", evidence="TE"):
    """Input converter: folds uint8 images, mean and scale into the first convolution.

    Channel c takes offset, scale and shift number c mod 4, if CVT_CON5 enables it. Type 0: v = round(x * scale >>
    shift) + offset. Type 1: v = round((x + offset) * scale >> shift). The runtime writes these registers again when an
    application sets its inputs.
    """

    cvt_bypass = Flag(0, "No conversion.")
    cvt_type = Flag(1, "0: multiply, then add; 1: add, then multiply.")
    round_type = Choice(2, 2, Rounding, "Rounding of the shift.")
    data_sign = Flag(3, "0: 8-bit input is unsigned.")
    cvt_truncate_0 = Unsigned(9, 4, "Shift 0.")
    cvt_truncate_1 = Unsigned(15, 10, "Shift 1.")
    cvt_truncate_2 = Unsigned(21, 16, "Shift 2.")
    cvt_truncate_3 = Unsigned(27, 22, "Shift 3.")


class CvtCon1(Register, offset=0x1050, name="CVT_CON1", evidence="TE"):
    """Input converter, first channel."""

    cvt_offset0 = Signed(15, 0, "Offset 0.")
    cvt_scale0 = Signed(31, 16, "Scale 0.")


class CvtCon2(Register, offset=0x1054, name="CVT_CON2", evidence="TE"):
    """Input converter, second channel."""

    cvt_offset1 = Signed(15, 0, "Offset 1.")
    cvt_scale1 = Signed(31, 16, "Scale 1.")


class CvtCon3(Register, offset=0x1058, name="CVT_CON3", evidence="TE"):
    """Input converter, third channel."""

    cvt_offset2 = Signed(15, 0, "Offset 2.")
    cvt_scale2 = Signed(31, 16, "Scale 2.")


class CvtCon4(Register, offset=0x105C, name="CVT_CON4", evidence="TE"):
    """Input converter, fourth channel."""

    cvt_offset3 = Signed(15, 0, "Offset 3.")
    cvt_scale3 = Signed(31, 16, "Scale 3.")


class CvtCon5(Register, offset=0x1180, name="CVT_CON5", evidence="TE"):
    """Which channels the input converter works on."""

    per_channel_cvt_en = Bits(31, 0, "Bit k enables the channels c with c mod 16 = k (int8). The runtime writes 0xfff.")


BY_NAME = {register.name: register for register in registers_in(globals())}
