"""One pooling task."""

from __future__ import annotations

from openrknn.compiler.formats import Format, align
from openrknn.compiler.recipes.finish import fp16_bits
from openrknn.isa.enums import PoolingMethod
from openrknn.task import ppu
from openrknn.task.kinds import Pooling
from openrknn.task.place import Address, Place

_FLOAT17_ONE = 0x7C00


def pooling_task(
    form: Format, *, average: bool, channels: int, rows: int, columns: int, out_rows: int, out_columns: int,
    kernel: tuple[int, int], strides: tuple[int, int], pads: tuple[int, int, int, int], source: Place, line_pixels: int,
    source_pitch: int, target: Place, target_pitch: int, target_notch: int, zero_point: int,
) -> Pooling[Address]:  # fmt: skip
    """One stripe; pads are top, left, bottom, right."""
    wide = form.element_bytes == 2
    recips = [0, 0]
    if average:
        recips = [_float17_bits(size) if wide else 65536 // size for size in kernel]
    return Pooling(ppu.Config(
        method=PoolingMethod.AVERAGE if average else PoolingMethod.MAX, precision=form.precision,
        source_address=source, source_line_bytes=line_pixels * form.atom_bytes,
        source_surface_bytes=source_pitch * form.atom_bytes, target_address=target,
        target_line_bytes=(out_columns + target_notch) * form.atom_bytes,
        target_surface_bytes=target_pitch * form.atom_bytes, channels=align(channels, form.atom), height=rows,
        width=columns, out_height=out_rows, out_width=out_columns, kernel_height=kernel[0], kernel_width=kernel[1],
        stride_y=strides[0], stride_x=strides[1], pad_top=pads[0], pad_left=pads[1],
        pad_value=zero_point if average and not wide else 0, reciprocal_width=recips[1], reciprocal_height=recips[0],
        atom_bytes=form.atom_bytes, pad_right=pads[3], pad_bottom=pads[2],
    ))  # fmt: skip


def _float17_bits(size: int) -> int:
    """1 / size with six bits of exponent: the bits of fp16(65536 / size), and past its range for a size of 1."""
    return fp16_bits(65536 / size) if size > 1 else _FLOAT17_ONE
