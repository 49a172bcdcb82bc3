"""The product of two activations, head by head: one of them becomes the weights of a 1x1 convolution over the other.

Weights in memory are groups of 16 kernels, or 8 (`Format.group`), in each of them groups of 32 channels (4 atoms), then
kernel by kernel.
Where the second operand has its channels where the kernels want them (keys), its atoms are put into that order; else
(values) lanes and pixels change places on the way. These are the steps of the vendor's attention.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from openrknn.compiler.formats import HEAD_CHANNELS, align
from openrknn.compiler.forms import Product, late_gain
from openrknn.compiler.ir import Op
from openrknn.compiler.lower.context import Lowering
from openrknn.compiler.lower.pointwise import (
    Line,
    line_pixels,
    matrix_place,
    moved,
    pointwise_task,
    scratch,
    stored_channels,
    two_task,
)
from openrknn.compiler.lower.tiles import head_place, multiply_by_tiles
from openrknn.compiler.program import Place, Step, Task, Tensor
from openrknn.compiler.recipes.elementwise import Cube, elementwise_task
from openrknn.compiler.recipes.finish import fp16_bits
from openrknn.compiler.recipes.rearrange import Read, Write, atoms_task, lanes_task, zero_task
from openrknn.isa.enums import EwAlgorithm

_ATOMS = 4
"""Atoms of one group of weights' channels."""
_RUN = 8
"""Pixels that become one atom: the lanes of fp16 where the DPU turns them."""


def lower_product(low: Lowering, op: Op) -> None:
    """One step: weights, then a convolution for each head."""
    product = op.get(Product)
    kernels, depth = product.kernels, product.depth
    left, right, target = low.tensor(op.inputs[0]), low.tensor(op.inputs[1]), low.tensor(op.output)
    step, form = low.step(op, "exMatMul"), low.target.fp16
    step.macs = product.count * kernels * depth * product.rows
    if not low.target.turns_lanes:
        multiply_by_tiles(low, op, step)
        return
    room = align(depth, HEAD_CHANNELS)
    channels = room if product.left == "channels" else depth
    if product.turned:
        weights = list(_turned(low, op, right, stored_channels(low.target, channels), step.tasks))
    else:
        weights = list(_straight(low, op, right, step.tasks))
    stored = align(kernels, HEAD_CHANNELS) if product.turned else kernels
    gain = product.gain * (late_gain(depth) if product.is_divided else 1.0)
    for number in range(product.count):
        source = Line(head_place(product, left, product.left, number, room), left.pitch, channels, form.atom_bytes)
        place = head_place(product, target, product.out, number, align(kernels, HEAD_CHANNELS))
        made = Line(place, target.pitch, kernels, form.atom_bytes)
        for first, count in line_pixels(low.target, channels, product.rows):
            low.add(
                step,
                pointwise_task(
                    low.target, source.at(first), made.at(first), count, weights[number], gain=gain, kernels=stored,
                ),
            )
        if product.is_divided:
            _divide(low, op, step, number, made)


def _divide(low: Lowering, op: Op, step: Step, number: int, made: Line) -> None:
    """The sums of a head's pixels in as many channels as it has, then the division."""
    product, sums, form = op.get(Product), low.tensor(op.inputs[2]), low.target.fp16
    ones = matrix_place(low, f"{op.name}_each", np.ones((made.channels, 1)))
    pitch = align(product.rows, 4)
    room = align(form.surfaces(made.channels), 2) * pitch * form.atom_bytes
    spread = Line(Place(scratch(low, f"{op.output}_sums", room)), pitch, made.channels, form.atom_bytes)
    source = Line(sums.at(0, number), sums.pitch, 1, form.atom_bytes)
    for first, count in line_pixels(low.target, made.channels, product.rows):
        here, now = spread.at(first), made.at(first)
        low.add(step, pointwise_task(low.target, source.at(first), here, count, ones, fill=fp16_bits(1.0)))
        low.add(step, two_task(form, now, here, now, count, EwAlgorithm.DIV))


def _straight(low: Lowering, op: Op, tensor: Tensor, tasks: list[Task]) -> Iterator[Place]:
    """Pixels are kernels: atoms in another order."""
    product = op.get(Product)
    kernels, room = product.kernels, align(product.depth, HEAD_CHANNELS)
    each = align(kernels * room * low.target.fp16.element_bytes, 64)
    made = scratch(low, f"{op.output}_kernels", product.count * each)
    for number in range(product.count):
        source, target = head_place(product, tensor, product.right, number, room), Place(made, number * each)
        tasks += pixel_kernels(low, Cube(source, tensor.pitch), kernels, room, target)
        yield target


def pixel_kernels(low: Lowering, source: Cube, kernels: int, room: int, target: Place) -> Iterator[Task]:
    """So many pixels of `room` channels as kernels in memory."""
    group, numbers = low.target.fp16.group, low.target.fp16
    skip = partial(moved, atom_bytes=low.target.atom_bytes)
    atoms = room // numbers.atom
    whole = kernels // group
    for at in range(0, atoms, _ATOMS):
        count = min(_ATOMS, atoms - at)
        lines = skip(source.place, at * source.pitch)
        if whole:
            place, blocks = skip(target, at * group), group // _RUN * whole
            per = group // _RUN
            yield _blocks(low, lines, source.pitch, _RUN, blocks, place, count, atoms * group, per)
        left, done = kernels % group, whole * group
        place = skip(target, done * atoms + at * left)
        for run in (_RUN, left % _RUN) if left >= _RUN else (left,):
            if run:
                yield _blocks(low, skip(lines, done), source.pitch, run, 1, place, count, 0, 1)
                place, done = skip(place, run * count), done + run


def _blocks(
    low: Lowering, source: Place, pitch: int, run: int, blocks: int, target: Place, atoms: int, group: int,
    together: int,
) -> Task:  # fmt: skip
    """Blocks of `run` pixels by `atoms` surfaces, each turned to pixels of atoms; `together` are a group of kernels."""
    read = Read(source, run, atoms, blocks, pitch, run)
    write = Write(target, run, atoms, atoms, min(blocks, together), run * atoms, group)
    return Task(atoms_task(low.target.fp16, read, write))


def _turned(low: Lowering, op: Op, tensor: Tensor, stored: int, tasks: list[Task]) -> Iterator[Place]:
    """Channels are kernels, of all heads in a row: runs of 8 pixels become atoms."""
    for window in range(op.get(Product).windows):
        yield from channel_kernels(low, op, Cube(tensor.at(0, window), tensor.pitch), stored, tasks)


def channel_kernels(low: Lowering, op: Op, tensor: Cube, stored: int, tasks: list[Task]) -> Iterator[Place]:
    """Of one window: where the kernels of each head are, `stored` pixels deep; the tasks are added."""
    product = op.get(Product)
    heads, room, group = product.heads, align(product.kernels, HEAD_CHANNELS), low.target.fp16.group
    form, skip = low.target.fp16, partial(moved, atom_bytes=low.target.atom_bytes)
    per = group // _RUN
    surfaces = heads * room // form.atom
    source, pitch = tensor.place, tensor.pitch
    if stored != product.depth:
        source, pitch = _filled(low, op, tensor, surfaces, stored, tasks), stored
    atoms = stored // _RUN
    made = scratch(low, f"{op.output}_kernels", surfaces * form.atom * stored * form.element_bytes)
    whole = atoms // _ATOMS
    if atoms <= _ATOMS:
        read = Read(source, stored, 1, surfaces, stored, pitch)
        tasks.append(Task(lanes_task(form, read, _lanes(Place(made), atoms, 1, _RUN * atoms, group))))
    else:
        for odd in range(per):
            first = skip(source, odd * pitch)
            place = skip(Place(made), odd * _RUN * _ATOMS)
            read = Read(first, whole * _ATOMS * _RUN, 1, surfaces // per, whole * _ATOMS * _RUN, per * pitch)
            write = _lanes(place, _ATOMS, whole, group * atoms, group)
            tasks.append(Task(lanes_task(form, read, write)))
            rest = atoms % _ATOMS
            if rest:
                place = skip(Place(made), whole * _ATOMS * group + odd * _RUN * rest)
                start, run = skip(first, whole * _ATOMS * _RUN), rest * _RUN
                read = Read(start, run, 1, surfaces // per, run, per * pitch)
                write = _lanes(place, rest, 1, group * atoms, group)
                tasks.append(Task(lanes_task(form, read, write)))
    for head in range(heads):
        yield skip(Place(made), head * room * atoms)


def _lanes(place: Place, atoms: int, groups: int, step: int, kernels: int) -> Write:
    """8 lanes are 8 kernels of `atoms` each."""
    return Write(place, _RUN, atoms, atoms, groups, kernels * atoms, step)


def _filled(low: Lowering, op: Op, tensor: Cube, surfaces: int, pixels: int, tasks: list[Task]) -> Place:
    """A copy with zeros behind the last pixel."""
    there, form = op.get(Product).depth, low.target.fp16
    copy = scratch(low, f"{op.output}_filled", surfaces * pixels * form.atom_bytes)
    size = (surfaces * form.atom, 1, there)
    tasks.append(Task(elementwise_task(form, size, tensor, Cube(Place(copy), pixels))))
    read = Read(moved(Place(copy), there, form.atom_bytes), pixels - there, 1, surfaces, pixels - there, pixels)
    tasks.append(Task(zero_task(form, read)))
    return Place(copy)
