"""The two lookup tables of the EW stage, LE and LO, with 513 signed 16-bit entries each.

A load task enables DPU and DPU_RDMA for a 1x1x16 copy onto itself, and its stream carries 1026 table writes. Tables
are not part of the register groups: they stay until rewritten.

Lookup [S], select = index_select: x < lo_start uses LE, else LO; p = x - start; i = p >> select; f = p mod 2**select;
y = T[i] + floor((T[i + 1] - T[i]) * f / 2**select): a probe of 768 numbers on RV1103 and 16 scores of a text detector
on RK3588 have it so. Left of le_start: y = LE[0] + floor((x - le_start) * scale / 2**shift) with the underflow pair;
right of lo_end: y = LO[512] + floor((x - lo_end) * scale / 2**shift) with the overflow pair, both [I] from the part
between. Streams always have select 5, LE over -16384..0 and LO over 0..16384. Float: the BN stage scales x into that
domain, index and fraction come from the float value. Each function has one fixed table; scaling before and after
adapts it to the tensors.
"""

from __future__ import annotations

from openrknn.isa.enums import LutTable
from openrknn.isa.fields import Choice, Flag, Signed, Unsigned
from openrknn.isa.registers import Register

__all__: list[str] = []


class LutAccessCfg(Register, offset=0x4100, name="LUT_ACCESS_CFG", evidence="TE"):
    """Opens a table: 0x20000 LE and 0x30000 LO for writing from entry 0."""

    lut_addr = Unsigned(9, 0, "Entry; counts up with each access.")
    lut_table_id = Choice(16, 16, LutTable, "Table.")
    lut_access_type = Flag(17, "0 read, 1 write.")


class LutAccessData(Register, offset=0x4104, name="LUT_ACCESS_DATA", evidence="TE"):
    """Stores one entry and goes on to the next."""

    lut_access_data = Signed(
        31, 0, "Entry, -32768..32767.",
        notes="The table keeps the low 16 bits; streams hold the number with its sign extended to 32 bits.",
    )


class LutCfg(Register, offset=0x4108, name="LUT_CFG", evidence="TE"):
    """Which table serves which part of the domain. 0x68 in every activation."""

    lut_road_sel = Flag(0, "Road: first or second.", evidence="T")
    lut_expand_en = Flag(1, "Join both tables to one large one.", evidence="T")
    lut_lo_le_mux = Unsigned(3, 2, "How LO and LE share the domain; 2 in streams.")
    lut_uflow_priority = Choice(4, 4, LutTable, "Table that serves x below both.")
    lut_oflow_priority = Choice(5, 5, LutTable, "Table that serves x above both.")
    lut_hybrid_priority = Choice(6, 6, LutTable, "Table that serves x inside both.")
    lut_cal_sel = Flag(7, "With lut_expand_en: which calculation.", evidence="T")


class LutInfo(Register, offset=0x410C, name="LUT_INFO", evidence="STE"):
    """Distance of two entries."""

    lut_le_index_select = Unsigned(15, 8, "LE: two entries are 2**n apart.")
    lut_lo_index_select = Unsigned(23, 16, "LO: two entries are 2**n apart.")


class LutLeStart(Register, offset=0x4110, name="LUT_LE_START", evidence="TE"):
    """Where LE starts."""

    lut_le_start = Signed(31, 0, "First x.")


class LutLeEnd(Register, offset=0x4114, name="LUT_LE_END", evidence="TE"):
    """Where LE ends."""

    lut_le_end = Signed(31, 0, "Last x.")


class LutLoStart(Register, offset=0x4118, name="LUT_LO_START", evidence="TE"):
    """Where LO starts."""

    lut_lo_start = Signed(31, 0, "First x.")


class LutLoEnd(Register, offset=0x411C, name="LUT_LO_END", evidence="TE"):
    """Where LO ends."""

    lut_lo_end = Signed(31, 0, "Last x.")


class LutLeSlopeScale(Register, offset=0x4120, name="LUT_LE_SLOPE_SCALE", evidence="TE"):
    """Slope of LE outside its domain."""

    lut_le_slope_uflow_scale = Signed(15, 0, "Scale below.")
    lut_le_slope_oflow_scale = Signed(31, 16, "Scale above.", evidence="T")


class LutLeSlopeShift(Register, offset=0x4124, name="LUT_LE_SLOPE_SHIFT", evidence="TE"):
    """Slope of LE outside its domain."""

    lut_le_slope_uflow_shift = Unsigned(4, 0, "Shift below.")
    lut_le_slope_oflow_shift = Unsigned(9, 5, "Shift above.", evidence="T")


class LutLoSlopeScale(Register, offset=0x4128, name="LUT_LO_SLOPE_SCALE", evidence="TE"):
    """Slope of LO outside its domain."""

    lut_lo_slope_uflow_scale = Signed(15, 0, "Scale below.", evidence="T")
    lut_lo_slope_oflow_scale = Signed(31, 16, "Scale above.")


class LutLoSlopeShift(Register, offset=0x412C, name="LUT_LO_SLOPE_SHIFT", evidence="TE"):
    """Slope of LO outside its domain."""

    lut_lo_slope_uflow_shift = Unsigned(4, 0, "Shift below.", evidence="T")
    lut_lo_slope_oflow_shift = Unsigned(9, 5, "Shift above.")
