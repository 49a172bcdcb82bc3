"""Transpositions of [1, C, H, W] in the middle of a network, by tasks of the DPU that only move numbers.

Rows and columns change places atom by atom, a task for each surface. Where channels change places with rows or columns,
runs of 8 (fp16) or 16 (int8) pixels become atoms, as in the vendor's transpositions: a task for each line.
"""

from __future__ import annotations

from functools import partial

from openrknn.compiler.forms import Turn
from openrknn.compiler.ir import Op
from openrknn.compiler.lower.context import Lowering
from openrknn.compiler.lower.pointwise import moved
from openrknn.compiler.program import Task
from openrknn.compiler.recipes.rearrange import Read, Write, atoms_task, lanes_task
from openrknn.isa.enums import TransposeLanes

_SPATIAL = [0, 1, 3, 2]
_HALF = 8
_FARTHEST = 8192
"""Atoms that a task steps over from one surface to the next, at the most."""


def lower_turn(low: Lowering, op: Op) -> None:
    """One step."""
    source, target = low.tensor(op.inputs[0]), low.tensor(op.output)
    order = list(op.get(Turn).perm)
    channels, height, width = source.cube
    step = low.step(op, "Transpose")
    atom, whole = low.format.atom, low.target.fp16  # atoms move as they are
    skip = partial(moved, atom_bytes=low.target.atom_bytes)
    if order == _SPATIAL:
        for channel in range(0, channels, atom):
            read = Read(source.at(channel), 1, height, width, width, 1)
            write = Write(target.at(channel), 1, 1, height, width, height, height * width)
            low.add(step, Task(atoms_task(whole, read, write)))
        return
    by_columns = order[1] == 3
    runs, lines = (width, height) if by_columns else (height, width)
    # Of the two dimensions that become pixels, the last one steps by one.
    channel_step, line_step = (1, channels) if order[3] == 1 else (lines, 1)
    for line in range(lines):
        first = source.at(0, line) if by_columns else source.at(0, 0, line)
        place = skip(target.at(), line * line_step)
        columns, rows, row_step = (runs, 1, runs) if by_columns else (1, runs, width)
        if atom == _HALF and target.pitch > _FARTHEST:  # surface by surface
            for run in range(runs // atom):
                start = skip(first, run * atom * (1 if by_columns else width))
                shape = (atom, 1, atom) if by_columns else (1, atom, width)
                read = Read(start, shape[0], shape[1], channels // atom, shape[2], source.pitch)
                write = Write(skip(place, run * target.pitch), _HALF, channel_step, 1, 1, 1, _HALF * channel_step)
                low.add(step, Task(lanes_task(whole, read, write)))
            continue
        if atom == _HALF:
            read = Read(first, columns, rows, channels // atom, row_step, source.pitch)
            write = Write(place, _HALF, channel_step, 1, runs // atom, target.pitch, _HALF * channel_step)
            low.add(step, Task(lanes_task(whole, read, write)))
            continue
        for surface in range(channels // atom):
            read = Read(skip(first, surface * source.pitch), columns, rows, 1, row_step, source.pitch)
            start = skip(place, surface * atom * channel_step)
            write = Write(start, _HALF, channel_step, 1, 2, _HALF * channel_step, target.pitch)
            low.add(step, Task(lanes_task(whole, read, write, TransposeLanes.BITS8)))
