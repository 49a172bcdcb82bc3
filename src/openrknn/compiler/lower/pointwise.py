"""1x1 convolutions over one line of pixels, with weights from anywhere: parts of Softmax and Product."""

from __future__ import annotations

from dataclasses import dataclass

from openrknn.compiler.formats import FP16, align, ceil_div
from openrknn.compiler.lower.context import Lowering
from openrknn.compiler.program import CONVOLUTION, Place, Registers, Task, Tensor
from openrknn.compiler.recipes.base import merge
from openrknn.compiler.recipes.convolution import ConvolutionTask, convolution_registers
from openrknn.compiler.recipes.finish import fp16_bits
from openrknn.compiler.targets import RK3588
from openrknn.compiler.tile import Band, row_entries
from openrknn.container.parts import DataType, Kind

__all__ = ["Line", "line_pixels", "moved", "pointwise_task", "scratch", "stored_channels"]

_BLOCKS = CONVOLUTION[:3]
"""Nothing is read for the DPU."""
_BUFFER = RK3588.buffer
_LONGEST = 2040
"""Columns that a convolution can read."""


@dataclass(frozen=True, slots=True)
class Line:
    """Channels of some pixels in a row: the first atom, and atoms from surface to surface."""

    place: Place
    pitch: int
    channels: int

    def at(self, pixel: int) -> Line:
        return Line(moved(self.place, pixel), self.pitch, self.channels)


def moved(place: Place, atoms: int) -> Place:
    """So many atoms further on."""
    return Place(place.tensor, place.offset + 16 * atoms)


def line_pixels(channels: int, pixels: int) -> list[tuple[int, int]]:
    """(first, count) of lines that fit into the convolution buffer beside the weights; multiples of 8 but the last."""
    per_pixel = row_entries(channels, 64, FP16) / 64
    most = min(_LONGEST, int(_BUFFER.single_band_data * _BUFFER.bank_entries / per_pixel)) // 8 * 8
    return [(first, min(most, pixels - first)) for first in range(0, pixels, most)]


def stored_channels(channels: int) -> int:
    """Channels of a kernel in memory: whole atoms, and where three are left over, they are stored as four."""
    return align(channels, FP16.atom) + (FP16.atom if ceil_div(channels, FP16.atom) % 4 == 3 else 0)


def pointwise_task(
    source: Line, target: Line, pixels: int, weights: Place, *, gain: float = 1.0, packed: bool = False,
    fill: int = 0, kernels: int = 0,
) -> Task:  # fmt: skip
    """target = weights * source. `packed`: one number per pixel, back to back. `fill`: bits of channels that pad.

    `kernels`: how many there are in memory, if there are more than channels of the target.
    """
    stored = stored_channels(source.channels)
    entries = pixels if packed else row_entries(source.channels, pixels, FP16)
    banks = ceil_div(ceil_div(pixels, 4) if packed else entries, _BUFFER.bank_entries)
    task = ConvolutionTask(
        format=FP16, band=Band(0, source.channels, 0, 1, 0, 1, 0, banks, _BUFFER.banks - banks, False),
        source=source.place, weights=weights, bias=weights, target=target.place, width=pixels, line_pixels=pixels,
        source_pitch=source.pitch, target_pitch=target.pitch, out_width=pixels, kernels=target.channels,
        stored_kernels=kernels or target.channels, kernel_bytes=stored * FP16.element_bytes, kernel=(1, 1),
        strides=(1, 1), dilations=(1, 1), pad_left=0, pad_value=0, depthwise=False, spread=(1, 1),
        picture_channels=int(packed), picture_row=pixels if packed else 0, picture_height=1, residual=None,
    )  # fmt: skip
    finish: Registers = {}
    if gain != 1.0:
        finish["DPU.BN_CFG"] = {"bn_bypass": 0, "bn_mul_bypass": 0}
        finish["DPU.BN_MUL_CFG"] = {"bn_mul_operand": fp16_bits(gain)}
    registers = convolution_registers(task, finish)
    merge(registers, {"DPU.OFFSET_PEND": {"offset_pend": fill}})
    kept = {name: fields for name, fields in registers.items() if not name.startswith("DPU_RDMA.")}
    return Task(_BLOCKS, kept)


def scratch(low: Lowering, base: str, size_bytes: int) -> str:
    """Memory that only this operator uses."""
    name, number = base, 0
    while name in low.program.tensors:
        number += 1
        name = f"{base}_{number}"
    size = align(size_bytes, 64)
    low.program.tensors[name] = Tensor(
        name, Kind.INTERNAL, DataType.FLOAT16, (size // 2,), "data", native_shape=(size // 2,), size_bytes=size,
        element_bytes=2,
    )  # fmt: skip
    return name
