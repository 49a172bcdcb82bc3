"""What the DPU does with each number, as a value: the stages that a task of the compiler sets up."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from openrknn import numerics
from openrknn.compiler.errors import UnsupportedOperatorError
from openrknn.compiler.formats import Format
from openrknn.isa import Precision
from openrknn.isa.enums import ChannelReduction, OperandKinds
from openrknn.task import dpu, ew, out_cvt, write
from openrknn.task.place import Address
from openrknn.task.stage import Clamp, Scaling, Stage

_LARGEST_FP16 = 65504.0
_NOTHING = OperandKinds(0)


def fp16_number(value: float) -> float:
    """The number of fp16 that is closest."""
    if abs(value) > _LARGEST_FP16:
        raise UnsupportedOperatorError(
            f"the number {value:g} is in the model, and fp16 ends at {_LARGEST_FP16:g}; scale it, or compile in int8"
        )
    return float(struct.unpack("<e", struct.pack("<e", value))[0])


def fp32_number(value: float) -> float:
    """The number of fp32 that is closest."""
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


@dataclass(frozen=True, slots=True)
class Stages:
    """Stages after the accumulator or the stored number; None: the stage is off."""

    correction: dpu.Correction | None = None
    bias: Stage | None = None
    norm: Stage | None = None
    element_wise: ew.Config | None = None
    bias_kinds: OperandKinds = _NOTHING
    norm_kinds: OperandKinds = _NOTHING
    norm_address: Address = 0
    scale: int = 1
    """Output converter."""
    shift: int = 0
    offset: int = 0
    minus_exponent: int = 0
    rounding: numerics.Rounding = numerics.Rounding.EVEN
    out_precision: Precision | None = None
    """None: the format that is read."""


PLAIN = Stages()


def scaled(operand: float | None, shift: int = 0, shift_negative: int | None = None, *, negative_only: bool = False
           ) -> Scaling:  # fmt: skip
    """A multiplication; None: one number per channel, from memory."""
    return Scaling(operand, shift, shift if shift_negative is None else shift_negative, negative_only)


def multiplied(scaling: Scaling | None, clamp: Clamp | None = None, *, is_float: bool) -> Stage:
    """A stage that adds nothing."""
    return Stage(addend=0, adds=False, subtracts=False, scaling=scaling, clamp=clamp, is_float=is_float)


def added(addend: float | None, scaling: Scaling | None = None, clamp: Clamp | None = None, *, is_float: bool) -> Stage:
    """A stage that adds a number, or one per channel from memory."""
    return Stage(addend=addend, adds=True, subtracts=False, scaling=scaling, clamp=clamp, is_float=is_float)


def dpu_of(
    stages: Stages, form: Format, walk: write.Config[Address], channels: int, *, flying: bool, real_channels: int,
    precision: Precision | None = None, in_precision: Precision | None = None,
) -> dpu.Config[Address]:  # fmt: skip
    """The DPU of a task; formats are those of `form` unless they are given."""
    return dpu.Config(
        flying=flying, precision=form.precision if precision is None else precision,
        in_precision=form.precision if in_precision is None else in_precision, channels=channels,
        real_channels=real_channels, pad_bits=0, reduction=ChannelReduction(0), correction=stages.correction,
        bias=stages.bias, norm=stages.norm, element_wise=stages.element_wise,
        out=out_cvt.Config(
            precision=form.precision if stages.out_precision is None else stages.out_precision, scale=stages.scale,
            shift=stages.shift, offset=stages.offset, add_first=False, rounding=stages.rounding,
            minus_exponent=stages.minus_exponent,
        ),
        write=walk,
    )  # fmt: skip
