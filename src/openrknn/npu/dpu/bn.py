"""BN, the second stage of the DPU: scale, then add, then shift, then clamp.  x = clamp((x * m + a) >> n)

On RK3562, RK3576 and RV1103/06 it works in the order of BS: x = clamp((x + a) * m >> n).
"""

from __future__ import annotations

from openrknn.isa import Precision, dpu, dpu_stages
from openrknn.npu.dpu import bs
from openrknn.npu.dpu.stage import Stage, StageRegisters, read_stage
from openrknn.npu.formats import Numbers
from openrknn.npu.rdma import ChannelOperands
from openrknn.npu.registers import Registers

__all__ = ["REGISTERS", "apply", "configure"]


REGISTERS = StageRegisters(
    "bn", dpu_stages.BnCfg, dpu_stages.BnMulCfg, dpu_stages.BnAluCfg, dpu_stages.BnReluxCmpValue
)


def configure(registers: Registers, precision: Precision, stage: StageRegisters = REGISTERS) -> Stage | None:
    """Read BN's registers; None if the stage is bypassed."""
    negative = registers.read(dpu.DataFormat).bn_mul_shift_value_neg
    return read_stage(registers, stage, negative, precision)


def apply(values: Numbers, stage: Stage | None, operands: ChannelOperands) -> Numbers:
    """x = clamp((x * m + a) >> n)"""
    if stage is None:
        return values
    if stage.adds_first:
        return bs.apply(values, stage, operands)
    result = stage.shift(stage.add(stage.multiply(values, operands), operands))
    return stage.clamp(result) if stage.clamp else result
