"""Tasks that read a tensor from memory and work on each number: copies, activations, two operands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from openrknn.compiler.formats import Format, align
from openrknn.compiler.program import Tensor
from openrknn.compiler.recipes.stages import PLAIN, Stages, dpu_of
from openrknn.compiler.tile.columns import fold
from openrknn.isa import Precision
from openrknn.isa.enums import CombineUse, OperandMode
from openrknn.task import rdma, write
from openrknn.task.kinds import Elementwise
from openrknn.task.place import Address, Place

LARGEST_SIDE = 8191
"""Rows and columns of a task of the DPU."""


@dataclass(frozen=True, slots=True)
class Cube:
    """A tensor as a task sees it: first atom, and atoms from surface to surface."""

    place: Place
    pitch: int


def dense_sides(rows: int, columns: int) -> tuple[int, int]:
    """Pixels that lie one after the other, as sides that the registers count; as they are if there are no such."""
    if max(rows, columns) <= LARGEST_SIDE:
        return rows, columns
    return fold(rows * columns, LARGEST_SIDE) or (1, rows * columns)


def elementwise_task(
    form: Format, size: tuple[int, int, int], source: Cube, target: Cube, stages: Stages = PLAIN,
    other: Cube | None = None, *, per_channel: bool = False, line: int = 0,
) -> Elementwise[Address]:  # fmt: skip
    """`size` is (channels, rows, columns); `other` the second operand; `line` atoms from row to row, if not dense."""
    channels, rows, columns = size
    if not line:
        rows, columns = dense_sides(rows, columns)
    padded, atom = align(channels, form.atom), form.atom_bytes
    line_bytes = (line or columns) * atom
    walk: write.Config[Address] = write.Config(
        address=target.place, per_pixel=1, width=columns, height=rows, line_bytes=line_bytes,
        atom_step_bytes=target.pitch * atom, group_step_bytes=target.pitch * atom, packed_bytes=None,
        transposes_atoms=False, transposed_lanes=None, atom_bytes=atom,
    )  # fmt: skip
    reader: rdma.Config[Address] = rdma.Config(
        width=columns, height=rows, channels=padded, precision=form.precision, proc_precision=form.precision,
        main=rdma.Walk(source.place, line_bytes, source.pitch * atom), bias_kinds=stages.bias_kinds, bias_address=0,
        norm_kinds=stages.norm_kinds, norm_address=stages.norm_address,
        operand=None if other is None else _operand(form, other, columns, rows, per_channel=per_channel),
        combine=CombineUse(0), repeat_x=1, repeat_y=1, repeats=False, atom_bytes=atom,
    )  # fmt: skip
    return Elementwise(dpu_of(stages, form, walk, padded, flying=True, real_channels=padded), reader)


def _operand(form: Format, other: Cube, columns: int, rows: int, *, per_channel: bool) -> rdma.Operand[Address]:
    mode = OperandMode.PER_CHANNEL if per_channel else OperandMode.PER_PIXEL
    surface = rows * columns if per_channel else other.pitch
    walk: rdma.Walk[Address] = rdma.Walk(other.place, columns * form.atom_bytes, surface * form.atom_bytes)
    return rdma.Operand(mode, form.element_bytes, walk, other.pitch * form.atom_bytes)


def band_task(
    whole: Elementwise[Address], first: int, count: int, tensors: Mapping[str, Tensor]
) -> Elementwise[Address]:
    """The task for some rows only of a map with several; of a map with one row, on some of its columns.

    Addresses move by atoms of the tensor that they point into; pitches count atoms of the chip.
    """
    reader, walk, atom = whole.reader, whole.dpu.write, whole.dpu.write.atom_bytes
    by_rows = reader.height > 1
    skipped, left = first, reader.width - count
    if by_rows:
        skipped, left = first * reader.width, (reader.height - count) * reader.width

    def moved(place: Address) -> tuple[Place, int]:
        """The place, and the chip's atoms in one of the tensor's."""
        assert isinstance(place, Place)
        each = tensors[place.tensor].atom_bytes
        return Place(place.tensor, place.offset + skipped * each), each // atom

    def moved_walk(old: rdma.Walk[Address]) -> rdma.Walk[Address]:
        place, atoms = moved(old.address)
        line = old.line_bytes if by_rows else old.line_bytes - left * atom
        return rdma.Walk(place, line, old.surface_bytes + left * (atoms - 1) * atom)

    assert reader.main is not None
    operand = reader.operand
    if operand is not None and operand.mode is not OperandMode.PER_CHANNEL:
        operand = replace(operand, walk=moved_walk(operand.walk))
    elif operand is not None:  # it has one row of one pixel, whatever the sizes say
        narrow = replace(operand.walk, line_bytes=operand.walk.line_bytes - (0 if by_rows else left * atom))
        operand = replace(operand, walk=replace(narrow, surface_bytes=operand.walk.surface_bytes - left * atom))
    height, width = (count, reader.width) if by_rows else (reader.height, count)
    made = replace(reader, height=height, width=width, main=moved_walk(reader.main), operand=operand)
    line = walk.line_bytes if by_rows else walk.line_bytes - left * atom
    rows, columns = (count, walk.width) if by_rows else (walk.height, count)
    written = replace(walk, address=moved(walk.address)[0], line_bytes=line, height=rows, width=columns)
    return replace(whole, dpu=replace(whole.dpu, write=written), reader=made)


def repeat_task(
    form: Format, rows: int, columns: int, factors: tuple[int, int], source: Cube, target: Place, *, as_bytes: bool
) -> Elementwise[Address]:
    """Nearest upsampling of one surface: each atom `factors` times. `as_bytes`: whatever is in them."""
    high, wide = factors
    moved = Precision.INT8 if as_bytes else form.precision
    lanes = form.atom_bytes if as_bytes else form.atom
    line = columns * wide
    whole = elementwise_task(
        form, (form.atom, rows, columns), source, Cube(target, line), Stages(out_precision=moved)
    )
    reader = replace(
        whole.reader, channels=form.atom_bytes // 2, precision=Precision.INT16, proc_precision=moved, repeat_x=wide,
        repeat_y=high, repeats=True,
    )  # fmt: skip
    walk = replace(
        whole.dpu.write, per_pixel=high, width=line, height=rows, line_bytes=high * line * form.atom_bytes
    )
    stages = replace(
        whole.dpu, precision=moved, in_precision=Precision.INT16, channels=lanes, real_channels=lanes, write=walk
    )
    return replace(whole, dpu=stages, reader=reader)
