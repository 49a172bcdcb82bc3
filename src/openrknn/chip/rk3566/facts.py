"""RK3566 and RK3568, which have one NPU."""

from __future__ import annotations

from dataclasses import replace

from openrknn.chip.facts import MHZ, ONE_LIST, RUNTIME, SAME_GRADE, Cbuf, Chip, Patches, evidence, slots
from openrknn.chip.weight_scales import WeightScales

__all__ = ["CHIPS", "PATCHES", "VARIANTS", "WEIGHT_SCALES"]

_RK3566 = Chip(
    name="rk3566",
    title="RK3566",
    target="RKNPU lite",
    family="rk3566",
    cores=1,
    atom_bytes=8,
    task_lists=ONE_LIST,
    paired_amounts=False,
    pc_task_bits=12,
    weight_group=(16, 32),
    depthwise_group=32,
    holds_uint8_setting=False,
    bias_group=4,
    cbuf=Cbuf(8, 32 * 1024, "CBUF_CON0", weight_field="weight_bank"),
    clocks=tuple(mhz * MHZ for mhz in (200, 297, 400, 600, 700, 800, 900)),
    hw_version=0,
    evidence=evidence(
        cbuf="inferred: data and weight banks of every file add up to 8, and rows fill banks of 1024 entries",
        clocks="kernel logs in public bug reports; 900 MHz on go-rknnlite's board",
        hw_version=RUNTIME,
    ),
)
CHIPS = (_RK3566, replace(_RK3566, name="rk3568", title="RK3568"))
VARIANTS = {"rk3568j": ("rk3568", SAME_GRADE)}
PATCHES = Patches(
    image=slots(
        "DATA_SIZE0:1020 CONV_CON1:100c IMAGE_SIZE:1018 DMA_CON1:107c DMA_CON2:1080 FEATURE_DATA_ADDR:1070 "
        "CBUF_CON1:1044"
    ),
    convert=slots(
        "CVT_CON0:104c CVT_CON1:1050 CVT_CON2:1054 CVT_CON3:1058 CVT_CON4:105c - - - - - WEIGHT_SIZE2:1038 "
        "DCOMP_CTRL:1100 WEIGHT_SIZE1:1034"
    ),
    converter="rk3566",
)
WEIGHT_SCALES = WeightScales(accumulator_shift=None)
