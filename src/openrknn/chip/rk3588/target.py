"""What the compiler has to know of RK3588."""

from __future__ import annotations

from types import MappingProxyType

from openrknn.chip.rk3588.encode import encode
from openrknn.chip.rk3588.registers import RK3588 as REGISTERS
from openrknn.chip.target import Buffer, Target, fp16_of, int8_of
from openrknn.chips import CHIPS
from openrknn.layout.weights import WeightTiles

__all__ = ["TARGETS"]

_CHIP = CHIPS["rk3588"]

_RK3588 = Target(
    name="rk3588",
    registers=REGISTERS,
    int8=int8_of(_CHIP),
    fp16=fp16_of(_CHIP),
    buffer=Buffer(
        _CHIP, single_band_data=9,
        streamed_bytes=(64, 32, 16),
        spread_streamed_bytes=(64, 32, 16), keeps_weights=True,
    ),
    kernel_volume=MappingProxyType({"int8": 3072, "fp16": 3072}),
    weights=WeightTiles.of_rk3588,
    depthwise_weights=WeightTiles.of_rk3588_depthwise,
    operand_group=_CHIP.bias_group,
    encode=encode,
    pointers=frozenset({"DPU", "DPU_RDMA", "PPU", "PPU_RDMA"}),
    pairs_surfaces=True,
)  # fmt: skip

TARGETS = {"rk3588": _RK3588}
