"""Tasks of the DPU that only move 16-bit numbers: atoms in another order, and lanes and pixels that change places.

Both are the forms of the vendor's converter. The write DMA numbers the atoms of the stream and places them by four
counters, from the fastest: e (1 to 8), w, h, g (see `npu.blocks.dpu.write`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from openrknn.compiler.formats import Format
from openrknn.compiler.recipes.stages import PLAIN, Stages, dpu_of, multiplied, scaled
from openrknn.isa import Precision
from openrknn.isa.enums import CombineUse, OperandKinds, TransposeLanes
from openrknn.task import rdma
from openrknn.task import write as task_write
from openrknn.task.kinds import Elementwise
from openrknn.task.place import Address, Place


@dataclass(frozen=True, slots=True)
class Read:
    """`surfaces` times `rows` lines of `columns` atoms; steps in atoms."""

    place: Place
    columns: int
    rows: int
    surfaces: int
    row_step: int
    surface_step: int


@dataclass(frozen=True, slots=True)
class Write:
    """Counts and steps of the counters; w steps by one atom."""

    place: Place
    e: int
    e_step: int
    w: int
    h: int
    h_step: int
    g_step: int


def atoms_task(form: Format, read: Read, write: Write) -> Elementwise[Address]:
    """Atoms in another order. `form`: the chip's fp16, whatever is in them."""
    return _moved(form, read, write, transposes_atoms=True)


def lanes_task(
    form: Format, read: Read, write: Write, width: TransposeLanes = TransposeLanes.BITS16
) -> Elementwise[Address]:
    """Of each 8 atoms in a row: atom n becomes what was lane n of all of them; e counts these.

    16 lanes of 8 bits: of each 16 atoms; e counts the first 8 and the last 8 of them, the next counter these halves.
    """
    return _moved(form, read, write, transposed_lanes=8 if width is TransposeLanes.BITS16 else 16)


def zero_task(form: Format, read: Read) -> Elementwise[Address]:
    """Everything that is read becomes zero, in place."""
    write = Write(read.place, 1, read.surface_step, read.columns, read.rows, read.row_step, read.surface_step)
    return _moved(form, read, write, Stages(bias=multiplied(scaled(0), is_float=False)))


def _moved(
    form: Format, read: Read, write: Write, stages: Stages = PLAIN, *, transposes_atoms: bool = False,
    transposed_lanes: int | None = None,
) -> Elementwise[Address]:  # fmt: skip
    lanes, atom = form.atom * read.surfaces, form.atom_bytes
    walk: task_write.Config[Address] = task_write.Config(
        address=write.place, per_pixel=write.e, width=write.w, height=write.h, line_bytes=write.h_step * atom,
        atom_step_bytes=write.e_step * atom, group_step_bytes=write.g_step * atom, packed_bytes=None,
        transposes_atoms=transposes_atoms, transposed_lanes=transposed_lanes, atom_bytes=atom,
    )  # fmt: skip
    reader: rdma.Config[Address] = rdma.Config(
        width=read.columns, height=read.rows, channels=lanes, precision=Precision.INT16,
        proc_precision=Precision.INT16, main=rdma.Walk(read.place, read.row_step * atom, read.surface_step * atom),
        bias_kinds=OperandKinds(0), bias_address=0, norm_kinds=OperandKinds(0), norm_address=0, operand=None,
        combine=CombineUse(0), repeat_x=1, repeat_y=1, repeats=False, atom_bytes=atom,
    )  # fmt: skip
    made = dpu_of(
        replace(stages, out_precision=Precision.INT16), form, walk, lanes, flying=True, real_channels=lanes,
        precision=Precision.INT16, in_precision=Precision.INT16,
    )  # fmt: skip
    return Elementwise(made, reader)
