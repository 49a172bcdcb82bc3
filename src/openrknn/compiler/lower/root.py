"""A first guess of 1 / sqrt(x) from the bits of an fp16 number.

Half of the exponent, negated, is the exponent of the inverse root; a subtraction of half of the bits from a constant
does that, and comes close in the mantissa too. The vendor's exNorm does it with bf16 numbers.
"""

from __future__ import annotations

from openrknn.compiler.ir import Op
from openrknn.compiler.lower.context import Lowering
from openrknn.compiler.lower.recipes.elementwise import elementwise_registers
from openrknn.compiler.program import ELEMENTWISE, Registers, Task
from openrknn.isa import Precision
from openrknn.isa.enums import AluAlgorithm

__all__ = ["GUESS", "lower_guess"]

GUESS = 0x59BB
"""The constant of fp16 with the smallest largest error: 3.5 %."""
_MINUS_ONE = 0xFFFF


def lower_guess(low: Lowering, op: Op) -> None:
    """One task that takes the bits for integers: GUESS - x / 2."""
    step = low.step(op, "exNorm")
    integers = {"proc_precision": Precision.INT16, "in_precision": Precision.INT16}
    finish: Registers = {
        "DPU.DATA_FORMAT": {**integers, "out_precision": Precision.INT16, "bs_mul_shift_value_neg": 1},
        "DPU.BS_CFG": {"bs_bypass": 0, "bs_mul_bypass": 0},
        "DPU.BS_MUL_CFG": {"bs_mul_operand": _MINUS_ONE, "bs_mul_shift_value": 1},
        "DPU.BN_CFG": {"bn_bypass": 0, "bn_alu_bypass": 0, "bn_alu_algo": AluAlgorithm.ADD},
        "DPU.BN_ALU_CFG": {"bn_alu_operand": GUESS},
        "DPU.OUT_CVT_SCALE": {"fp32tofp16_en": 0},
        "DPU_RDMA.RDMA_FEATURE_MODE_CFG": {**integers, "mrdma_fp16tofp32_en": 0},
    }
    cube = low.tensor(op.output).cube
    registers = elementwise_registers(low.target.fp16, cube, low.cube(op.inputs[0]), low.cube(op.output), finish)
    low.add_rows(step, Task(ELEMENTWISE, registers))
