"""Registers that depend on what the application feeds: the input converter of the first convolution.

A picture can be fed as raw uint8 pixels; then the NPU itself subtracts the mean, divides by the standard deviation and
quantises, with one multiplication per channel. Fed in the model's own type it passes through. The runtime writes the
registers that differ before it runs; the places are in the file (`Graph.convert_patches`, `Graph.image_patches`), the
values follow the rules below, which equal what the vendor's runtime 1.5.2 writes (tests/witness).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from openrknn.chip.maps import input_registers
from openrknn.chips import Chip
from openrknn.container.model import Model
from openrknn.container.parts import DataType, Graph, InputPatch, Normalization, Tensor
from openrknn.container.schema import patch_names, patches_of
from openrknn.errors import UnsupportedError
from openrknn.isa.registers import Register


class Lane(NamedTuple):
    """One channel of the converter: `v = round(x * multiplier >> shift) + offset`."""

    shift: int
    multiplier: int
    offset: int


_LANES = 4
_LARGEST_MULTIPLIER = 32767
_MAX_SHIFT = 63
_IDENTITY = Lane(0, 1, 0)
_ALL_LANES = 0xFF


def converter_for(tensor: Tensor, normalization: Normalization) -> tuple[Lane, ...]:
    """The uint8 converter of an integer input, a lane per channel; one channel is spread over all four lanes."""
    if tensor.quantization is None:
        raise UnsupportedError(f"input {tensor.name!r} is not quantised; feed it normalised numbers")
    scale, zero_point = tensor.quantization.scale[0], tensor.quantization.zero_point[0]
    channels = [0] * _LANES if tensor.shape[1] == 1 else range(tensor.shape[1])
    return tuple(
        _lane(normalization.mean[channel], _float32(normalization.std[channel] * scale), zero_point)
        for channel in channels
    )


def _lane(mean: float, step: float, zero_point: int) -> Lane:
    """`1 / step` as a multiplier of 15 bits, as precise as it gets; in float32, as the runtime computes it."""
    if not (1 / _LARGEST_MULTIPLIER <= step < math.inf and math.isfinite(mean)):
        raise UnsupportedError(f"no converter of pixels has a step of {step:g} and a mean of {mean:g}; feed numbers")
    factor = _float32(1.0 / step)
    shift = 0
    while shift < _MAX_SHIFT and round(factor * 2 ** (shift + 1)) <= _LARGEST_MULTIPLIER:
        shift += 1
    return Lane(shift, round(factor * 2**shift), round(_float32(zero_point - _float32(mean * factor))))


def _float32(value: float) -> float:
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


def row_pixels(tensor: Tensor) -> int:
    """Pixels from one row of an image input to the next, padding included."""
    width = tensor.shape[3]
    alignment = tensor.row_alignment or 1
    return -(-width // alignment) * alignment


def input_values(model: Model, graph: Graph, raw_pixels: Mapping[str, bool]) -> Iterator[tuple[int, int]]:
    """(command, value) for every register to patch; `raw_pixels` says which inputs are fed as uint8 pixels."""
    names = {graph.tensors[index].name: number for number, index in enumerate(graph.inputs)}
    for patch in graph.convert_patches:
        if patch.input in names:
            number = names[patch.input]
            tensor = graph.tensors[graph.inputs[number]]
            if not tensor.row_alignment or not graph.normalizations:  # only pictures go through the converter
                continue
            yield from _convert(model, patch, tensor, graph.normalizations[number], raw_pixels.get(patch.input, False))
    for patch in graph.image_patches:
        if patch.input in names and model.chip.family in _ROWS:
            tensor = graph.tensors[graph.inputs[names[patch.input]]]
            if tensor.row_alignment:
                yield from _ROWS[model.chip.family](model.chip, patch, tensor)


def _convert(
    model: Model, patch: InputPatch, tensor: Tensor, normalization: Normalization, raw: bool
) -> Iterator[tuple[int, int]]:
    family, registers = model.chip.family, input_registers(model.chip)
    settings = _CONVERTERS[patches_of(family).converter]
    # The chips that compute in float16 have no converter for pictures; the others need a lane per channel.
    lanes = converter_for(tensor, normalization) if raw and tensor.dtype is not DataType.FLOAT16 else None
    slots = patch_names(family, "convert")
    for name, fields in settings(model.chip, tensor, lanes):
        place = patch.slots[slots.index(name)]
        if place is not None:
            yield place.command, _value(registers[name], fields)


def _value(register: type[Register], fields: Mapping[str, int]) -> int:
    """The fields of a register, each cut to its width: offsets that do not fit lose their upper bits."""
    known = ((register.field(key), value) for key, value in fields.items())
    return sum((value & field.code_mask) << field.low for field, value in known)


Lanes: TypeAlias = tuple[Lane, ...]
Settings: TypeAlias = Iterator[tuple[str, dict[str, int]]]
"""Register of CNA -> its fields."""


def _shifts(lanes: Sequence[Lane]) -> dict[str, int]:
    return {f"cvt_truncate_{number}": lane.shift for number, lane in enumerate(lanes)}


def _in_words(lanes: Sequence[Lane]) -> Settings:
    """RK3588 and RK3566/68: scale and offset of a lane in one register."""
    for number, lane in enumerate(lanes):
        fields = {f"cvt_scale{number}": lane.multiplier, f"cvt_offset{number}": lane.offset}
        yield f"CVT_CON{number + 1}", fields


def _rk3588(chip: Chip, tensor: Tensor, lanes: Lanes | None) -> Settings:
    if lanes is None:
        yield "CVT_CON0", {"cvt_bypass": 1, "data_sign": int(tensor.dtype is not DataType.FLOAT16)}
    else:
        yield "CVT_CON0", _shifts(lanes)
        yield from _in_words(lanes)
    yield "CVT_CON5", {"per_channel_cvt_en": 0xFFF if tensor.shape[1] == 3 else 0xFFFF}


def _rk3566(chip: Chip, tensor: Tensor, lanes: Lanes | None) -> Settings:
    if lanes is not None:
        yield "CVT_CON0", {**_shifts(lanes), "cvt_en": 1}
        yield from _in_words(lanes)
    else:
        is_float = tensor.dtype is DataType.FLOAT16
        yield "CVT_CON0", {"data_sign": int(not is_float)}
        yield from _in_words(() if is_float else (_IDENTITY,) * tensor.shape[1])


def _separate(chip: Chip, tensor: Tensor, lanes: Lanes | None) -> Settings:
    """Chips with scales and offsets in registers of their own. Their files hold the setting for uint8 pictures.

    Channels that the picture lacks have scale 1. Files have the converter off for fp16, but for a ConvTranspose (times
    1). `Chip.raises_offsets`: they are shifted up, and CVT_CON0 says which of them are odd; without conversion chips
    differ in one more bit, which is what convolutions hold that do not read pictures (inferred).
    """
    raised = chip.raises_offsets
    if lanes is None:
        yield "CVT_CON0", {"cvt_bypass": 1, "data_sign": 1, "cvt_type": int(not raised)}
        return
    four = _four(tensor, lanes)
    odd = sum((lane.offset & 1) << number for number, lane in enumerate(four))
    yield "CVT_CON0", {**_shifts(four), **({"cvt_odd": odd} if raised else {})}
    yield from _scales(four)
    for number, lane in enumerate(four):
        yield f"CVT_OFFSET{number}", {"cvt_offset": lane.offset << lane.shift if raised else lane.offset}


def _rv1106b(chip: Chip, tensor: Tensor, lanes: Lanes | None) -> Settings:
    """The files hold the setting for uint8 pictures. For int8 the converter is switched off: inferred."""
    if lanes is None:
        yield "CVT_LANES", {"cvt_lanes": 0}
        return
    four = _four(tensor, lanes)
    for number, lane in enumerate(four):
        yield f"CVT{number}", {"cvt_truncate": lane.shift, "cvt_offset": lane.offset << lane.shift}
    yield from _scales(four)
    yield "CVT_LANES", {"cvt_lanes": _ALL_LANES}


def _four(tensor: Tensor, lanes: Lanes) -> Lanes:
    channels = tensor.shape[1]
    return (*lanes[:channels], *(_IDENTITY,) * (_LANES - channels))


def _scales(four: Lanes) -> Settings:
    for first in (0, 2):
        fields = {f"cvt_scale{number}": four[number].multiplier for number in (first, first + 1)}
        yield f"CVT_SCALE{first}{first + 1}", fields


_CONVERTERS: Mapping[str, Callable[[Chip, Tensor, Lanes | None], Settings]] = {
    "rk3588": _rk3588,
    "rk3566": _rk3566,
    "rk3562": _separate,
    "rv1106b": _rv1106b,
}
"""By the family that had it first, as `Patches.converter` names it."""
_IMAGE_SLOTS = patch_names("rk3588", "image")
_SIZE, _LINE, _SURFACE = map(_IMAGE_SLOTS.index, ("DATA_SIZE0", "DMA_CON1", "DMA_CON2"))


def _rows(chip: Chip, patch: InputPatch, tensor: Tensor) -> Iterator[tuple[int, int]]:
    """Rows that are padded in memory make the image wider; the output size stays, so the padding is never used."""
    width, pixels = tensor.shape[3], row_pixels(tensor)
    if pixels == width:
        return
    size, line, surface = patch.slots[_SIZE], patch.slots[_LINE], patch.slots[_SURFACE]
    if size is not None:
        register = input_registers(chip)["DATA_SIZE0"]
        stored = register(size.value)
        yield size.command, register.encode({**stored.values(), "datain_width": pixels}, stored.undeclared)
    if line is not None:
        yield line.command, line.value // width * pixels
    if surface is not None:
        yield surface.command, surface.value // width * pixels


def _lines(chip: Chip, patch: InputPatch, tensor: Tensor) -> Iterator[tuple[int, int]]:
    """RK3566/68: the line stride counts atoms; the file has that of rows without padding."""
    line, size = patch.slots[_LINE], 2 if tensor.dtype is DataType.FLOAT16 else 1
    if line is not None:
        yield line.command, row_pixels(tensor) * tensor.shape[1] * size // chip.atom_bytes


_ROWS = {"rk3588": _rows, "rk3566": _lines}
