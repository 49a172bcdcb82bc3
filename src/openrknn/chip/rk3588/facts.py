"""RK3588 and the chips with its die."""

from __future__ import annotations

from openrknn.chip.facts import (
    DEVICE_TREE,
    KERNEL,
    MHZ,
    RUNTIME,
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

_RK3588 = Chip(
    name="rk3588",
    title="RK3588",
    target="RKNPU v2",
    family="rk3588",
    cores=3,
    atom_bytes=16,
    task_lists=(
        TaskList(1, 0),
        TaskList(2, 0),
        TaskList(2, 1),
        TaskList(3, 0),
        TaskList(3, 1),
        TaskList(3, 2),
    ),
    paired_amounts=True,
    pc_task_bits=12,
    bias_group=8,
    cbuf=Cbuf(12, 32 * 1024, "CBUF_CON0", weight_field="weight_bank", pixel_numbers=16, full_group_hangs=True),
    most_kernels=8192,
    clocks=tuple(mhz * MHZ for mhz in range(300, 1001, 100)),
    hw_version=0x46495245,
    dma_bits=40,
    holds_uint8_setting=False,
    precisions=frozenset({"int8", "int16", "fp16"}),
    evidence=evidence(
        cbuf="RK3588 technical reference manual; the hang: ork-driver on a Rock 5B (OPS_REGISTRY.md, narrow N)",
        most_kernels="ork-driver on a Rock 5B: 8192 right, 16384 silently wrong; the DPU counts channels in 13 bits",
        clocks=DEVICE_TREE, hw_version=RUNTIME, dma_bits=KERNEL,
    ),
)
CHIPS = (_RK3588,)
_DIE = "the same die: device trees of its boards describe RK3588's three NPU cores (rockchip,rk3588-rknn-core)"
VARIANTS = {
    "rk3588s": ("rk3588", f"{_DIE}; three cores measured on Orange Pi 5B (airockchip/rknn-toolkit2#138)"),
    "rk3588s2": ("rk3588", _DIE),
    "rk3582": ("rk3588", "RK3588S with fewer CPU cores and no GPU; its data sheet says 5 TOPS instead of 6. The "
                         "driver says how many NPU cores a board has"),
    "rk3588j": ("rk3588", SAME_GRADE),
    "rk3588m": ("rk3588", SAME_GRADE),
}
"""Name of a variant -> the chip whose NPU it has, and the evidence."""
PATCHES = Patches(
    image=slots(
        "DATA_SIZE0:1020 CONV_CON1:100c - DMA_CON1:107c DMA_CON2:1080 FEATURE_DATA_ADDR:1070 CBUF_CON1:1044"
    ),
    convert=slots(
        "CVT_CON0:104c CVT_CON1:1050 CVT_CON2:1054 CVT_CON3:1058 CVT_CON4:105c CVT_CON5:1180 - - - "
        "CORE.CLIP_TRUNCATE:301c WEIGHT_SIZE2:1038"
    ),
    converter="rk3588",
)
WEIGHT_SCALES = WeightScales()
