"""RK3576 and RV1126B, which has one of its cores."""

from __future__ import annotations

from openrknn.chip.facts import (
    DATA_SHEET,
    FILES,
    MHZ,
    ONE_LIST,
    SAME_GRADE,
    Cbuf,
    Chip,
    Patches,
    TaskList,
    evidence,
    slots,
)
from openrknn.chip.weight_scales import WeightScales

__all__ = ["CHIPS", "PATCHES", "VARIANTS", "WEIGHT_SCALES"]

_CBUF = Cbuf(7, 64 * 1024, "DIVISION", "data_b", pixel_numbers=4)
_RK3576 = Chip(
    name="rk3576",
    title="RK3576",
    target="RKNPU f2",
    family="rk3576",
    cores=2,
    atom_bytes=16,
    task_lists=(TaskList(1, 0), TaskList(1, 1), TaskList(2, 0), TaskList(2, 1)),
    paired_amounts=True,
    pc_task_bits=16,
    inline_zero_points=2,
    has_nbuf=True,
    bias_group=8,
    cbuf=_CBUF,
    precisions=frozenset({"int8", "int16", "fp16"}),
    hw_version=0x46495247,
    clocks=(300 * MHZ, 950 * MHZ),
    evidence=evidence(
        cbuf="inferred: rows fill four or five of seven banks of 1024 entries; the second core's begin at entry 7168",
        task_lists=f"{FILES}: the one-core list is stored once per core",
        clocks="kernel logs in public bug reports: where it boots, and the highest",
        hw_version="what runtime 2.0.0b8 takes on an emulated device: the letters FIRE, and 2 as in its target f2",
    ),
)

_RV1126B = Chip(
    name="rv1126b",
    title="RV1126B",
    target="RKNPU f3",
    family="rk3576",
    cores=1,
    atom_bytes=16,
    task_lists=ONE_LIST,
    paired_amounts=True,
    pc_task_bits=16,
    inline_zero_points=2,
    bias_group=8,
    cbuf=_CBUF,
    clocks=(800 * MHZ,),
    evidence=evidence(cbuf="as RK3576: the same streams", clocks=DATA_SHEET),
)
CHIPS = (_RK3576, _RV1126B)
VARIANTS = {"rk3576j": ("rk3576", SAME_GRADE), "rk3576m": ("rk3576", SAME_GRADE)}
PATCHES = Patches(
    image=slots(
        "DATA_SIZE0:102c CONV_CON1:100c DIVISION:1018 DMA_CON1:1090 SURF_STRIDE:1094 FEATURE_DATA_ADDR:1088 "
        "CBUF_ENTRIES:103c"
    ),
    convert=slots(
        "CVT_CON0:1048 CVT_SCALE01:104c CVT_SCALE23:1050 CVT_OFFSET0:1054 CVT_OFFSET1:1058 CVT_OFFSET2:105c "
        "CVT_OFFSET3:1060 CVT_LANES:1064 UNKNOWN_1068:1068 CORE.CLIP_TRUNCATE:3024 WEIGHT_SIZE2:1024"
    ),
    converter="rk3562",
)
WEIGHT_SCALES = WeightScales(
    bs_shift=None,
    zero_point=None,
    bn_scale=None,
    bn_shift=None,
    bs_tensor_address="DPU_RDMA.RDMA_BS_CONFIG_ADDR",
    bn_tensor_address="DPU_RDMA.RDMA_BN_CONFIG_ADDR",
    nibble_scale_address="DPU_RDMA.RDMA_BN_BASE_ADDR",
)
