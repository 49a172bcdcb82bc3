"""The lookup tables of RK3576, RV1126B and RV1103B/06B: RK3588's two tables, and four straight pieces beyond each end.

A piece has the place where it starts, the value there, and a slope. RV1106B's sigmoid shows it: each piece above the
table starts where the one before ends. The first starts at the table's own end and has no value; streams of RK3576
write all four alike. (Below the table that sigmoid has the table's first value in every piece.)
"""

from __future__ import annotations

from openrknn.isa.fields import Signed, Unsigned
from openrknn.isa.registers import Register, array, register

__all__ = ["REGISTERS"]

LutCfg = register(0x4108, "LUT_CFG", "I",
    "How the tables are used: 0x02000006 in activations, 0x00ff0000 in tasks that load tables.",
    mode=Unsigned(7, 0, "6 in activations.", evidence="?"),
    load=Unsigned(23, 16, "0xff in tasks that load tables.", evidence="?"),
    ranges=Unsigned(31, 24, "2 in activations.", evidence="?"))


class LutPlace(Register, evidence="I"):
    """Where a table starts or ends, and where the pieces beyond it start."""

    x = Signed(31, 0, "x.")


class LutScales(Register, evidence="I"):
    """Slopes of two of the four pieces beyond a table."""

    scale_0 = Signed(15, 0, "Scale.")
    scale_1 = Signed(31, 16, "Scale.")


class LutShifts(Register, evidence="I"):
    """Shifts of the slopes of the four pieces beyond a table."""

    shift_0 = Unsigned(7, 0, "Shift.")
    shift_1 = Unsigned(15, 8, "Shift.")
    shift_2 = Unsigned(23, 16, "Shift.")
    shift_3 = Unsigned(31, 24, "Shift.")


class LutValues(Register, evidence="I?"):
    """Values at the starts of two of the four pieces beyond a table; 0 in the first, which continues the table."""

    value_0 = Signed(15, 0, "Value.")
    value_1 = Signed(31, 16, "Value.")


REGISTERS: tuple[type[Register], ...] = (
    LutCfg,
    *array(LutPlace, 4, offset=0x4110, name="LUT_LE_START_"),
    *array(LutPlace, 4, offset=0x4120, name="LUT_LE_END_"),
    *array(LutPlace, 4, offset=0x4130, name="LUT_LO_START_"),
    *array(LutPlace, 4, offset=0x4140, name="LUT_LO_END_"),
    *array(LutScales, 2, offset=0x4150, name="LUT_LE_UFLOW_SCALE_"),
    *array(LutScales, 2, offset=0x4158, name="LUT_LE_OFLOW_SCALE_"),
    LutShifts.place(offset=0x4160, name="LUT_LE_UFLOW_SHIFT"),
    LutShifts.place(offset=0x4164, name="LUT_LE_OFLOW_SHIFT"),
    *array(LutScales, 2, offset=0x4168, name="LUT_LO_UFLOW_SCALE_"),
    *array(LutScales, 2, offset=0x4170, name="LUT_LO_OFLOW_SCALE_"),
    LutShifts.place(offset=0x4180, name="LUT_LO_UFLOW_SHIFT"),
    LutShifts.place(offset=0x4184, name="LUT_LO_OFLOW_SHIFT"),
    *array(LutValues, 2, offset=0x4188, name="LUT_LE_VALUE_"),
    *array(LutValues, 2, offset=0x4190, name="LUT_LO_VALUE_"),
)
