"""The product of two activations, head by head: one of them becomes the weights of a 1x1 convolution over the other.

Weights in memory are groups of 16 kernels, in each of them groups of 32 channels (4 atoms), then kernel by kernel.
Where the second operand has its channels where the kernels want them (keys), its atoms are put into that order; else
(values) lanes and pixels change places on the way. These are the steps of the vendor's attention.
"""

from __future__ import annotations

from collections.abc import Iterator

from openrknn.compiler.formats import ATOM_BYTES, FP16, align
from openrknn.compiler.ir import Op
from openrknn.compiler.lower.context import Lowering
from openrknn.compiler.lower.pointwise import Line, line_pixels, moved, pointwise_task, scratch, stored_channels
from openrknn.compiler.program import ELEMENTWISE, Place, Registers, Task, Tensor
from openrknn.compiler.recipes.elementwise import Cube, elementwise_registers
from openrknn.compiler.recipes.rearrange import Read, Write, atoms_registers, lanes_registers, zero_registers

__all__ = ["lower_product"]

_KERNELS = FP16.group
"""Kernels of one group of weights."""
_ATOMS = 4
"""Atoms of one group of weights' channels."""
_RUN = FP16.atom


def lower_product(low: Lowering, op: Op) -> None:
    """One step: weights, then a convolution for each head."""
    heads, kernels, depth, rows, gain = (op.attributes[name] for name in ("heads", "kernels", "depth", "rows", "gain"))
    left, right, target = low.tensor(op.inputs[0]), low.tensor(op.inputs[1]), low.tensor(op.output)
    step = low.step(op, "exMatMul")
    step.macs = heads * kernels * depth * rows
    room = align(depth, _KERNELS)
    channels = room if op.attributes["left"] == "channels" else depth
    if op.attributes["turned"]:
        weights = list(_turned(low, op, right, stored_channels(channels), step.tasks))
    else:
        weights = list(_straight(low, op, right, step.tasks))
    stored = align(kernels, _KERNELS) if op.attributes["turned"] else kernels
    for head in range(heads):
        source = Line(_head(left, op.attributes["left"], head, room), left.pitch, channels)
        made = Line(_head(target, op.attributes["out"], head, align(kernels, _KERNELS)), target.pitch, kernels)
        for first, count in line_pixels(channels, rows):
            low.add(
                step,
                pointwise_task(source.at(first), made.at(first), count, weights[head], gain=gain, kernels=stored),
            )


def _head(tensor: Tensor, form: str, head: int, room: int) -> Place:
    return tensor.at(0, head) if form == "rows" else tensor.at(head * room)


def _straight(low: Lowering, op: Op, tensor: Tensor, tasks: list[Task]) -> Iterator[Place]:
    """Pixels are kernels: atoms in another order."""
    heads, kernels, form = op.attributes["heads"], op.attributes["kernels"], op.attributes["right"]
    room = align(op.attributes["depth"], _KERNELS)
    each = align(kernels * room * FP16.element_bytes, 64)
    made = scratch(low, f"{op.output}_kernels", heads * each)
    atoms = room // FP16.atom
    whole = kernels // _KERNELS
    for head in range(heads):
        source, target = _head(tensor, form, head, room), Place(made, head * each)
        for at in range(0, atoms, _ATOMS):
            count = min(_ATOMS, atoms - at)
            lines = moved(source, at * tensor.pitch)
            if whole:
                place = moved(target, at * _KERNELS)
                tasks.append(_blocks(lines, tensor.pitch, _RUN, 2 * whole, place, count, atoms * _KERNELS))
            left, done = kernels % _KERNELS, whole * _KERNELS
            place = moved(target, done * atoms + at * left)
            for run in (_RUN, left % _RUN) if left >= _RUN else (left,):
                if run:
                    tasks.append(_blocks(moved(lines, done), tensor.pitch, run, 1, place, count, 0))
                    place, done = moved(place, run * count), done + run
        yield target


def _blocks(source: Place, pitch: int, run: int, blocks: int, target: Place, atoms: int, group: int) -> Task:
    """Blocks of `run` pixels by `atoms` surfaces, each turned to pixels of atoms; two blocks to a group of kernels."""
    read = Read(source, run, atoms, blocks, pitch, run)
    write = Write(target, run, atoms, atoms, min(blocks, 2), run * atoms, group)
    return Task(ELEMENTWISE, atoms_registers(read, write))


def _turned(low: Lowering, op: Op, tensor: Tensor, stored: int, tasks: list[Task]) -> Iterator[Place]:
    """Channels are kernels, of all heads in a row: runs of 8 pixels become atoms."""
    heads, depth = op.attributes["heads"], op.attributes["depth"]
    room = align(op.attributes["kernels"], _KERNELS)
    surfaces = heads * room // FP16.atom
    source, pitch = tensor.at(), tensor.pitch
    if stored != depth:
        source, pitch = _filled(low, op, tensor, surfaces, stored, tasks), stored
    atoms = stored // _RUN
    made = scratch(low, f"{op.output}_kernels", surfaces * FP16.atom * stored * FP16.element_bytes)
    whole = atoms // _ATOMS
    if atoms <= _ATOMS:
        read = Read(source, stored, 1, surfaces, stored, pitch)
        tasks.append(Task(ELEMENTWISE, lanes_registers(read, _lanes(Place(made), atoms, 1, _RUN * atoms))))
    else:
        for odd in (0, 1):
            first = moved(source, odd * pitch)
            place = moved(Place(made), odd * _RUN * _ATOMS)
            read = Read(first, whole * _ATOMS * _RUN, 1, surfaces // 2, whole * _ATOMS * _RUN, 2 * pitch)
            tasks.append(Task(ELEMENTWISE, lanes_registers(read, _lanes(place, _ATOMS, whole, _KERNELS * atoms))))
            rest = atoms % _ATOMS
            if rest:
                place = moved(Place(made), whole * _ATOMS * _KERNELS + odd * _RUN * rest)
                read = Read(moved(first, whole * _ATOMS * _RUN), rest * _RUN, 1, surfaces // 2, rest * _RUN, 2 * pitch)
                tasks.append(Task(ELEMENTWISE, lanes_registers(read, _lanes(place, rest, 1, _KERNELS * atoms))))
    for head in range(heads):
        yield moved(Place(made), head * room * atoms)


def _lanes(place: Place, atoms: int, groups: int, step: int) -> Write:
    """8 lanes are 8 kernels of `atoms` each."""
    return Write(place, _RUN, atoms, atoms, groups, _KERNELS * atoms, step)


def _filled(low: Lowering, op: Op, tensor: Tensor, surfaces: int, pixels: int, tasks: list[Task]) -> Place:
    """A copy with zeros behind the last pixel."""
    there = op.attributes["depth"]
    copy = scratch(low, f"{op.output}_filled", surfaces * pixels * ATOM_BYTES)
    size = (surfaces * FP16.atom, 1, there)
    registers: Registers = elementwise_registers(FP16, size, low.cube(op.inputs[1]), Cube(Place(copy), pixels), {})
    tasks.append(Task(ELEMENTWISE, registers))
    read = Read(moved(Place(copy), there), pixels - there, 1, surfaces, pixels - there, pixels)
    tasks.append(Task(ELEMENTWISE, zero_registers(read)))
    return Place(copy)
