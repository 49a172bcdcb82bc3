"""Estimates from the bits of fp16 numbers: one task each, which takes the bits for integers.

The exponent is the upper part of a number, so that halving the bits is nearly a root and negating them nearly a
reciprocal. The vendor's converter has the first of them for bf16.
"""

from __future__ import annotations

from openrknn.compiler.ir import Op
from openrknn.compiler.lower.context import Lowering
from openrknn.compiler.program import ELEMENTWISE, Registers, Task
from openrknn.compiler.recipes.base import merge
from openrknn.compiler.recipes.elementwise import elementwise_registers
from openrknn.compiler.recipes.finish import fp16_bits
from openrknn.isa import Precision
from openrknn.isa.enums import AluAlgorithm

__all__ = ["INVERSE_CONSTANT", "ROOT_CONSTANT", "lower_estimate"]

ROOT_CONSTANT = 0x59BB
"""The constant of fp16 with the smallest largest error: 3.5 %."""
INVERSE_CONSTANT = 0x8000
"""Powers of two are exact: 4 / x, which is a normal number for x from 2^-13 to 65504. Others are up to 12.5 % above."""
_MINUS_ONE = 0xFFFF
_INTEGERS = {"proc_precision": Precision.INT16, "in_precision": Precision.INT16}


def lower_estimate(low: Lowering, op: Op) -> None:
    """1 / sqrt(x) is ROOT_CONSTANT - bits / 2, and 4 / x is INVERSE_CONSTANT - bits, but at most 4 / `least`.

    Zeros, as in lanes that pad, are below `least` too: what is made of them stays finite.
    """
    shift, constant = (1, ROOT_CONSTANT) if op.type == "RootEstimate" else (0, INVERSE_CONSTANT)
    limit: Registers = {}
    if op.type == "InverseEstimate":
        limit = {
            "DPU.BN_CFG": {"bn_relu_bypass": 0, "bn_relux_en": 1},
            "DPU.BN_RELUX_CMP_VALUE": {"bn_relux_cmp_dat": constant - fp16_bits(op.attributes["least"])},
        }
    registers = merge({
        "DPU.DATA_FORMAT": {**_INTEGERS, "out_precision": Precision.INT16, "bs_mul_shift_value_neg": shift},
        "DPU.BS_CFG": {"bs_bypass": 0, "bs_mul_bypass": 0},
        "DPU.BS_MUL_CFG": {"bs_mul_operand": _MINUS_ONE, "bs_mul_shift_value": shift},
        "DPU.BN_CFG": {"bn_bypass": 0, "bn_alu_bypass": 0, "bn_alu_algo": AluAlgorithm.ADD},
        "DPU.BN_ALU_CFG": {"bn_alu_operand": constant},
        "DPU.OUT_CVT_SCALE": {"fp32tofp16_en": 0},
        "DPU_RDMA.RDMA_FEATURE_MODE_CFG": {**_INTEGERS, "mrdma_fp16tofp32_en": 0},
    }, limit)  # fmt: skip
    step, cube = low.step(op, "exNorm"), low.tensor(op.output).cube
    made = elementwise_registers(low.target.fp16, cube, low.cube(op.inputs[0]), low.cube(op.output), registers)
    low.add_rows(step, Task(ELEMENTWISE, made))
