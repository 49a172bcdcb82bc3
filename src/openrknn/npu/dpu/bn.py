"""BN, the second stage of the DPU: scale, then add, then shift, then clamp.  x = clamp((x * m + a) >> n)"""

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
    """Read BN's registers; None if the stage is bypassed."""
    config = registers.read(dpu_stages.BnCfg)
    mul = registers.read(dpu_stages.BnMulCfg)
    addend = constant(registers.read(dpu_stages.BnAluCfg).bn_alu_operand, precision)
    upper = constant(registers.read(dpu_stages.BnReluxCmpValue).bn_relux_cmp_dat, precision)
    negative = registers.read(dpu.DataFormat).bn_mul_shift_value_neg
    if config.bn_bypass:
        return None
    if mul.bn_truncate_src:
        raise UnknownModeError("shifts per channel are not implemented", register="BN_MUL_CFG")
    return Stage(
        adds=not config.bn_alu_bypass,
        addend=None if config.bn_alu_src else addend,
        subtracts=not config.bn_alu_bypass and subtracts(config.bn_alu_algo, "BN_CFG"),
        scaling=None
        if config.bn_mul_bypass
        else Scaling(
            operand=None if mul.bn_mul_src else multiplier(mul.bn_mul_operand, precision),
            shift=mul.bn_mul_shift_value,
            shift_negative=negative,
            negative_only=config.bn_mul_prelu,
        ),
        clamp=None if config.bn_relu_bypass else Clamp(upper if config.bn_relux_en else None),
        is_float=is_float(precision),
    )


def apply(values: Numbers, stage: Stage | None, operands: ChannelOperands) -> Numbers:
    """x = clamp((x * m + a) >> n)"""
    if stage is None:
        return values
    result = stage.shift(stage.add(stage.multiply(values, operands), operands))
    if stage.scaling is not None and stage.scaling.negative_only:
        result = np.where(values < 0, result, values)
    return stage.clamp(result) if stage.clamp else result
