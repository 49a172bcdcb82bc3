"""What the compiler has to know of RK3566 and RK3568."""

from __future__ import annotations

from types import MappingProxyType

from openrknn.chip.rk3566.encode import PADS, encode
from openrknn.chip.rk3566.registers import RK3566 as REGISTERS
from openrknn.chip.target import Buffer, Target, fp16_of, int8_of
from openrknn.chips import CHIPS
from openrknn.layout.weights import WeightTiles

__all__ = ["TARGETS"]

_CHIP = CHIPS["rk3566"]

_RK3566 = Target(
    name="rk3566",
    registers=REGISTERS,
    int8=int8_of(_CHIP),
    fp16=fp16_of(_CHIP),
    buffer=Buffer(
        _CHIP, single_band_data=7,
        streamed_bytes=(16,), spread_streamed_bytes=(32, 16),
        keeps_weights=False,
        cuts_pointwise=True, chunks_first=True, counts_spread=False, whole_pictures=False,
    ),
    kernel_volume=MappingProxyType({"int8": 6144, "fp16": 3072}),
    weights=WeightTiles.of_rk3566,
    depthwise_weights=WeightTiles.of_rk3566_depthwise,
    operand_group=_CHIP.bias_group,
    encode=encode,
    pointers=frozenset({"CNA", "CMAC", "CORE", "DPU", "DPU_RDMA", "PPU", "PPU_RDMA"}),
    unwritten=frozenset(f"PPU.PADDING_VALUE_{number}" for number in range(PADS + 1, 8)),
    largest_pool=7,
    halves_in_tasks=True,
    crops_columns=False,
    skips_columns=False,
    alike_operands=True,
    scales_tables=False,
    aligned_inputs=True,
    core_entries=False,
    has_short_algorithms=True,
    casts_first=True,
    has_softmax=False,
    turns_lanes=False,
    has_turns=False,
    repeats_bytes=False,
)  # fmt: skip

TARGETS = {"rk3566": _RK3566}
