"""What the compiler has to know of RK3576 and RV1126B."""

from __future__ import annotations

from types import MappingProxyType

from openrknn.chip.rk3576.encode import DATA_BANKS, ENCODERS, LIGHT_BYTES, SLOTS, UNWRITTEN, on_core
from openrknn.chip.rk3576.registers import RK3576 as REGISTERS
from openrknn.chip.target import Buffer, Target, fp16_of, int8_of
from openrknn.chips import CHIPS
from openrknn.layout.weights import WeightTiles

__all__ = ["TARGETS"]

_CHIP = CHIPS["rk3576"]


def _target(chip: str) -> Target:
    return Target(
        name=chip,
        registers=REGISTERS,
        int8=int8_of(_CHIP),
        fp16=fp16_of(_CHIP),
        buffer=Buffer(
            _CHIP, single_band_data=DATA_BANKS[-1],
            streamed_bytes=(32,), spread_streamed_bytes=(32,), keeps_weights=False, chunks_first=True,
            counts_spread=False, data_banks=DATA_BANKS, keeps_rows=True,
            light_bytes=LIGHT_BYTES,
        ),
        kernel_volume=MappingProxyType({"int8": 6144, "fp16": 3072}),
        weights=WeightTiles.of_rk3588,
        depthwise_weights=WeightTiles.of_rk3576_depthwise,
        picture_weights=WeightTiles.of_rk3576_picture,
        operand_group=_CHIP.bias_group,
        encode=ENCODERS[chip],
        pointers=frozenset({"CNA", "CORE", "DPU", "DPU_RDMA", "PPU", "PPU_RDMA"}),
        unwritten=frozenset(UNWRITTEN),
        aligned_inputs=True,
        narrow_weights=True,
        reduces_channels=False,
        largest_pool=7,
        averages_floats=False,
        repeat_guards=2,
        slots=SLOTS[chip],
        on_core=on_core,
    )  # fmt: skip


TARGETS = {name: _target(name) for name in ("rk3576", "rv1126b")}
