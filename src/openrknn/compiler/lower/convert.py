"""Borders between int8 and fp16: one task of the DPU that reads one format and writes the other.

    int8 -> fp16   integers: (stored - zero point) * scale, as the vendor's exDataConvert does it
    fp16 -> int8   floats: real / scale + zero point, rounded and saturated when it is written, as at the end of the
                   vendor's exNorm: an int8 atom is two of fp16, so one reader has the even ones, the other the odd ones
"""

from __future__ import annotations

import math
from dataclasses import replace

from openrknn.compiler.formats import align
from openrknn.compiler.ir import Op, Quantization
from openrknn.compiler.lower.context import Lowering
from openrknn.compiler.recipes.elementwise import elementwise_task
from openrknn.compiler.recipes.finish import Finish
from openrknn.compiler.recipes.fixed_point import factor
from openrknn.compiler.recipes.stages import Stages, added, fp16_number, multiplied, scaled
from openrknn.isa import Precision
from openrknn.isa.enums import CombineUse, OperandMode
from openrknn.task.kinds import Elementwise
from openrknn.task.place import Address, Place
from openrknn.task.rdma import Operand

_EXPONENT = 14
"""The vendor's power of two between the integers of the pipe and the numbers that are written."""
_STEPS = 32
"""Units of the pipe for one step of int8, at least: rounding to them must not show."""
_LARGEST_FP16_POWER = 15
_RATIO = 2
"""Bytes of fp16 for one of int8."""


def lower_convert(low: Lowering, op: Op) -> None:
    """One task; the channels of an int8 atom are two atoms in fp16.

    Every fp16 map has room for whole pairs, and windows start at one: mixed graphs are normalised for int8.
    """
    source, target = low.quantization(op.inputs[0]), low.quantization(op.output)
    step = low.step(op, "exDataConvert")
    channels, rows, columns = low.tensor(op.output).cube
    int8, fp16 = low.target.int8, low.target.fp16
    size = align(channels, int8.atom), rows, columns
    if source is not None and target is None and low.target.casts_first:
        for task in _cast(low, op, source):
            low.add_rows(step, task)
        return
    if source is not None and target is None:
        form, stages, written = int8, _to_fp16(source), align(channels, fp16.atom)
    else:
        assert target is not None
        form, stages, written = fp16, _to_int8(target), size[0]
    made = elementwise_task(form, size, low.cube(op.inputs[0]), low.cube(op.output), stages)
    made = replace(made, dpu=replace(made.dpu, real_channels=written))
    low.add_rows(step, _doubled(made) if target is None else _paired(made))


def _doubled(task: Elementwise[Address]) -> Elementwise[Address]:
    """Each atom that is read becomes two."""
    walk = task.dpu.write
    written = replace(walk, per_pixel=_RATIO, group_step_bytes=_RATIO * walk.group_step_bytes)
    return replace(task, dpu=replace(task.dpu, write=written))


def _paired(task: Elementwise[Address]) -> Elementwise[Address]:
    """Even surfaces come as the main numbers, odd ones through the reader of the second operand."""
    reader = task.reader
    assert reader.main is not None
    assert isinstance(reader.main.address, Place)
    place, pitch = reader.main.address, reader.main.surface_bytes
    main = replace(reader.main, surface_bytes=_RATIO * pitch)
    other = replace(main, address=Place(place.tensor, place.offset + pitch))
    return replace(task, reader=replace(
        reader, main=main, operand=Operand(OperandMode.PER_PIXEL, _RATIO, other, _RATIO * pitch),
        combine=CombineUse.ENABLE | CombineUse.MAIN,
    ))  # fmt: skip


def _cast(low: Lowering, op: Op, source: Quantization) -> list[Elementwise[Address]]:
    """The stored numbers as floats, then in place (x - zero point) * scale; the scale as two factors."""
    channels, rows, columns = low.tensor(op.output).cube
    int8, fp16 = low.target.int8, low.target.fp16
    target = low.cube(op.output)
    finish = Finish(1.0, None, flying=True)
    finish.add(-float(source.zero_point))
    finish.multiply(source.scale)
    size = align(channels, int8.atom), rows, columns
    plain = elementwise_task(int8, size, low.cube(op.inputs[0]), target, Stages(out_precision=fp16.precision))
    return [
        _doubled(replace(plain, dpu=replace(plain.dpu, real_channels=align(channels, fp16.atom)))),
        elementwise_task(fp16, (channels, rows, columns), target, target, finish.stages),
    ]


def _to_fp16(source: Quantization) -> Stages:
    exponent = max(_EXPONENT, math.ceil(math.log2(_STEPS / source.scale)))
    multiplier, shift = factor(source.scale * 2.0**exponent)
    if shift < 0:  # steps of more than one: the multiplier has room
        shift, exponent = 0, exponent + shift
    # The vendor's streams have the offset 1 wherever integers become floats; it is not added.
    return Stages(
        norm=added(-source.zero_point, is_float=False), out_precision=Precision.FP16, offset=1, scale=multiplier,
        shift=shift, minus_exponent=exponent,
    )  # fmt: skip


def _to_int8(target: Quantization) -> Stages:
    """The factor is fp16; what is beyond its range is left to the second multiplier, a power of two."""
    gain = 1 / target.scale
    power = max(0, math.frexp(gain)[1] - _LARGEST_FP16_POWER)
    rest = scaled(fp16_number(2.0**power)) if power else None
    return Stages(
        bias=multiplied(scaled(fp16_number(gain / 2.0**power)), is_float=True),
        norm=added(float(target.zero_point), rest, is_float=True), out_precision=Precision.INT8,
    )  # fmt: skip
