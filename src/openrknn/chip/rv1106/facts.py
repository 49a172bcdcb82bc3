"""RV1106, and RV1103, its smaller package."""

from __future__ import annotations

from dataclasses import replace

from openrknn.chip.facts import DATA_SHEET, MHZ, ONE_LIST, Cbuf, Chip, Patches, evidence, slots
from openrknn.chip.rk3562.facts import WEIGHT_SCALES

__all__ = ["CHIPS", "PATCHES", "RV1106", "WEIGHT_SCALES", "as_rv1103"]

RV1106 = Chip(
    name="rv1106",
    title="RV1106",
    target="RKNPU t3",
    family="rv1106",
    cores=1,
    atom_bytes=16,
    task_lists=ONE_LIST,
    paired_amounts=True,
    pc_task_bits=16,
    weight_group=(16, 32),
    depthwise_group=32,
    inline_zero_points=1,
    raises_offsets=True,
    linked_at_zero=True,
    bias_group=4,
    cbuf=Cbuf(8, 32 * 1024, "CBUF_BANKS", entry_atoms=2, pixel_numbers=4),
    driver_nodes=("/dev/rknpu",),
    precisions=frozenset({"int8"}),
    cpu_operators=False,
    clocks=(500 * MHZ,),
    evidence=evidence(
        cbuf="inferred: rows fill banks of 1024 entries of 32 bytes, seven at most; weights have the rest of eight",
        clocks=DATA_SHEET,
    ),
)


def as_rv1103(chip: Chip, name: str, title: str) -> Chip:
    """The smaller package of the same NPU: a lower clock, read on a board (dnhkng/open-rknpu, docs/performance.md)."""
    clocks = "dnhkng/open-rknpu, docs/performance.md"
    return replace(chip, name=name, title=title, clocks=(420 * MHZ,), evidence={**chip.evidence, "clocks": clocks})


CHIPS = (RV1106, as_rv1103(RV1106, "rv1103", "RV1103"))
PATCHES = Patches(
    image=slots(
        "DATA_SIZE0:1020 CONV_CON1:100c - DMA_CON1:107c DMA_CON2:1080 FEATURE_DATA_ADDR:1070 CBUF_CON1:1044"
    ),
    convert=slots(
        "CVT_CON0:104c CVT_SCALE01:1050 CVT_SCALE23:1054 CVT_OFFSET0:1058 CVT_OFFSET1:105c CVT_OFFSET2:101c "
        "CVT_OFFSET3:106c CVT_LANES:108c UNKNOWN_1094:1094 CORE.CLIP_TRUNCATE:301c WEIGHT_SIZE2:1038 "
        "DCOMP_CTRL:1100 WEIGHT_SIZE1:1034"
    ),
    converter="rk3562",
)
