"""BS, the first stage of the DPU: bias, then scale per channel, then clamp.  x = clamp((x + a) * m >> n)"""

from __future__ import annotations

import numpy as np

from openrknn.errors import UnknownModeError
from openrknn.isa import Precision, dpu, dpu_stages
from openrknn.npu.dpu.stage import Clamp, Scaling, Stage, constant, multiplier, subtracts
from openrknn.npu.formats import Numbers, is_float
from openrknn.npu.rdma import ChannelOperands
from openrknn.npu.registers import Registers

__all__ = ["apply", "configure"]


def configure(registers: Registers, precision: Precision) -> Stage | None:
    """Read BS's registers; None if the stage is bypassed."""
    config = registers.read(dpu_stages.BsCfg)
    mul = registers.read(dpu_stages.BsMulCfg)
    addend = constant(registers.read(dpu_stages.BsAluCfg).bs_alu_operand, precision)
    upper = constant(registers.read(dpu_stages.BsReluxCmpValue).bs_relux_cmp_dat, precision)
    negative = registers.read(dpu.DataFormat).bs_mul_shift_value_neg
    if config.bs_bypass:
        return None
    if mul.bs_truncate_src:
        raise UnknownModeError("shifts per channel are not implemented", register="BS_MUL_CFG")
    return Stage(
        adds=not config.bs_alu_bypass,
        addend=None if config.bs_alu_src else addend,
        subtracts=not config.bs_alu_bypass and subtracts(config.bs_alu_algo, "BS_CFG"),
        scaling=None
        if config.bs_mul_bypass
        else Scaling(
            operand=None if mul.bs_mul_src else multiplier(mul.bs_mul_operand, precision),
            shift=mul.bs_mul_shift_value,
            shift_negative=negative,
            negative_only=config.bs_mul_prelu,
        ),
        clamp=None if config.bs_relu_bypass else Clamp(upper if config.bs_relux_en else None),
        is_float=is_float(precision),
    )


def apply(values: Numbers, stage: Stage | None, operands: ChannelOperands) -> Numbers:
    """x = clamp((x + a) * m >> n)"""
    if stage is None:
        return values
    added = stage.add(values, operands)
    scaled = stage.shift(stage.multiply(added, operands))
    if stage.scaling is not None and stage.scaling.negative_only:
        scaled = np.where(added < 0, scaled, added)
    return stage.clamp(scaled) if stage.clamp else scaled
