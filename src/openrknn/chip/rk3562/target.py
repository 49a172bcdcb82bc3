"""What the compiler has to know of RK3562."""

from __future__ import annotations

from types import MappingProxyType

from openrknn.chip.rk3562.encode import encode
from openrknn.chip.rk3562.encode_stages import UNWRITTEN_DDMA
from openrknn.chip.rk3562.registers import RK3562 as REGISTERS
from openrknn.chip.target import Buffer, Target, fp16_of, int8_of
from openrknn.chips import CHIPS
from openrknn.layout.weights import WeightTiles

__all__ = ["TARGETS"]

_CHIP = CHIPS["rk3562"]

_RK3562 = Target(
    name="rk3562",
    registers=REGISTERS,
    int8=int8_of(_CHIP, group_atoms=1),
    fp16=fp16_of(_CHIP, group_atoms=1),
    buffer=Buffer(
        _CHIP, single_band_data=7,
        streamed_bytes=(16,), spread_streamed_bytes=(32, 16), keeps_weights=False,
        chunks_first=True, counts_spread=False, whole_pictures=False,
        least_streamed=2, keeps_rows=True, fills=True,
    ),
    kernel_volume=MappingProxyType({"int8": 6144, "fp16": 3072}),
    weights=WeightTiles.of_rk3562,
    depthwise_weights=WeightTiles.of_rk3562_depthwise,
    picture_weights=WeightTiles.of_rk3562_picture,
    operand_group=_CHIP.bias_group,
    encode=encode,
    pointers=frozenset({"CNA", "CORE", "DPU", "DPU_RDMA", "PPU", "PPU_RDMA"}),
    unwritten=frozenset({
        *(f"PPU.PADDING_VALUE_{number}" for number in range(5, 8)),
        *(f"PPU.UNKNOWN_{offset}" for offset in ("6060", "6064", "6068", "606C")),
        *UNWRITTEN_DDMA,
        "CORE.UNKNOWN_300C", "CORE.UNKNOWN_3010", "CORE.UNKNOWN_3014", "DPU.UNKNOWN_40C4",
    }),
    largest_pool=7,
    averages_floats=False,
    crops_columns=False,
    aligned_inputs=True,
    core_entries=False,
    casts_first=True,
)  # fmt: skip

TARGETS = {"rk3562": _RK3562}
