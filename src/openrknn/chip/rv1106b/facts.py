"""RV1106B and RV1103B."""

from __future__ import annotations

from dataclasses import replace

from openrknn.chip.facts import Patches, slots
from openrknn.chip.rv1106.facts import RV1106, as_rv1103
from openrknn.chip.weight_scales import FieldPlace, WeightScales

__all__ = ["CHIPS", "PATCHES", "WEIGHT_SCALES"]

_RV1106B = replace(
    RV1106, name="rv1106b", title="RV1106B", target="RKNPU w1", family="rv1106b", atom_bytes=8, paired_amounts=False,
    weight_group=(8, 16), depthwise_group=8, inline_zero_points=8, cbuf=None,
)  # fmt: skip

CHIPS = (_RV1106B, as_rv1103(_RV1106B, "rv1103b", "RV1103B"))
PATCHES = Patches(
    image=slots(
        "DATA_SIZE0:101c CONV_CON3:100c DIVISION:1044 LINE_STRIDE:1090 SURF_STRIDE:1094 "
        "FEATURE_DATA_ADDR:1034 UNKNOWN_1030:1030"
    ),
    convert=slots(
        "CVT0:1050 CVT1:1054 CVT2:1058 CVT3:105c CVT_SCALE01:1060 CVT_SCALE23:1064 - - - - WEIGHT_SHAPE:1018 "
        "CVT_LANES:1100 CONV_CON1:1014"
    ),
    converter="rv1106b",
)
WEIGHT_SCALES = WeightScales(
    weight_address="CNA.WEIGHT_ADDR",
    out_scale=FieldPlace("DPU.OUT_CVT", "out_cvt_scale"),
    out_shift=FieldPlace("DPU.OUT_CVT", "out_cvt_shift"),
    bs_shift=FieldPlace("DPU.BS_SHIFT", "bs_mul_shift_value"),
    zero_point=None,
    bn_scale=None,
    bn_shift=None,
    accumulator_shift=None,
    byte_zero_points=True,
)
