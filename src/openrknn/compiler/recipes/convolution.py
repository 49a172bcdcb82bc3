"""One convolution task."""

from __future__ import annotations

from dataclasses import dataclass, field

from openrknn import numerics
from openrknn.compiler.formats import Format, align, ceil_div
from openrknn.compiler.recipes.stages import Stages, dpu_of
from openrknn.compiler.targets import Buffer
from openrknn.compiler.tile import Band, row_entries
from openrknn.isa.enums import CombineUse, OperandMode, Precision
from openrknn.task import cna, core, rdma, write
from openrknn.task.kinds import BufferUse, Convolution
from openrknn.task.place import Address, Place

_LARGEST_GRAINS = 1023


@dataclass(frozen=True, slots=True)
class Residual:
    """The tensor that is added: its first atom, and atoms from surface to surface."""

    place: Place
    pitch: int


@dataclass(frozen=True, slots=True)
class ConvolutionTask:
    """One band of a convolution."""

    format: Format
    band: Band
    source: Place
    weights: Place
    bias: Place
    target: Place
    width: int
    """Columns that are read."""
    line_pixels: int
    """Columns of the input in memory."""
    source_pitch: int
    target_pitch: int
    out_width: int
    kernels: int
    """Output channels; depthwise: channels of this task."""
    stored_kernels: int
    kernel_bytes: int
    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    pad_left: int
    pad_value: int
    depthwise: bool = False
    spread: tuple[int, int] = (1, 1)
    picture_channels: int = 0
    picture_row: int = 0
    picture_height: int = 0
    buffer: Buffer = field(kw_only=True)
    residual: Residual | None = None
    target_line: int = 0
    """Columns of the output in memory; 0: as many as are written."""


def convolution_task(task: ConvolutionTask, stages: Stages, *, reads: bool = True) -> Convolution[Address]:
    """The task of one band; `reads` says whether the DPU has operands to read."""
    form = task.format
    group = form.depthwise_group if task.depthwise else form.group
    made = align(task.kernels, group)
    entries = _entries(task)
    return Convolution(
        source=_source(task), array=core.Config(form.element_bytes == 1, 0, numerics.Rounding.EVEN),
        dpu=dpu_of(stages, form, _write(task, stages), made, flying=False, real_channels=task.kernels),
        reader=_reader(task, stages, made) if reads else None,
        buffer=BufferUse(
            task.band.data_banks, task.band.weight_banks, entries, _grains(task, entries), task.band.kernel > 0,
            task.band.kept, task.band.entry if task.band.kept else 0,
        ),
        channels=task.band.channels, picture_rows=task.picture_height if task.picture_channels else 0,
    )  # fmt: skip


def _entries(task: ConvolutionTask) -> int:
    """Of the convolution buffer, for one row or a whole picture."""
    if task.picture_channels:
        return task.picture_row * task.band.rows if task.buffer.whole_pictures else ceil_div(task.picture_row, 4)
    return row_entries(align(task.band.channels, task.format.atom), task.width, task.format, task.buffer)


def _source(task: ConvolutionTask) -> cna.Config[Address]:
    band, form, packed = task.band, task.format, task.picture_channels
    pixel = packed * form.element_bytes if packed else form.atom_bytes
    taps = task.kernel[0] * task.kernel[1]
    return cna.Config(
        feature_address=task.source, height=band.rows, width=task.width, channels=align(band.channels, form.atom),
        packed_channels=packed, line_bytes=task.line_pixels * pixel,
        surface_bytes=0 if packed else task.source_pitch * form.atom_bytes, precision=form.precision, is_unsigned=False,
        converter=None, pad_top=band.pad_top, pad_left=task.pad_left, pad_bits=_pad_bits(task),
        out_height=band.out_rows, out_width=task.out_width, weight_address=task.weights,
        weight_bytes=task.kernel_bytes * task.stored_kernels,
        weight_channels=task.kernel_bytes // (taps * form.element_bytes), weight_precision=form.precision,
        kernels=task.stored_kernels, kernel_height=task.kernel[0], kernel_width=task.kernel[1],
        stride_x=task.strides[1], stride_y=task.strides[0], dilation_x=task.dilations[1], dilation_y=task.dilations[0],
        spread_x=task.spread[1], spread_y=task.spread[0], depthwise=task.depthwise, atom_bytes=form.atom_bytes,
        reuses_weights=band.reuses_weights,
    )  # fmt: skip


def _grains(task: ConvolutionTask, entries: int) -> int:
    """Rows that are fetched before the sequencer starts: timing only; the vendor's values where they are understood."""
    height, kernel = task.band.rows, task.kernel[0]
    most, bank = height + kernel + task.band.pad_top, task.buffer.bank_entries
    if task.picture_channels:
        return min(height + (kernel + task.band.pad_top if entries <= bank else 0), _LARGEST_GRAINS)
    if entries * height <= bank:
        return min(most, _LARGEST_GRAINS)
    twice = 2 * -(-bank // entries)
    enough = min(height, twice) if kernel == 1 else max(twice, kernel + task.band.pad_top + 8)
    return min(most, enough, _LARGEST_GRAINS)


def _pad_bits(task: ConvolutionTask) -> int:
    if task.format.element_bytes == 2:
        return task.pad_value
    low = task.pad_value & 0xFF
    bits = low << 8 | low if task.depthwise else low
    sign = (0xFFFF0000 if task.depthwise else 0xFFFFFF00) if task.pad_value < 0 else 0
    return bits | sign


def _write(task: ConvolutionTask, stages: Stages) -> write.Config[Address]:
    rows, columns, atom = task.band.out_rows, task.out_width, task.format.atom_bytes
    together = (2 if task.depthwise else 1) * task.format.group_atoms
    if task.format.element_bytes == 1 and stages.out_precision is Precision.FP16:
        together *= 2  # the channels of an atom of int8 are two atoms
    line = (task.target_line or columns) if rows > 1 else columns
    return write.Config(
        address=task.target, per_pixel=together, width=columns, height=rows, line_bytes=line * atom,
        atom_step_bytes=task.target_pitch * atom, group_step_bytes=together * task.target_pitch * atom,
        packed_bytes=None, transposes_atoms=False, transposed_lanes=None, atom_bytes=atom,
    )  # fmt: skip


def _reader(task: ConvolutionTask, stages: Stages, made: int) -> rdma.Config[Address]:
    """Both readers fetch a residual together: even surfaces through the one, odd ones through the other."""
    form, residual = task.format, task.residual
    main: rdma.Walk[Address] | None = None
    operand: rdma.Operand[Address] | None = None
    if residual is not None:
        line, pitch = task.out_width * form.atom_bytes, residual.pitch * form.atom_bytes
        second = residual.place._replace(offset=residual.place.offset + pitch)
        main = rdma.Walk(residual.place, line, 2 * pitch)
        walk: rdma.Walk[Address] = rdma.Walk(second, line, 2 * pitch)
        operand = rdma.Operand(OperandMode.PER_PIXEL, form.element_bytes, walk, pitch)
    return rdma.Config(
        width=task.out_width, height=task.band.out_rows, channels=made, precision=form.precision,
        proc_precision=form.precision, main=main, bias_kinds=stages.bias_kinds, bias_address=task.bias,
        norm_kinds=stages.norm_kinds, norm_address=stages.norm_address, operand=operand,
        combine=CombineUse.ENABLE | CombineUse.OPERAND if residual is not None else CombineUse(0), repeat_x=1,
        repeat_y=1, repeats=False, atom_bytes=form.atom_bytes,
    )  # fmt: skip
