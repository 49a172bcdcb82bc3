"""What the compiler has to know of RV1103 and RV1106."""

from __future__ import annotations

from types import MappingProxyType

from openrknn.chip.rk3562.encode_stages import UNWRITTEN_DDMA
from openrknn.chip.rv1106.encode import encode
from openrknn.chip.rv1106.registers import RV1106 as REGISTERS
from openrknn.chip.target import Buffer, Target, fp16_of, int8_of
from openrknn.chips import CHIPS
from openrknn.layout.weights import WeightTiles

__all__ = ["TARGETS"]

_CHIP = CHIPS["rv1106"]

_RV1106 = Target(
    name="rv1106",
    registers=REGISTERS,
    int8=int8_of(_CHIP, group_atoms=1),
    fp16=fp16_of(_CHIP, group_atoms=1),
    buffer=Buffer(
        _CHIP, single_band_data=7,
        streamed_bytes=(32, 16), spread_streamed_bytes=(32, 16), most_streamed=4, keeps_weights=False,
        chunks_first=True, counts_spread=False, whole_pictures=False,
    ),
    kernel_volume=MappingProxyType({"int8": 6144, "fp16": 3072}),
    weights=WeightTiles.of_rk3562,
    depthwise_weights=WeightTiles.of_rv1106_depthwise,
    picture_weights=WeightTiles.of_rk3562_picture,
    operand_group=_CHIP.bias_group,
    encode=encode,
    pointers=frozenset({"CNA", "CORE", "DPU", "DPU_RDMA", "PPU", "PPU_RDMA"}),
    unwritten=frozenset({
        *UNWRITTEN_DDMA,
        *(f"DPU.EW_OP_VALUE_{number}" for number in range(5, 8)),
    }),
    aligned_inputs=True,
    crops_columns=False,
    core_entries=False,
    can_mix=False,
    has_attention=False,
    has_turns=True,
    has_fp16=False,
    has_cpu=False,
    is_mini=True,
)  # fmt: skip

TARGETS = {"rv1106": _RV1106}
