"""The second half of a task: what the DPU does with each number before it is written.

    convolution  accumulator -> BS (bias, weight scale) -> BN (activation) -> EW (table, residual) -> output converter
    flying       stored number -> BS (zero point) -> BN (activation) -> EW (table, operand) -> output converter

A `Finish` collects the stages. int8 keeps everything in integers of a known unit; fp16 in real numbers.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, replace

import numpy as np

from openrknn import numerics
from openrknn.compiler.functions import Function
from openrknn.compiler.ir import Quantization
from openrknn.compiler.recipes.fixed_point import factor
from openrknn.compiler.recipes.stages import PLAIN, Stages, added, fp16_number, fp32_number, multiplied, scaled
from openrknn.isa.enums import EwAlgorithm, EwOperation, OperandKinds, Precision
from openrknn.task import dpu, ew, lut
from openrknn.task.place import Place
from openrknn.task.stage import Clamp, Stage

_Q14 = 1 << 14
_TABLE_HALF = 1 << 14
"""The tables cover -16384 to 16384."""
_TABLE_SELECT = 5
_SAFE_BITS = 30
_FP16_STEPS = 1 << 10
"""Numbers of fp16 in an octave."""
_FP16_POWERS = 12
_LARGEST_INT32 = 0x7FFFFFFF


def fp16_bits(value: float) -> int:
    """How fp16 stores a number."""
    return int(struct.unpack("<H", struct.pack("<e", fp16_number(value)))[0])


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


@dataclass(slots=True)
class Finish:
    """Stages of the DPU after the accumulator or the stored number."""

    unit: float
    """int8: the real value of one unit before the output converter. fp16: not used."""
    target: Quantization | None
    """None: fp16."""
    flying: bool
    stages: Stages = PLAIN
    whole: bool = False
    """Integers, also where fp16 is written (`real_output`)."""

    @property
    def is_int8(self) -> bool:
        return self.whole or self.target is not None

    def _bias(self) -> Stage:
        return self.stages.bias or multiplied(None, is_float=not self.is_int8)

    def _norm(self) -> Stage:
        return self.stages.norm or multiplied(None, is_float=not self.is_int8)

    def _set_bias(self, stage: Stage) -> None:
        self.stages = replace(self.stages, bias=stage)

    def _set_norm(self, stage: Stage) -> None:
        self.stages = replace(self.stages, norm=stage)

    # -- first stage ------------------------------------------------------------------------------------------

    def convolution(self, *, corrects: bool = True) -> None:
        """Bias, and for int8 the relative scales of the weights, from memory; `corrects`: their zero points too."""
        if not self.is_int8:
            self.stages = replace(self.stages, bias=added(None, is_float=True), bias_kinds=OperandKinds.ALU)
            return
        kinds = OperandKinds.ALU | OperandKinds.MUL
        bias = added(None, scaled(None, 14), is_float=False)
        if corrects:
            self.stages = replace(self.stages, correction=dpu.Correction(None))
            kinds |= OperandKinds.CPEND
        self.stages = replace(self.stages, bias=bias, bias_kinds=kinds)

    def divide(self, power: int) -> None:
        """fp16: what a convolution sums up, with its bias, by a power of two."""
        self._set_bias(replace(self._bias(), scaling=scaled(fp16_number(2.0**-power))))

    def subtract_zero_point(self, source: Quantization | None) -> None:
        """Flying int8: stored numbers to multiples of the scale."""
        if source is not None:
            self._set_bias(replace(self._bias(), adds=True, addend=-source.zero_point))

    def multiply(self, gain: float) -> None:
        """Flying: every number times a constant."""
        if self.is_int8:
            self.unit *= gain
            return
        first, second = fp16_factors(gain)
        self._set_bias(replace(self._bias(), scaling=scaled(fp16_number(first))))
        if second != 1:
            self._set_norm(replace(self._norm(), scaling=scaled(fp16_number(second))))

    def add(self, number: float) -> None:
        """Flying, fp16: every number plus a constant."""
        self._set_bias(replace(self._bias(), adds=True, addend=fp32_number(number)))

    def widen(self, bits: int = 14) -> None:
        """Flying int8: multiply by 2**bits, so that what follows rounds finer."""
        self._set_bias(replace(self._bias(), scaling=scaled(1 << bits)))
        self.unit /= 1 << bits

    # -- activations ------------------------------------------------------------------------------------------

    def relu(self) -> None:
        self._set_norm(replace(self._norm(), clamp=Clamp(None)))

    def clip(self, bound: float) -> None:
        """min(max(x, 0), bound)."""
        limit = min(round(bound / self.unit), _LARGEST_INT32) if self.is_int8 else fp32_number(bound)
        self._set_norm(replace(self._norm(), clamp=Clamp(limit)))

    def leaky(self, alpha: float | Place, largest: float) -> None:
        """x below zero times alpha, a number or one per channel in memory; `largest` is the largest |x| to expect.

        int8: the first stage shifts positive numbers by 14 bits less, so that the product with alpha (in units of
        2**-14) has the same unit. That must not overflow 32 bits.
        """
        if self.is_int8:
            steps = max(largest / self.unit, 1.0)
            spare = max(0, math.ceil(math.log2(steps) + 14 - _SAFE_BITS) + 1) if steps * _Q14 > 2**_SAFE_BITS else 0
            self._set_bias(replace(self._bias(), scaling=scaled(_Q14 if self.flying else None, spare, 14 + spare)))
            self.unit /= 1 << (14 - spare)
        if isinstance(alpha, Place):
            self.stages = replace(self.stages, norm_kinds=OperandKinds.MUL, norm_address=alpha)
            slope = None
        else:
            slope = round(alpha * _Q14) if self.is_int8 else fp16_number(alpha)
        self._set_norm(multiplied(scaled(slope, negative_only=True), is_float=not self.is_int8))

    def lookup(self, function: Function, source: Quantization | None, *, wide: bool = False) -> None:
        """f(x) by table. Afterwards one unit is 1 / function.gain; `wide`: in fp32, for another task to scale."""
        units = _TABLE_HALF / function.reach
        if self.is_int8:
            multiplier, shift = factor(self.unit * units)
            addend = -source.zero_point * multiplier if self.flying and source is not None else 0
            self._set_norm(added(addend, scaled(multiplier, shift), is_float=False))
            self.unit = 1 / function.gain
        else:
            self._set_norm(added(0.0, scaled(fp16_number(units)), is_float=True))
            if wide:
                self.stages = replace(self.stages, out_precision=Precision.FP32)
            else:
                self.stages = replace(self.stages, minus_exponent=round(math.log2(function.gain)))
        below, above = (lut.Slope(*slope) for slope in function.slopes)
        table = lut.Config(
            entries=np.array([function.table.low, function.table.high], np.int64), le_start=-_TABLE_HALF, lo_start=0,
            lo_end=_TABLE_HALF, le_select=_TABLE_SELECT, lo_select=_TABLE_SELECT, below=below, above=above,
        )  # fmt: skip
        self.stages = replace(self.stages, element_wise=ew.Config(table, None, None))

    def add_before_lookup(self, units: float) -> None:
        """fp16: what is looked up, plus so many units of the table."""
        self._set_norm(replace(self._norm(), addend=fp32_number(units)))

    def fold_into_upper_half(self, reach: float) -> None:
        """fp16: what is looked up is from -reach to reach, and has the table from zero on; less is -reach."""
        units = _TABLE_HALF / (2 * reach)
        middle = added(fp32_number(_TABLE_HALF / 2), scaled(fp16_number(units)), Clamp(None), is_float=True)
        self._set_norm(middle)

    # -- second operands --------------------------------------------------------------------------------------

    def operand(
        self, algorithm: EwAlgorithm | EwOperation, other: Quantization | None, *, relu: bool, negated: bool = False,
    ) -> None:  # fmt: skip
        """x (+ max min *) the second operand; int8 operands are brought to the unit of x first."""
        is_product = isinstance(algorithm, EwOperation)
        chosen = EwAlgorithm.MAX if isinstance(algorithm, EwOperation) else algorithm
        if negated and not self.is_int8:
            chosen = EwAlgorithm.MINUS
        converter = None
        if other is not None:
            multiplier, shift = (1, 0) if is_product else factor(other.scale / self.unit)
            signed = -multiplier if negated and not is_product else multiplier
            converter = ew.Converter(True, -other.zero_point, signed, shift, numerics.Rounding.EVEN)
            if is_product:
                self.unit *= other.scale
        operation = ew.Operation(
            multiplies=is_product, algorithm=chosen, operand=None, converter=converter, negative_only=False, shift=0,
            shift_negative=0,
        )  # fmt: skip
        table = self.stages.element_wise.table if self.stages.element_wise is not None else None
        made = ew.Config(table, operation, Clamp(None) if relu else None)
        self.stages = replace(self.stages, element_wise=made)

    # -- the end ----------------------------------------------------------------------------------------------

    def real_output(self) -> Stages:
        """Integers to fp16: a multiplier, and a power of two where the number is written."""
        exponent = math.ceil(-math.log2(self.unit))  # one unit is 1 to 2 steps: nothing is lost, and 32 bits are enough
        multiplier, shift = factor(self.unit * 2.0**exponent)
        self.stages = replace(
            self.stages, scale=multiplier, shift=shift, offset=1, minus_exponent=exponent, out_precision=Precision.FP16
        )
        return self.stages

    def output(self) -> Stages:
        """The output converter; all stages."""
        if self.target is not None:
            multiplier, shift = factor(self.unit / self.target.scale)
            self.stages = replace(self.stages, scale=multiplier, shift=shift, offset=self.target.zero_point)
        return self.stages
