"""BS, the first stage of the DPU: bias, then scale per channel, then clamp.  x = clamp((x + a) * m >> n)"""

from __future__ import annotations

from openrknn.isa import Precision, dpu, dpu_stages
from openrknn.npu.dpu.stage import Stage, StageRegisters, read_stage
from openrknn.npu.formats import Numbers
from openrknn.npu.rdma import ChannelOperands
from openrknn.npu.registers import Registers

__all__ = ["REGISTERS", "apply", "configure"]


REGISTERS = StageRegisters(
    "bs", dpu_stages.BsCfg, dpu_stages.BsMulCfg, dpu_stages.BsAluCfg, dpu_stages.BsReluxCmpValue
)


def configure(registers: Registers, precision: Precision, stage: StageRegisters = REGISTERS) -> Stage | None:
    """Read BS's registers; None if the stage is bypassed."""
    negative = registers.read(dpu.DataFormat).bs_mul_shift_value_neg
    return read_stage(registers, stage, negative, precision)


def apply(values: Numbers, stage: Stage | None, operands: ChannelOperands) -> Numbers:
    """x = clamp((x + a) * m >> n)"""
    if stage is None:
        return values
    scaled = stage.shift(stage.multiply(stage.add(values, operands), operands))
    return stage.clamp(scaled) if stage.clamp else scaled
