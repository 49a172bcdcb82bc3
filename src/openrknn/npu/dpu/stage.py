"""What BS and BN share: an addend, a multiplier, two shifts, a clamp. They differ in the order of add and multiply.

    BS      x = x + a;  x = x * m >> n;  x = clamp(x)
    BN      x = (x * m + a) >> n;        x = clamp(x)

n depends on the sign of what is shifted; that is how LeakyReLU gets its slope. With `negative_only` values >= 0 are not
multiplied; what follows, the shift too, is for both signs (a board reads licence plates so). Floating point: fp32 after
each step, no shift.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from openrknn import numerics
from openrknn.errors import UnknownModeError
from openrknn.isa import BitPattern, Precision, Register
from openrknn.isa.enums import AluAlgorithm, ShortAlgorithm
from openrknn.isa.ignored import Kind
from openrknn.npu.formats import Numbers, is_float
from openrknn.npu.rdma import ChannelOperands
from openrknn.npu.registers import Registers

__all__ = ["Clamp", "Scaling", "Stage", "StageRegisters", "constant", "multiplier", "read_stage"]


@dataclass(frozen=True, slots=True)
class Clamp:
    """max(x, lower), and min(x, upper) if there is an upper end; `lower` is 0 but on chips whose clamps are pairs."""

    upper: float | None
    lower: float | None = 0
    below: float | None = None
    """What values under `lower` become, if that is not `lower` itself."""

    def __call__(self, values: Numbers) -> Numbers:
        clipped = values
        if self.lower is not None:
            lower = values.dtype.type(self.lower)
            if self.below is None:
                clipped = np.maximum(values, lower)
            else:
                clipped = np.where(values < lower, values.dtype.type(self.below), values)
        return clipped if self.upper is None else np.minimum(clipped, values.dtype.type(self.upper))


@dataclass(frozen=True, slots=True)
class Scaling:
    """A multiplication; `operand` None means per channel from memory."""

    operand: float | None
    shift: int
    shift_negative: int
    negative_only: bool


@dataclass(frozen=True, slots=True)
class Stage:
    """BS or BN in natural units; parts that are bypassed are None."""

    addend: float | None
    """A number, or None: per channel from memory (if `adds`)."""
    adds: bool
    subtracts: bool
    scaling: Scaling | None
    clamp: Clamp | None
    is_float: bool
    adds_first: bool = False
    """BN of RK3562, RK3576 and RV1103/06 adds before it multiplies, as BS does."""
    takes_larger: bool = False
    """The larger of x and a in place of their sum: Max with a constant per channel on RK3566 and RV1103/06."""

    def add(self, values: Numbers, operands: ChannelOperands) -> Numbers:
        """x + a, x - a or the larger of the two."""
        if not self.adds:
            return values
        addend = _per_channel(operands.alu, values, "addends") if self.addend is None else self.addend
        number = values.dtype.type(addend) if isinstance(addend, int | float) else addend
        if self.takes_larger:
            return np.asarray(np.maximum(values, number))
        return values - number if self.subtracts else values + number

    def multiply(self, values: Numbers, operands: ChannelOperands) -> Numbers:
        """x * m, not yet shifted."""
        if self.scaling is None:
            return values
        operand = self.scaling.operand
        factor = _per_channel(operands.mul, values, "multipliers") if operand is None else values.dtype.type(operand)
        product: Numbers = values * factor
        return np.where(values < 0, product, values) if self.scaling.negative_only else product

    def shift(self, products: Numbers) -> Numbers:
        """The shift after a product or sum; floats are not shifted."""
        if self.scaling is None or self.is_float:
            return products
        scaling = self.scaling
        if scaling.shift == scaling.shift_negative:
            return numerics.shift_right(products, scaling.shift)
        return numerics.shift_right(products, np.where(products < 0, scaling.shift_negative, scaling.shift))


def _per_channel(operand: Numbers | None, values: Numbers, what: str) -> Numbers:
    if operand is None or len(operand) < len(values):
        raise UnknownModeError(f"{what} per channel are needed but not read from memory")
    return operand[: len(values), None, None]


class StageRegisters(NamedTuple):
    """The four registers of a stage; BS and BN have the same fields under two prefixes."""

    prefix: str
    config: type[Register]
    multiply: type[Register]
    addend: type[Register]
    upper: type[Register]


def read_stage(registers: Registers, stage: StageRegisters, shift_negative: int, precision: Precision) -> Stage | None:
    """Read the registers of BS or BN; None if the stage is bypassed."""

    def fields(register: type[Register]) -> dict[str, int]:
        values = registers.read(register).values()
        return {name.removeprefix(f"{stage.prefix}_"): value for name, value in values.items()}

    config, mul = fields(stage.config), fields(stage.multiply)
    addend = constant(BitPattern(fields(stage.addend)["alu_operand"]), precision)
    upper = constant(BitPattern(fields(stage.upper)["relux_cmp_dat"]), precision)
    if config["bypass"] or _is_untouched(registers, stage.config):
        return None
    if mul["truncate_src"]:
        raise UnknownModeError("shifts per channel are not implemented", register=stage.multiply.name)
    adds = not config["alu_bypass"]
    larger = adds and isinstance(config["alu_algo"], ShortAlgorithm) and config["alu_algo"] is ShortAlgorithm.MAX
    factor = multiplier(BitPattern(mul["mul_operand"]), precision)
    scaling = Scaling(
        operand=None if mul["mul_src"] else factor,
        shift=mul["mul_shift_value"],
        shift_negative=shift_negative,
        negative_only=bool(config["mul_prelu"]),
    )
    return Stage(
        adds=adds,
        addend=None if config["alu_src"] else addend,
        subtracts=adds and not larger and _subtracts(config["alu_algo"], stage.config.name),
        scaling=None if config["mul_bypass"] else scaling,
        clamp=None if config["relu_bypass"] else Clamp(upper if config["relux_en"] else None),
        is_float=is_float(precision),
        takes_larger=larger,
    )


def _is_untouched(registers: Registers, config: type[Register]) -> bool:
    """Nobody set the stage up since the reset: on a board it lets everything pass, though its reset value is 0."""
    if registers.is_written(config):
        return False
    said = UnknownModeError("it was never written, and 0 would be a stage that multiplies by 0", register=config.name)
    registers.tolerate(said, Kind.UNWRITTEN, f"DPU.{config.name}")
    return True


def constant(bits: BitPattern, precision: Precision) -> float:
    """A 32-bit operand from a register."""
    return bits.float32 if is_float(precision) else bits.int32


def multiplier(bits: BitPattern, precision: Precision) -> float:
    """A 16-bit operand from a register."""
    if precision is Precision.BF16:
        return bits.bfloat16
    return bits.float16 if is_float(precision) else bits.int16


def _subtracts(algorithm: int, register: str) -> bool:
    if algorithm not in {AluAlgorithm.ADD, AluAlgorithm.MINUS}:
        raise UnknownModeError(f"the adder is on, but its algorithm is {algorithm!r}", register=register)
    return algorithm == AluAlgorithm.MINUS
