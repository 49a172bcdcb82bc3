"""The product of two activations where the DPU turns no lanes (RK3566): the steps of the vendor's converter.

Kernels (pixels of a map) become weights in two tasks for each run of 8: atoms of a pixel side by side, then tiles of
four atoms. Where kernels are channels, a convolution turns the map first: of each surface, a 1x4 kernel sees 4 pixels
of 4 channels, and its 16 outputs are the same numbers with lanes and pixels changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from openrknn.compiler.formats import HEAD_CHANNELS, Format, align
from openrknn.compiler.forms import Product
from openrknn.compiler.ir import Op
from openrknn.compiler.lower.context import Lowering
from openrknn.compiler.lower.pointwise import Line, line_pixels, moved, pointwise_task, scratch, stored_channels
from openrknn.compiler.program import Place, Step, Task, Tensor
from openrknn.compiler.recipes.convolution import ConvolutionTask, convolution_task
from openrknn.compiler.recipes.elementwise import Cube, elementwise_task
from openrknn.compiler.recipes.rearrange import Read, Write, atoms_task, zero_task
from openrknn.compiler.recipes.stages import PLAIN
from openrknn.compiler.tile import Band
from openrknn.container.parts import DataType
from openrknn.layout.weights import pack_weights
from openrknn.task.place import Address
from openrknn.task.rdma import Walk

_RUN = 8
_ATOMS = 4
"""Atoms of a tile's kernel."""


def multiply_by_tiles(low: Lowering, op: Op, step: Step) -> None:
    """Tasks of one product: weights of each head, then a convolution."""
    product = op.get(Product)
    kernels, depth = product.kernels, product.depth
    left, right, target = low.tensor(op.inputs[0]), low.tensor(op.inputs[1]), low.tensor(op.output)
    form = low.target.fp16
    room, kernel_room = align(depth, HEAD_CHANNELS), align(kernels, HEAD_CHANNELS)
    channels = room if product.left == "channels" else depth
    stored = stored_channels(low.target, channels)
    if product.turned:
        maps = list(_turned(low, op, right, stored, step.tasks))
    else:
        maps = [Line(head_place(product, right, product.right, number, room), right.pitch, room, form.atom_bytes)
                for number in range(product.count)]  # fmt: skip
    for head in range(product.count):
        weights = _weights(low, op, maps[head], kernels, stored, step.tasks)
        source = Line(head_place(product, left, product.left, head, room), left.pitch, channels, form.atom_bytes)
        place = head_place(product, target, product.out, head, kernel_room)
        made = Line(place, target.pitch, kernels, form.atom_bytes)
        for first, count in line_pixels(low.target, channels, product.rows):
            step.tasks.append(
                pointwise_task(low.target, source.at(first), made.at(first), count, weights, gain=product.gain)
            )


def pixel_tiles(low: Lowering, op: Op, source: Line, kernels: int, target: Place, tasks: list[Task]) -> None:
    """So many pixels as kernels in memory; the tasks are added."""
    _weights(low, op, source, kernels, source.channels, tasks, target)


def channel_tiles(low: Lowering, op: Op, tensor: Cube, stored: int, tasks: list[Task]) -> Iterator[Place]:
    """Channels of each head as kernels, `stored` pixels deep."""
    for line in list(_turned_window(low, op, tensor, stored, tasks)):
        yield _weights(low, op, line, op.get(Product).kernels, stored, tasks)


def head_place(product: Product, tensor: Tensor, form: str, number: int, room: int) -> Place:
    """Where a head of a window begins; they are numbered window by window."""
    window, head = divmod(number, product.heads)
    return tensor.at(0, number) if form == "rows" else tensor.at(head * room, window)


def _weights(
    low: Lowering, op: Op, source: Line, kernels: int, stored: int, tasks: list[Task], target: Place | None = None
) -> Place:
    """Groups of 8 kernels, in each of them tiles of 16 channels (4 atoms), then kernel by kernel."""
    form = low.target.fp16
    atoms = stored // form.atom
    made = target or Place(scratch(low, f"{op.output}_kernels", kernels * atoms * form.atom_bytes))
    apart = made if atoms <= _ATOMS else Place(scratch(low, f"{op.output}_rows", _RUN * atoms * form.atom_bytes))
    for first in range(0, kernels, _RUN):
        count = min(_RUN, kernels - first)
        place = moved(made, first * atoms, form.atom_bytes)
        beside = place if apart is made else apart
        read = Read(source.at(first).place, count, 1, atoms, count, source.pitch)
        write = Write(beside, count, atoms, atoms, 1, atoms, count * atoms)
        tasks.append(Task(atoms_task(form, read, write)))
        if apart is not made:
            tasks += _tiles(form, apart, place, count, atoms)
    return made


def _tiles(form: Format, source: Place, target: Place, kernels: int, atoms: int) -> Iterator[Task]:
    """Rows of `atoms` for each kernel, cut into tiles of four; the last may be narrower."""
    whole, rest = divmod(atoms, _ATOMS)
    for first, count, width in ((0, whole, _ATOMS), (whole * _ATOMS, 1, rest)):
        if count and width:
            cube = Cube(moved(source, first, form.atom_bytes), 0)
            made = Cube(moved(target, first * kernels, form.atom_bytes), width * kernels)
            task = elementwise_task(form, (count * form.atom, kernels, width), cube, made)
            walk: Walk[Address] = Walk(cube.place, atoms * form.atom_bytes, width * form.atom_bytes)
            yield Task(replace(task, reader=replace(task.reader, main=walk)))


def _turned(low: Lowering, op: Op, tensor: Tensor, stored: int, tasks: list[Task]) -> Iterator[Line]:
    """Channels become pixels, and pixels channels: [heads * kernels, windows, depth] as a map for each head."""
    for window in range(op.get(Product).windows):
        yield from _turned_window(low, op, Cube(tensor.at(0, window), tensor.pitch), stored, tasks)


def _turned_window(low: Lowering, op: Op, tensor: Cube, stored: int, tasks: list[Task]) -> Iterator[Line]:
    form = low.target.fp16
    product = op.get(Product)
    heads, depth, room = product.heads, product.depth, align(product.kernels, HEAD_CHANNELS)
    source, pitch = tensor.place, tensor.pitch
    if stored != depth:
        source, pitch = _filled(low, op, tensor, heads * room, stored, tasks), stored
    runs = stored // form.atom
    made = Place(scratch(low, f"{op.output}_turned", heads * runs * room * form.atom_bytes))
    weights = _turn(low, op)
    for head in range(heads):
        target = moved(made, head * runs * room, form.atom_bytes)
        for atom in range(room // form.atom):
            surface = moved(source, (head * room // form.atom + atom) * pitch, form.atom_bytes)
            place = moved(target, atom * form.atom, form.atom_bytes)
            tasks.append(_turning(low, surface, place, weights, runs, room))
        yield Line(target, room, stored, form.atom_bytes)


def _turn(low: Lowering, op: Op) -> Place:
    """Kernel lane * 4 + pixel sees that lane of that pixel."""
    lanes = low.target.fp16.atom
    kernels = np.zeros((lanes * lanes, lanes, 1, lanes), np.float16)
    for lane in range(lanes):
        for pixel in range(lanes):
            kernels[lane * lanes + pixel, lane, 0, pixel] = 1
    packed = pack_weights(kernels, low.target.weights((lanes * lanes, lanes, 1, lanes), 2))
    return Place(low.data(f"{op.name}_turn", packed.tobytes(), kernels.shape, DataType.FLOAT16, "weights"))


def _turning(low: Lowering, source: Place, target: Place, weights: Place, runs: int, line: int) -> Task:
    form, buffer = low.target.fp16, low.target.buffer
    lanes = form.atom
    task = ConvolutionTask(
        format=form, band=Band(0, lanes, 0, runs, 0, runs, 0, buffer.banks - 1, 1, False),
        source=source, weights=weights, bias=weights, target=target, width=lanes, line_pixels=lanes,
        source_pitch=runs * lanes, target_pitch=1, out_width=1, kernels=lanes * lanes, stored_kernels=lanes * lanes,
        kernel_bytes=stored_channels(low.target, lanes) * lanes * form.element_bytes, kernel=(1, lanes),
        strides=(1, 1), dilations=(1, 1), pad_left=0, pad_value=0, buffer=buffer, target_line=line,
    )  # fmt: skip
    return Task(convolution_task(task, PLAIN, reads=False))


def _filled(low: Lowering, op: Op, tensor: Cube, channels: int, pixels: int, tasks: list[Task]) -> Place:
    """A copy with zeros behind the last pixel."""
    form, there = low.target.fp16, op.get(Product).depth
    surfaces = channels // form.atom
    copy = Place(scratch(low, f"{op.output}_filled", surfaces * pixels * form.atom_bytes))
    filled = elementwise_task(form, (channels, 1, there), tensor, Cube(copy, pixels))
    read = Read(moved(copy, there, form.atom_bytes), pixels - there, 1, surfaces, pixels - there, pixels)
    tasks += [Task(filled), Task(zero_task(form, read))]
    return copy
