"""RK3562."""

from __future__ import annotations

from openrknn.chip.facts import DEVICE_TREE, MHZ, ONE_LIST, SAME_GRADE, Cbuf, Chip, Patches, evidence, slots
from openrknn.chip.weight_scales import FieldPlace, WeightScales

__all__ = ["CHIPS", "PATCHES", "VARIANTS", "WEIGHT_SCALES"]

_RK3562 = Chip(
    name="rk3562",
    title="RK3562",
    target="RKNPU t4",
    family="rk3562",
    cores=1,
    atom_bytes=16,
    task_lists=ONE_LIST,
    paired_amounts=True,
    pc_task_bits=16,
    weight_group=(16, 32),
    depthwise_group=32,
    inline_zero_points=2,
    has_nbuf=True,
    bias_group=4,
    cbuf=Cbuf(8, 32 * 1024, "DIVISION", "data_b", pixel_numbers=4),
    hw_version=0x54524549,
    clocks=tuple(mhz * MHZ for mhz in range(300, 1001, 100)),
    evidence=evidence(
        cbuf="inferred: CBUF_CON0.data is 14 to 8 of 16 halves, and rows fill halves of 256 entries",
        clocks=DEVICE_TREE,
        hw_version="what runtime 2.0.0b8 takes on an emulated device: the letters TREE, and 4 as in its target t4",
    ),
)
CHIPS = (_RK3562,)
VARIANTS = {"rk3562j": ("rk3562", SAME_GRADE)}
PATCHES = Patches(
    image=slots(
        "DATA_SIZE0:102c CONV_CON1:100c DIVISION:1018 DMA_CON1:1090 SURF_STRIDE:1094 FEATURE_DATA_ADDR:1088 "
        "CBUF_ENTRIES:103c"
    ),
    convert=slots(
        "CVT_CON0:1048 CVT_SCALE01:104c CVT_SCALE23:1050 CVT_OFFSET0:1054 CVT_OFFSET1:1058 CVT_OFFSET2:105c "
        "CVT_OFFSET3:1060 CVT_LANES:1064 UNKNOWN_1068:1068 CORE.CLIP_TRUNCATE:3024 WEIGHT_SIZE2:1024 "
        "DCOMP_CTRL:1100 WEIGHT_SIZE1:1020"
    ),
    converter="rk3562",
)
WEIGHT_SCALES = WeightScales(bs_shift=FieldPlace("DPU.BS_CFG", "bs_mul_shift_value"))
