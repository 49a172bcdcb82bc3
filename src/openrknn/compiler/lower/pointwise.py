"""1x1 convolutions over one line of pixels, with weights from anywhere: parts of Softmax and Product."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from openrknn.compiler.formats import Format, align, ceil_div
from openrknn.compiler.lower.context import Lowering
from openrknn.compiler.program import Place, Task, Tensor
from openrknn.compiler.recipes.convolution import ConvolutionTask, Residual, convolution_task
from openrknn.compiler.recipes.elementwise import Cube, elementwise_task
from openrknn.compiler.recipes.finish import Finish
from openrknn.compiler.recipes.stages import PLAIN, Stages, fp16_number, multiplied, scaled
from openrknn.compiler.targets import Target
from openrknn.compiler.tile import Band, row_entries
from openrknn.container.parts import DataType, Kind
from openrknn.isa.enums import EwAlgorithm, EwOperation
from openrknn.layout.weights import pack_weights

_LONGEST = 2040
"""Columns that a convolution can read."""


@dataclass(frozen=True, slots=True)
class Line:
    """Channels of some pixels in a row: the first atom, and atoms from surface to surface."""

    place: Place
    pitch: int
    channels: int
    atom_bytes: int

    def at(self, pixel: int) -> Line:
        return replace(self, place=moved(self.place, pixel, self.atom_bytes))


def moved(place: Place, atoms: int, atom_bytes: int) -> Place:
    """So many atoms further on."""
    return Place(place.tensor, place.offset + atom_bytes * atoms)


def line_pixels(chip: Target, channels: int, pixels: int) -> list[tuple[int, int]]:
    """(first, count) of lines that fit into the convolution buffer beside the weights; multiples of 8 but the last."""
    per_pixel = row_entries(channels, 64, chip.fp16, chip.buffer) / 64
    banks = chip.buffer.single_band_data - chip.buffer.least_streamed // 2
    most = min(_LONGEST, int(banks * chip.buffer.bank_entries / per_pixel)) // 8 * 8
    return [(first, min(most, pixels - first)) for first in range(0, pixels, most)]


def stored_channels(chip: Target, channels: int, *, packed: bool = False) -> int:
    """Channels of a kernel in memory; `packed`: of one that works on a picture."""
    make = (chip.picture_weights if packed else None) or chip.weights
    return make((1, channels, 1, 1), chip.fp16.element_bytes).shape[1]


def pointwise_task(
    chip: Target, source: Line, target: Line, pixels: int, weights: Place, *, gain: float = 1.0, packed: bool = False,
    fill: int = 0, kernels: int = 0, addend: Residual | None = None,
    stages: Stages | None = None, reads: bool = False, rows: int = 1, line: int = 0,
) -> Task:  # fmt: skip
    """target = weights * source. `packed`: one number per pixel, back to back. `fill`: bits of channels that pad.

    `kernels`: how many there are in memory, if there are more than channels of the target. `addend`: a map that is
    added. `stages`: everything else, in place of a gain; `reads`: they have operands in memory. `rows`: there are so
    many lines of pixels, `line` pixels apart in source and target; those of the addend follow one another.
    """
    form, buffer = chip.fp16, chip.buffer
    kernel_bytes = stored_channels(chip, source.channels, packed=packed) * form.element_bytes
    entries = ceil_div(pixels, 4) if packed else rows * row_entries(source.channels, pixels, form, buffer)
    banks = ceil_div(entries, buffer.bank_entries)
    if buffer.fills:  # weights have what they need, up to what data leave
        needed = ceil_div(kernel_bytes * (kernels or target.channels), buffer.bank_bytes)
        banks = buffer.banks - min(needed, buffer.least_streamed, buffer.banks - banks)
    task = ConvolutionTask(
        format=form, band=Band(0, source.channels, 0, rows, 0, rows, 0, banks, buffer.banks - banks, False),
        source=source.place, weights=weights, bias=weights, target=target.place, width=pixels,
        line_pixels=line or pixels, source_pitch=source.pitch, target_pitch=target.pitch, out_width=pixels,
        kernels=target.channels, stored_kernels=kernels or target.channels, kernel_bytes=kernel_bytes, kernel=(1, 1),
        strides=(1, 1), dilations=(1, 1), pad_left=0, pad_value=0, depthwise=False, spread=(1, 1),
        picture_channels=int(packed), picture_row=pixels if packed else 0, picture_height=1, residual=addend,
        buffer=buffer, target_line=line,
    )  # fmt: skip
    if stages is None:
        stages = PLAIN
        if gain != 1.0:
            stages = Stages(norm=multiplied(scaled(fp16_number(gain)), is_float=True))
        if addend is not None:
            finish = Finish(1.0, None, flying=False, stages=stages)
            finish.operand(EwAlgorithm.ADD, None, relu=False)
            stages = finish.stages
    made = convolution_task(task, stages, reads=reads or addend is not None)
    return Task(replace(made, dpu=replace(made.dpu, pad_bits=fill)))


def two_task(
    form: Format, left: Line, right: Line, target: Line, pixels: int, method: EwAlgorithm | EwOperation, *,
    gain: float = 1.0,
) -> Task:  # fmt: skip
    """target = gain * left (method) right, number by number."""
    finish = Finish(1.0, None, flying=True)
    if gain != 1:
        finish.multiply(gain)
    finish.operand(method, None, relu=False)
    made = elementwise_task(
        form, (left.channels, 1, pixels), Cube(left.place, left.pitch), Cube(target.place, target.pitch),
        finish.stages, Cube(right.place, right.pitch),
    )  # fmt: skip
    return Task(replace(made, is_narrow=method is EwAlgorithm.DIV))  # as the vendor has it: fp16 all the way


def scratch(low: Lowering, base: str, size_bytes: int) -> str:
    """Memory that only this operator uses."""
    name, number = base, 0
    while name in low.program.tensors:
        number += 1
        name = f"{base}_{number}"
    size = align(size_bytes, 64)
    low.program.tensors[name] = Tensor(
        name, Kind.INTERNAL, DataType.FLOAT16, (size // 2,), "data", native_shape=(size // 2,), size_bytes=size,
        element_bytes=2, atom_bytes=low.target.atom_bytes,
    )  # fmt: skip
    return name


def matrix_place(low: Lowering, name: str, matrix: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> Place:
    """[outputs, inputs] as weights of fp16 in the file."""
    outputs, inputs = matrix.shape
    tiles = low.target.weights((outputs, inputs, 1, 1), low.target.fp16.element_bytes)
    stored = pack_weights(matrix.astype(np.float16)[:, :, None, None], tiles, np.zeros(outputs, np.float16))
    return Place(low.data(name, stored.tobytes(), (outputs, inputs, 1, 1), DataType.FLOAT16, "weights"))
