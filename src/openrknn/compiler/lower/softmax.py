"""Softmax over channels, in fp16:  h = x/2 - max(x)/2;  r = exp(h);  e = r * r;  y = e / sum(e).

The vendor's converter has similar steps, but takes the exponential from the bits of a rounded number, which is up to
4 % wrong; here it comes from a table that is right to 2**-16. Small exponentials would have few digits left of that:
the table has their roots, which are larger. The maximum of each pixel is packed, one number after the
other; a 1x1 convolution with ones spreads it over the channels. Another one adds up, and spreads too.

Before a product with values (`is_late`) the exponentials and their sums are the results, and the product is divided: it
has fewer numbers than the scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from openrknn.compiler.formats import Format, align
from openrknn.compiler.forms import Softmax, late_gain
from openrknn.compiler.functions import SHARED_REACH, SOFTMAX_REACH, Function, shared_name
from openrknn.compiler.ir import Array, Op
from openrknn.compiler.lower.context import Lowering
from openrknn.compiler.lower.pointwise import Line, line_pixels, moved, pointwise_task, scratch, two_task
from openrknn.compiler.program import Place, Step, Task
from openrknn.compiler.recipes.convolution import Residual
from openrknn.compiler.recipes.elementwise import Cube, elementwise_task
from openrknn.compiler.recipes.finish import Finish, fp16_bits
from openrknn.compiler.recipes.stages import Stages
from openrknn.compiler.tile import shared_parts
from openrknn.container.parts import DataType
from openrknn.isa.enums import ChannelReduction, EwAlgorithm, EwOperation
from openrknn.layout.weights import pack_weights
from openrknn.numerics import Rounding

_LOWEST = 0xFBFF
"""-65504, the lowest number of fp16."""
_TABLE_UNITS = 1 << 14
_HALF = 0.5
"""Of the distance from the maximum: that of masked scores (-65504) is beyond fp16."""
_TOGETHER = 64
"""Up to so many channels, one convolution adds up and spreads: its weights are a square."""


def softmax_table() -> Function:
    """The table of the exponential: all of them are equal."""
    return Function("softmax", (), SOFTMAX_REACH, power_of_two=True)


def shared_table(function: str) -> Function:
    """The table of the exponential and of a `Gate`."""
    return Function(shared_name(function), (), SHARED_REACH, power_of_two=True)


def lower_softmax(low: Lowering, op: Op) -> None:
    """Three steps: the distance from the maximum, the table, the division (or the sums)."""
    maps, parts = _Maps(low, op), op.get(Softmax).parts
    power = maps.power.place.tensor
    step = low.step(op, "exSoftmax13", outputs=[power])
    for task in maps.guard():
        low.add(step, task)
    _add_parts(low, step, maps.pixels, parts, maps.distances)
    step = low.step(op, "Exp", inputs=[power], outputs=[power])
    step.table = low.functions[op.output].key
    _add_parts(low, step, maps.pixels, parts, maps.exponentials)
    is_late = op.get(Softmax).is_late
    step = low.step(op, "exSoftmaxDiv", inputs=[power], outputs=op.outputs[1:] if is_late else None)
    _add_parts(low, step, maps.pixels, parts, maps.sums if is_late else maps.quotients)


class _Maps:
    """What a Softmax reads and writes, and the tasks of some of its pixels."""

    def __init__(self, low: Lowering, op: Op) -> None:
        source, target = low.tensor(op.inputs[0]), low.tensor(op.output)
        self._low, self._op, self._wanted, self._form = low, op, op.get(Softmax), low.target.fp16
        self._channels, rows, columns = source.cube
        self.pixels, self._groups = rows * columns, self._wanted.groups
        self._x, self._y = (
            Line(tensor.at(), tensor.pitch, self._channels, self._form.atom_bytes) for tensor in (source, target)
        )
        # One task for spreading the maximum and the distance from it, where that is a number of fp16.
        is_bounded = self._wanted.is_bounded and low.target.reduces_channels
        self._is_direct = self._groups == 1 and (self._wanted.is_halved or is_bounded)
        self._guarded = self._x
        is_late = self._wanted.is_late
        self._spread = self._y if self._is_direct and is_late else self._room("spread")
        self.power = self._y if is_late else self._room("power")
        self._peaks = align(self.pixels, 8) * self._groups * 2

    def _room(self, name: str) -> Line:
        form, pitch, channels = self._form, align(self.pixels, 4), self._channels
        size = align(channels, form.atom) // form.atom * pitch * form.atom_bytes * (2 if channels % form.group else 1)
        return Line(
            Place(scratch(self._low, f"{self._op.output}_{name}", size)), pitch, channels, form.atom_bytes
        )

    def _lines(self, at: int, count: int) -> list[tuple[int, int]]:
        return [(at + first, some) for first, some in line_pixels(self._low.target, self._channels, count)]

    def guard(self) -> Iterator[Task]:
        """In place, unless somebody else reads what would be there then."""
        if self._channels % self._form.atom:
            name, graph = self._op.inputs[0], self._low.graph
            readers = [other for other in graph.ops if name in other.inputs]
            alone = len(readers) == 1 and name not in graph.outputs
            self._guarded = self._x if alone else self.power
            yield _guard(self._form, self._x, self._guarded, self.pixels, whole=not alone)

    def distances(self, at: int, count: int) -> Iterator[Task]:
        """Half of the distance from the maximum, or all of it (`is_bounded`)."""
        low, op, form, size = self._low, self._op, self._form, self._channels // self._groups
        room, is_direct = scratch(low, f"{op.output}_peaks", self._peaks), self._is_direct
        for group in range(self._groups):
            part, made = (
                _channels(form, line, group * size, size)
                for line in (self._guarded, self.power if is_direct else self._spread)
            )
            if not low.target.reduces_channels:
                for first, some in self._lines(at, count):
                    yield from _largest(low, op, part.at(first), made.at(first), some, is_direct=is_direct)
                continue
            factors = np.full((size, 1), -1.0 if is_direct else _HALF)
            spreading = _weights(low, f"{op.name}_spread", factors, packed=True)
            for first, some in self._lines(at, count):
                peak = Place(room, 2 * (group * align(self.pixels, 8) + first - at))
                yield _peak(form, part.at(first), some, peak)
                peaked, addend = Line(peak, 1, 1, form.atom_bytes), _as_addend(part.at(first)) if is_direct else None
                yield pointwise_task(
                    low.target, peaked, made.at(first), some, spreading, packed=True, addend=addend
                )
        for first, some in [] if is_direct else self._lines(at, count):
            x, spread, power = (line.at(first) for line in (self._guarded, self._spread, self.power))
            yield two_task(form, x, spread, power, some, EwAlgorithm.MINUS, gain=_HALF)

    def exponentials(self, at: int, count: int) -> Iterator[Task]:
        """Of half the distance, times themselves."""
        function = self._low.functions[self._op.output]
        gain = _HALF if self._is_direct and not self._wanted.is_halved else 1.0
        for first, some in self._lines(at, count):
            now = self.power.at(first)
            yield _exponential(self._low, now, some, function, gain=gain)
            yield two_task(self._form, now, now, now, some, EwOperation.MUL)

    def quotients(self, at: int, count: int) -> Iterator[Task]:
        """The exponentials by their sums."""
        for first, some in self._lines(at, count):
            power, spread, made = (line.at(first) for line in (self.power, self._spread, self._y))
            yield from _sums(self._low, self._op, power, spread, some, self._groups)
            yield two_task(self._form, power, spread, made, some, EwAlgorithm.DIV)

    def sums(self, at: int, count: int) -> Iterator[Task]:
        """One number for each pixel."""
        sums = self._low.tensor(self._op.outputs[1])
        few = Line(sums.at(), sums.pitch, 1, self._form.atom_bytes)
        ones = _weights(self._low, f"{self._op.name}_add", np.ones((1, self._channels)))
        gain, chip = late_gain(self._channels), self._low.target
        for first, some in self._lines(at, count):
            yield pointwise_task(chip, self.power.at(first), few.at(first), some, ones, gain=gain)


def _add_parts(
    low: Lowering, step: Step, pixels: int, parts: int, tasks: Callable[[int, int], Iterator[Task]]
) -> None:
    for task in tasks(0, pixels):
        low.add(step, task)
    if parts == 1:
        return
    step.follows, each = True, pixels // parts
    for cores in low.options.core_counts:
        shared = shared_parts(parts, cores)
        low.share(step, cores, [list(tasks(first * each, count * each)) if count else [] for first, count in shared])


def _channels(form: Format, line: Line, first: int, count: int) -> Line:
    place = moved(line.place, first // form.atom * line.pitch, form.atom_bytes)
    return Line(place, line.pitch, count, form.atom_bytes)


def _as_addend(line: Line) -> Residual:
    return Residual(line.place, line.pitch)


def _guard(form: Format, x: Line, target: Line, pixels: int, *, whole: bool) -> Task:
    """Lanes of the last atom that are no channels must not win: they become the lowest number."""
    rest = x.channels if whole else x.channels % form.atom
    last, made = (_channels(form, line, x.channels - rest, rest) for line in (x, target))
    size = (align(rest, form.atom), 1, pixels)
    task = elementwise_task(form, size, Cube(last.place, x.pitch), Cube(made.place, target.pitch))
    return Task(replace(task, dpu=replace(task.dpu, pad_bits=_LOWEST, real_channels=rest)))


def _peak(form: Format, x: Line, pixels: int, target: Place) -> Task:
    """The largest channel of each pixel, packed."""
    size = (align(x.channels, form.atom), 1, pixels)
    stages = Stages(rounding=Rounding.AWAY)
    task = elementwise_task(form, size, Cube(x.place, x.pitch), Cube(target, 0), stages)
    reduction = ChannelReduction.ENABLE | ChannelReduction.MAXIMUM | ChannelReduction.VALUE_ONLY
    made = replace(
        task.dpu, pad_bits=_LOWEST, real_channels=x.channels, reduction=reduction,
        write=replace(task.dpu.write, packed_bytes=form.atom_bytes),
    )  # fmt: skip
    return Task(replace(task, dpu=made))


def _largest(low: Lowering, op: Op, x: Line, target: Line, pixels: int, *, is_direct: bool) -> Iterator[Task]:
    """Half of the largest channel of each pixel in all of them, or the distance from it (direct), without a reduction:
    fp16 moves through it unchanged.

    The larger of two halves of the surfaces, until one is left; then of its lanes and the same turned by 4, 2 and 1,
    which convolutions do; one more convolution spreads the first lane.
    """
    form = low.target.fp16
    surfaces = form.surfaces(x.channels)
    pitch = align(pixels, 4)
    room = max(2, -(-surfaces // 2)) * pitch * form.atom_bytes
    buffers = [Place(scratch(low, f"{op.output}_half{number}", room)) for number in range(3)]
    now = x
    while surfaces > 1:
        half = -(-surfaces // 2)
        first, second = (_channels(form, now, skip * form.atom, half * form.atom) for skip in (0, surfaces - half))
        made = Line(buffers[0], pitch, half * form.atom, form.atom_bytes)
        yield two_task(form, first, second, made, pixels, EwAlgorithm.MAX)
        now, surfaces = made, half
        buffers = [buffers[1], buffers[0], buffers[2]]
    for shift in (4, 2, 1):
        turned, made = (Line(buffers[number], pitch, form.atom, form.atom_bytes) for number in (2, 0))
        lanes = np.roll(np.eye(form.atom), shift, axis=1)
        now = replace(now, channels=form.atom)
        yield pointwise_task(low.target, now, turned, pixels, _weights(low, f"{op.name}_turn{shift}", lanes))
        yield two_task(form, now, turned, made, pixels, EwAlgorithm.MAX)
        now = made
        buffers = [buffers[1], buffers[0], buffers[2]]
    each = np.zeros((x.channels, form.atom))
    each[:, 0] = -1.0 if is_direct else _HALF
    weights = _weights(low, f"{op.name}_each_lane", each)
    yield pointwise_task(low.target, now, target, pixels, weights, addend=_as_addend(x) if is_direct else None)


def _exponential(low: Lowering, line: Line, pixels: int, function: Function, *, gain: float) -> Task:
    finish = Finish(1.0, None, flying=True)
    if gain != 1:
        finish.multiply(gain)
    finish.lookup(function, None)
    # The shared table has the exponential below zero: e to the power of one unit less is the same for all.
    finish.add_before_lookup(float(_TABLE_UNITS) if function.name == "softmax" else -1.0)
    cube, size = Cube(line.place, line.pitch), (line.channels, 1, pixels)
    return Task(elementwise_task(low.target.fp16, size, cube, cube, finish.stages))


def _sums(low: Lowering, op: Op, power: Line, target: Line, pixels: int, groups: int) -> list[Task]:
    """The sum of each group of channels, in each of its channels; 1 in lanes that pad, which are divided too."""
    channels, one = power.channels, fp16_bits(1.0)
    size = channels // groups
    if channels <= _TOGETHER:
        square = np.kron(np.eye(groups), np.ones((size, size)))
        return [pointwise_task(low.target, power, target, pixels, _weights(low, f"{op.name}_sum", square), fill=one)]
    form = low.target.fp16
    room = 2 * form.surfaces(groups) * pixels * form.atom_bytes
    few = Line(Place(scratch(low, f"{op.output}_few", room)), pixels, groups, form.atom_bytes)
    rows = np.kron(np.eye(groups), np.ones((1, size)))
    return [
        pointwise_task(low.target, power, few, pixels, _weights(low, f"{op.name}_add", rows)),
        pointwise_task(low.target, few, target, pixels, _weights(low, f"{op.name}_each", rows.T), fill=one),
    ]


def _weights(low: Lowering, name: str, matrix: Array, *, packed: bool = False) -> Place:
    outputs, inputs = matrix.shape
    make = (low.target.picture_weights if packed else None) or low.target.weights
    tiles = make((outputs, inputs, 1, 1), low.target.fp16.element_bytes)
    stored = pack_weights(matrix.astype(np.float16)[:, :, None, None], tiles, np.zeros(outputs, np.float16))
    return Place(low.data(name, stored.tobytes(), (outputs, inputs, 1, 1), DataType.FLOAT16, "weights"))
