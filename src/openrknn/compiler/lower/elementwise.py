"""Element by element on the DPU: activations of their own, two operands, copies, repeated pixels."""

from __future__ import annotations

import math

import numpy as np

from openrknn.compiler.errors import UnsupportedOperatorError
from openrknn.compiler.formats import align
from openrknn.compiler.forms import Activation, Binary, Repeat
from openrknn.compiler.ir import Op, Quantization
from openrknn.compiler.lower.context import Lowering
from openrknn.compiler.lower.convolution import apply_activation
from openrknn.compiler.lower.guard import guard_tasks
from openrknn.compiler.lower.pointwise import scratch
from openrknn.compiler.lower.wide import is_wide, scale_task, wide_tensor
from openrknn.compiler.program import Place, Step, Task
from openrknn.compiler.quantise.ranges import quantization_for
from openrknn.compiler.recipes.elementwise import Cube, elementwise_task, repeat_task
from openrknn.compiler.recipes.finish import Finish
from openrknn.compiler.tile import parts
from openrknn.isa.enums import EwAlgorithm, EwOperation
from openrknn.task.kinds import Elementwise
from openrknn.task.place import Address

_ALGORITHMS = {
    "add": EwAlgorithm.ADD, "sub": EwAlgorithm.ADD, "max": EwAlgorithm.MAX, "min": EwAlgorithm.MIN,
    "div": EwAlgorithm.DIV,
}  # fmt: skip
_MOST_CHANNELS = 8192
_MANY_SURFACES = 4
"""Per core: one more or less does not matter then."""
_TYPES = {"relu": "Relu", "clip": "Clip", "leaky": "LeakyRelu", "prelu": "PRelu", "silu": "exSwish"}


def lower_activation(low: Lowering, op: Op) -> None:
    """A function of one number where no convolution comes before it."""
    source, target = low.quantization(op.inputs[0]), low.quantization(op.output)
    activation, table = op.get(Activation), low.functions.get(op.output)
    function = activation.function
    step = low.step(op, _TYPES.get(function, function.capitalize()))
    finish = Finish(source.scale if source else 1.0, target, flying=True)
    if table is None:
        finish.subtract_zero_point(source)
        if source is not None and function in {"relu", "clip"}:
            finish.widen()
    else:
        step.table = table.key
    largest = max(abs(source.low), abs(source.high)) if source else 0.0
    channels = low.tensor(op.output).cube[0]
    apply_activation(low, op, finish, activation, largest, 0, channels)
    if table is not None and is_wide(low, op):
        written = wide_tensor(low, op.output)
        factor = written.atom_bytes // low.format.atom_bytes
        _flying(low, step, op.inputs[0], op.output, finish, Cube(written.at(), factor * written.pitch))
        low.add_rows(step, scale_task(low, written, op.output, table))
    else:
        _flying(low, step, op.inputs[0], op.output, finish)


def lower_binary(low: Lowering, op: Op) -> None:
    """x (+ - * max min) y, y per pixel or per channel."""
    left, right = op.inputs
    binary = op.get(Binary)
    method, relu = binary.method, binary.post_relu
    if low.target.has_short_algorithms and low.format.name == "fp16" and method in {"sub", "div"}:
        left, right, method = _without_difference(low, op)
    first, target = low.quantization(left), low.quantization(op.output)
    cube = low.tensor(op.output).cube
    per_channel = binary.broadcast == "channel"
    second: Quantization | None
    if right in low.graph.constants:
        array = low.graph.constants[right]
        second = quantization_for(float(array.min()), float(array.max())) if target is not None else None
        size = (cube[0], 1, 1) if per_channel else cube
        other = low.cube(low.feature_constant(right, size, second))
    else:
        second, other = low.quantization(right), low.cube(right)
    names = [left, other.place.tensor]
    step = low.step(op, method.capitalize() + ("Relu" if relu else ""), inputs=names)
    if per_channel:
        other = _for_channels(low, op, step, other, is_negated=method == "add" and binary.method == "sub" and
                              right not in low.graph.constants)  # fmt: skip
    source = low.cube(left)
    can_swap = first is not None and second is not None and not per_channel and method in {"add", "max", "min"}
    if can_swap and first is not None and second is not None and second.scale > first.scale:
        # The operand with the larger scale is the main one, so that the other's factor stays below one.
        first, second, source, other = second, first, other, source
    if low.target.alike_operands and not per_channel and other.pitch != source.pitch and cube[0] > low.format.atom:
        other = _alike(low, op, step, cube, other, source.pitch)
    finish = Finish(first.scale if first else 1.0, target, flying=True)
    finish.subtract_zero_point(first)
    if method == "negate":
        method = "add"
        finish.multiply(-1.0)
    if binary.gain != 1.0:
        finish.multiply(binary.gain)
    if binary.offset:
        finish.add(binary.offset)
    if method == "mul":
        finish.operand(EwOperation.MUL, second, relu=relu)
    else:
        if first is not None:
            # The second operand's factor has 15 bits: where its scale is the larger one, the first gets fewer digits.
            ratio = second.scale / abs(finish.unit) if second is not None else 1.0
            finish.widen(max(0, 14 - max(0, math.frexp(ratio)[1] - 1)))
        finish.operand(_ALGORITHMS[method], second, relu=relu, negated=method == "sub")
    finish.output()
    made = elementwise_task(
        low.format, cube, source, low.cube(op.output), finish.stages, other, per_channel=per_channel
    )
    low.add_rows(step, made)


def _alike(low: Lowering, op: Op, step: Step, cube: tuple[int, int, int], other: Cube, pitch: int) -> Cube:
    """A copy of the second operand with surfaces so far apart."""
    size = low.format.surfaces(cube[0]) * pitch * low.format.atom_bytes
    made = Cube(Place(scratch(low, f"{op.output}_alike", size)), pitch)
    low.add_rows(step, elementwise_task(low.format, cube, other, made))
    return made


def _for_channels(low: Lowering, op: Op, step: Step, other: Cube, *, is_negated: bool) -> Cube:
    """One number for each channel: the reader takes them one after the other, those of a part of a map lie apart."""
    channels = low.tensor(op.output).cube[0]
    if other.pitch > 1 and channels > low.format.atom:
        other = _alike(low, op, step, (channels, 1, 1), other, 1)
    return _negated(low, op, step, other) if is_negated else other


def _negated(low: Lowering, op: Op, step: Step, other: Cube) -> Cube:
    """A copy of one number for each channel, times -1."""
    cube = (low.tensor(op.output).cube[0], 1, 1)
    size = low.format.surfaces(cube[0]) * other.pitch * low.format.atom_bytes
    made = Cube(Place(scratch(low, f"{op.output}_negated", size)), other.pitch)
    finish = Finish(1.0, None, flying=True)
    finish.multiply(-1.0)
    low.add(step, Task(elementwise_task(low.format, cube, other, made, finish.stages)))
    return made


def _without_difference(low: Lowering, op: Op) -> tuple[str, str, str]:
    """x - y as -y + x: the unit adds, but does not subtract. One y for each channel is negated before (`_negated`)."""
    left, right = op.inputs
    method = op.get(Binary).method
    if right in low.graph.constants:
        array = low.graph.constants[right].astype(np.float64)
        if method == "sub" or array.all():
            other = low.graph.add_constant(f"{op.output}_other", -array if method == "sub" else 1 / array)
            return left, other, "add" if method == "sub" else "mul"
    elif op.get(Binary).broadcast != "channel":
        return (left, right, "div") if method == "div" else (right, left, "negate")
    elif method == "sub":
        return left, right, "add"
    raise UnsupportedOperatorError(
        f"{op.name!r}: the NPU of {low.target.name} divides by tensors of the same size only; compile for "
        "int8, or cut the model before it (outputs)"
    )


def lower_repeat(low: Lowering, op: Op) -> None:
    """Nearest upsampling, one task per surface; cores share surfaces, or rows where these are few."""
    source, target = low.tensor(op.inputs[0]), low.tensor(op.output)
    channels, rows, columns = source.cube
    factors = op.get(Repeat).factors
    step = low.step(op, "Resize")

    def made(channel: int, row: int, count: int) -> Task:
        cube = Cube(source.at(channel, row), source.pitch)
        place = target.at(channel, row * factors[0])
        as_bytes = low.target.repeats_bytes
        return Task(repeat_task(low.format, count, columns, factors, cube, place, as_bytes=as_bytes))

    every = range(0, align(channels, low.format.atom), low.format.atom)
    guards = guard_tasks(low) if low.target.repeat_guards else []
    low.expect(step, len(every) + 2 * len(guards))
    for task in (*guards, *(made(channel, 0, rows) for channel in every), *guards):
        low.add(step, task)
    for cores in low.options.core_counts:
        if len(every) % cores and len(every) < _MANY_SURFACES * cores:
            bands = [[made(channel, *part) for channel in every] for part in parts(rows, 1, cores)]
        else:
            bands = [[made(channel, 0, rows) for channel in every[first : first + count]]
                     for first, count in parts(len(every), 1, cores)]  # fmt: skip
        low.share(step, cores, bands or [step.tasks])


def copy_task(low: Lowering, source: str, target: str) -> Elementwise[Address]:
    """Copy a tensor to another place."""
    return elementwise_task(low.format, low.tensor(source).cube, low.cube(source), low.cube(target))


def _flying(
    low: Lowering, step: Step, source: str, target: str, finish: Finish, written: Cube | None = None
) -> None:
    finish.output()
    cube = low.tensor(target).cube
    if cube[0] > _MOST_CHANNELS:
        raise UnsupportedOperatorError(f"{step.name}: {cube[0]} channels are more than the NPU's {_MOST_CHANNELS}")
    made = elementwise_task(low.format, cube, low.cube(source), written or low.cube(target), finish.stages)
    low.add_rows(step, made)
