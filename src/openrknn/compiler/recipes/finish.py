"""The second half of a task: what the DPU does with each number before it is written.

    convolution  accumulator -> BS (bias, weight scale) -> BN (activation) -> EW (table, residual) -> output converter
    flying       stored number -> BS (zero point) -> BN (activation) -> EW (table, operand) -> output converter

A `Finish` collects registers of the stages. int8 keeps everything in integers of a known unit; fp16 in real numbers.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, field

import numpy as np

from openrknn.compiler.errors import UnsupportedOperatorError
from openrknn.compiler.functions import Function
from openrknn.compiler.ir import Quantization
from openrknn.compiler.program import Place, Registers
from openrknn.compiler.recipes.base import merge
from openrknn.compiler.recipes.fixed_point import factor
from openrknn.isa.enums import AluAlgorithm, EwAlgorithm, EwOperation, OperandKinds, OperandMode, PixelBits, Precision

__all__ = ["Finish", "fp16_bits", "fp16_factors", "fp32_bits"]

_Q14 = 1 << 14
_TABLE_HALF = 1 << 14
"""The tables cover -16384 to 16384."""
_TABLE_SELECT = 5
_SAFE_BITS = 30
_FP16_STEPS = 1 << 10
"""Numbers of fp16 in an octave."""
_FP16_POWERS = 12
_LARGEST_FP16 = 65504.0


def fp16_bits(value: float) -> int:
    """How fp16 stores a number."""
    if abs(value) > _LARGEST_FP16:
        raise UnsupportedOperatorError(
            f"the number {value:g} is in the model, and fp16 ends at {_LARGEST_FP16:g}; scale it, or compile in int8"
        )
    return int(struct.unpack("<H", struct.pack("<e", value))[0])


def fp16_factors(value: float) -> tuple[float, float]:
    """Two numbers of fp16 whose product is as close as can be: one alone may be 0.02 % off, which fp16 results show."""
    mantissa, exponent = math.frexp(abs(value))  # [0.5, 1)
    if -2 * _FP16_POWERS - 2 <= exponent < -_FP16_POWERS:  # one number would be a subnormal, with few digits
        half = exponent // 2
        first, second = fp16_factors(math.ldexp(value, -exponent))
        return math.ldexp(first, half), math.ldexp(second, exponent - half)
    if not mantissa or abs(exponent) > _FP16_POWERS or np.float16(mantissa) == mantissa:
        return value, 1.0
    firsts = np.arange(_FP16_STEPS, 2 * _FP16_STEPS) / _FP16_STEPS  # [1, 2)
    seconds = (mantissa / firsts).astype(np.float16).astype(np.float64)
    best = int(np.argmin(np.abs(firsts * seconds - mantissa)))
    return math.copysign(math.ldexp(firsts[best], exponent), value), float(seconds[best])


def fp32_bits(value: float) -> int:
    """How fp32 stores a number."""
    return int(struct.unpack("<I", struct.pack("<f", value))[0])


def _signed32(value: int) -> int:
    return value & 0xFFFFFFFF


@dataclass(slots=True)
class Finish:
    """Stages of the DPU after the accumulator or the stored number."""

    unit: float
    """int8: the real value of one unit before the output converter. fp16: not used."""
    target: Quantization | None
    """None: fp16."""
    flying: bool
    registers: Registers = field(default_factory=dict)
    table: Function | None = None
    gain_bits: int = 0
    """Units were made smaller by this power of two (leaky ReLU)."""

    @property
    def is_int8(self) -> bool:
        return self.target is not None

    def set(self, name: str, **fields: int | Place) -> None:
        merge(self.registers, {name: dict(fields)})

    # -- first stage ------------------------------------------------------------------------------------------

    def convolution(self, *, corrects: bool = True) -> None:
        """Bias, and for int8 the relative scales of the weights, from memory; `corrects`: their zero points too."""
        if self.is_int8:
            self.set("DPU.BS_CFG", bs_bypass=0, bs_alu_bypass=0, bs_mul_bypass=0, bs_relu_bypass=1, bs_alu_src=1,
                     bs_alu_algo=AluAlgorithm.ADD)  # fmt: skip
            self.set("DPU.BS_MUL_CFG", bs_mul_src=1, bs_mul_shift_value=14)
            self.set("DPU.DATA_FORMAT", bs_mul_shift_value_neg=14)
            kinds = OperandKinds.ALU | OperandKinds.MUL
            if corrects:
                self.set("DPU.BS_OW_CFG", od_bypass=0, ow_src=1)
                kinds |= OperandKinds.CPEND
            self.set("DPU_RDMA.RDMA_BRDMA_CFG", brdma_data_use=kinds)
        else:
            self.set("DPU.BS_CFG", bs_bypass=0, bs_alu_bypass=0, bs_relu_bypass=1, bs_alu_src=1,
                     bs_alu_algo=AluAlgorithm.ADD)  # fmt: skip
            self.set("DPU_RDMA.RDMA_BRDMA_CFG", brdma_data_use=OperandKinds.ALU)

    def divide(self, power: int) -> None:
        """fp16: what a convolution sums up, with its bias, by a power of two."""
        self.set("DPU.BS_CFG", bs_mul_bypass=0)
        self.set("DPU.BS_MUL_CFG", bs_mul_operand=fp16_bits(2.0**-power))

    def subtract_zero_point(self, source: Quantization | None) -> None:
        """Flying int8: stored numbers to multiples of the scale."""
        if source is not None:
            self.set("DPU.BS_CFG", bs_bypass=0, bs_alu_bypass=0, bs_alu_algo=AluAlgorithm.ADD)
            self.set("DPU.BS_ALU_CFG", bs_alu_operand=_signed32(-source.zero_point))

    def multiply(self, gain: float) -> None:
        """Flying: every number times a constant."""
        if self.is_int8:
            self.unit *= gain
        else:
            first, second = fp16_factors(gain)
            self.set("DPU.BS_CFG", bs_bypass=0, bs_mul_bypass=0)
            self.set("DPU.BS_MUL_CFG", bs_mul_operand=fp16_bits(first))
            if second != 1:
                self.set("DPU.BN_CFG", bn_bypass=0, bn_mul_bypass=0)
                self.set("DPU.BN_MUL_CFG", bn_mul_operand=fp16_bits(second))

    def add(self, number: float) -> None:
        """Flying, fp16: every number plus a constant."""
        self.set("DPU.BS_CFG", bs_bypass=0, bs_alu_bypass=0, bs_alu_algo=AluAlgorithm.ADD)
        self.set("DPU.BS_ALU_CFG", bs_alu_operand=fp32_bits(number))

    def widen(self, bits: int = 14) -> None:
        """Flying int8: multiply by 2**bits, so that what follows rounds finer."""
        self.set("DPU.BS_CFG", bs_mul_bypass=0)
        self.set("DPU.BS_MUL_CFG", bs_mul_operand=1 << bits)
        self.unit /= 1 << bits

    # -- activations ------------------------------------------------------------------------------------------

    def relu(self) -> None:
        self.set("DPU.BN_CFG", bn_bypass=0, bn_relu_bypass=0)

    def clip(self, bound: float) -> None:
        """min(max(x, 0), bound)."""
        self.set("DPU.BN_CFG", bn_bypass=0, bn_relu_bypass=0, bn_relux_en=1)
        limit = round(bound / self.unit) if self.is_int8 else fp32_bits(bound)
        self.set("DPU.BN_RELUX_CMP_VALUE", bn_relux_cmp_dat=min(limit, 0x7FFFFFFF))

    def leaky(self, alpha: float | Place, largest: float) -> None:
        """x below zero times alpha, a number or one per channel in memory; `largest` is the largest |x| to expect.

        int8: the first stage shifts positive numbers by 14 bits less, so that the product with alpha (in units of
        2**-14) has the same unit. That must not overflow 32 bits.
        """
        self.set("DPU.BN_CFG", bn_bypass=0, bn_mul_bypass=0, bn_alu_bypass=1, bn_mul_prelu=1, bn_relu_bypass=1)
        if self.is_int8:
            steps = max(largest / self.unit, 1.0)
            spare = max(0, math.ceil(math.log2(steps) + 14 - _SAFE_BITS) + 1) if steps * _Q14 > 2**_SAFE_BITS else 0
            if self.flying:
                self.set("DPU.BS_CFG", bs_mul_bypass=0)
                self.set("DPU.BS_MUL_CFG", bs_mul_operand=_Q14, bs_mul_shift_value=spare)
            else:
                self.set("DPU.BS_MUL_CFG", bs_mul_shift_value=spare)
            self.set("DPU.DATA_FORMAT", bs_mul_shift_value_neg=14 + spare)
            self.unit /= 1 << (14 - spare)
        if isinstance(alpha, Place):
            self.set("DPU.BN_MUL_CFG", bn_mul_src=1)
            self.set("DPU_RDMA.RDMA_NRDMA_CFG", nrdma_data_use=OperandKinds.MUL)
            self.set("DPU_RDMA.RDMA_BN_BASE_ADDR", bn_base_addr=alpha)
        else:
            bits = round(alpha * _Q14) & 0xFFFF if self.is_int8 else fp16_bits(alpha)
            self.set("DPU.BN_MUL_CFG", bn_mul_operand=bits)

    def lookup(self, function: Function, source: Quantization | None, *, wide: bool = False) -> None:
        """f(x) by table. Afterwards one unit is 1 / function.gain; `wide`: in fp32, for another task to scale."""
        self.table = function
        units = _TABLE_HALF / function.reach
        self.set("DPU.BN_CFG", bn_bypass=0, bn_alu_bypass=0, bn_mul_bypass=0, bn_relu_bypass=1,
                 bn_alu_algo=AluAlgorithm.ADD)  # fmt: skip
        if self.is_int8:
            multiplier, shift = factor(self.unit * units)
            self.set("DPU.BN_MUL_CFG", bn_mul_operand=multiplier, bn_mul_shift_value=shift)
            self.set("DPU.DATA_FORMAT", bn_mul_shift_value_neg=shift)
            if self.flying and source is not None:
                self.set("DPU.BN_ALU_CFG", bn_alu_operand=_signed32(-source.zero_point * multiplier))
            self.unit = 1 / function.gain
        else:
            self.set("DPU.BN_MUL_CFG", bn_mul_operand=fp16_bits(units))
            if wide:
                self.set("DPU.DATA_FORMAT", out_precision=Precision.FP32)
            else:
                self.set("DPU.OUT_CVT_SHIFT", minus_exp=round(math.log2(function.gain)))
        self.set("DPU.EW_CFG", ew_bypass=0, ew_lut_bypass=0)
        self.set("DPU.LUT_CFG", lut_lo_le_mux=2, lut_oflow_priority=1, lut_hybrid_priority=1)
        self.set("DPU.LUT_INFO", lut_le_index_select=_TABLE_SELECT, lut_lo_index_select=_TABLE_SELECT)
        self.set("DPU.LUT_LE_START", lut_le_start=-_TABLE_HALF)
        self.set("DPU.LUT_LO_END", lut_lo_end=_TABLE_HALF)
        (low_scale, low_shift), (high_scale, high_shift) = function.slopes
        self.set("DPU.LUT_LE_SLOPE_SCALE", lut_le_slope_uflow_scale=low_scale)
        self.set("DPU.LUT_LE_SLOPE_SHIFT", lut_le_slope_uflow_shift=low_shift)
        self.set("DPU.LUT_LO_SLOPE_SCALE", lut_lo_slope_oflow_scale=high_scale)
        self.set("DPU.LUT_LO_SLOPE_SHIFT", lut_lo_slope_oflow_shift=high_shift)

    # -- second operands --------------------------------------------------------------------------------------

    def operand(
        self, algorithm: EwAlgorithm | EwOperation, other: Quantization | None, *, per_channel: bool, relu: bool,
        negated: bool = False,
    ) -> None:  # fmt: skip
        """x (+ max min *) the second operand; int8 operands are brought to the unit of x first."""
        is_product = isinstance(algorithm, EwOperation)
        mode = OperandMode.PER_CHANNEL if per_channel else OperandMode.PER_PIXEL
        size = PixelBits.BITS8 if self.is_int8 else PixelBits.BITS16
        self.set("DPU.EW_CFG", ew_bypass=0, ew_op_bypass=0, ew_op_src=1, ew_op_cvt_bypass=0,
                 ew_relu_bypass=int(not relu), edata_size=size, ew_data_mode=mode)  # fmt: skip
        if is_product:
            self.set("DPU.EW_CFG", ew_op_type=EwOperation.MUL)
        else:
            chosen = EwAlgorithm.MINUS if negated and not self.is_int8 else algorithm
            self.set("DPU.EW_CFG", ew_op_type=EwOperation.ALU, ew_alu_algo=chosen)
        self.set("DPU_RDMA.RDMA_ERDMA_CFG", erdma_disable=0, erdma_data_size=size, erdma_data_mode=mode)
        if other is None:
            return
        self.set("DPU.EW_CFG", ew_cvt_type=1)
        self.set("DPU.EW_CVT_OFFSET_VALUE", ew_op_cvt_offset=-other.zero_point)
        if is_product:
            self.unit *= other.scale
            return
        multiplier, shift = factor(other.scale / self.unit)
        signed = -multiplier if negated else multiplier
        self.set("DPU.EW_CVT_SCALE_VALUE", ew_op_cvt_scale=signed, ew_op_cvt_shift=shift)

    # -- the end ----------------------------------------------------------------------------------------------

    def output(self) -> Registers:
        """The output converter; all registers."""
        if self.target is not None:
            multiplier, shift = factor(self.unit / self.target.scale)
            self.set("DPU.OUT_CVT_SCALE", out_cvt_scale=multiplier)
            self.set("DPU.OUT_CVT_SHIFT", out_cvt_shift=shift)
            self.set("DPU.OUT_CVT_OFFSET", out_cvt_offset=self.target.zero_point)
        return self.registers
