"""Registers that depend on what the application feeds: the input converter of the first convolution.

A picture can be fed as raw uint8 pixels; then the NPU itself subtracts the mean, divides by the standard deviation and
quantises, with one multiplication per channel. Fed in the model's own type it passes through. The runtime writes the
registers that differ before it runs; the places are in the file (`Graph.convert_patches`, `Graph.image_patches`), the
values follow the rules below, which equal what the vendor's runtime 1.5.2 writes (tests/witness).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from openrknn.container.model import Model
from openrknn.container.parts import DataType, Graph, InputPatch, Normalization, Tensor
from openrknn.errors import UnsupportedError

__all__ = ["Lane", "converter_for", "input_values", "row_pixels"]

_LANES = 4
_LARGEST_MULTIPLIER = 32767
_MAX_SHIFT = 63
_IDENTITY_SCALE = 0x10000
_RK3566_CONVERT = 1
"""RK3566/68 switch the converter on with this bit; RK3588 switches it off."""
_RV1106B_CONVERT = 0xFF00_0000
_WIDTH_SHIFT = 16


class Lane(NamedTuple):
    """One channel of the converter: `v = round(x * multiplier >> shift) + offset`."""

    shift: int
    multiplier: int
    offset: int


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
                yield from _ROWS[model.chip.family](patch, tensor)


def _convert(
    model: Model, patch: InputPatch, tensor: Tensor, normalization: Normalization, raw: bool
) -> Iterator[tuple[int, int]]:
    if model.chip.family == "rk3588":
        values = _rk3588(tensor, normalization, raw=raw)
    elif model.chip.family == "rk3566":
        values = _rk3566(tensor, normalization, raw=raw)
    elif model.chip.family == "rv1106b":
        values = _rv1106b(tensor, normalization, raw=raw)
    elif model.chip.family in _SEPARATE:
        values = _separate(tensor, normalization, _SEPARATE[model.chip.family], raw=raw)
    else:
        raise UnsupportedError(
            f"the input converter of {model.chip.title} is not known yet; it is for {', '.join(_KNOWN)}"
        )
    for slot, value in values.items():
        place = patch.slots[slot]
        if place is not None:
            yield place.command, value


def _lane_registers(lanes: tuple[Lane, ...]) -> dict[int, int]:
    shifts = sum(lane.shift << (4 + 6 * number) for number, lane in enumerate(lanes))
    return {0: shifts} | {1 + number: lane.multiplier << 16 | lane.offset & 0xFFFF for number, lane in enumerate(lanes)}


def _rk3588(tensor: Tensor, normalization: Normalization, *, raw: bool) -> dict[int, int]:
    mask = {5: 0xFFF if tensor.shape[1] == 3 else 0xFFFF}
    is_float = tensor.dtype is DataType.FLOAT16
    if raw and not is_float:
        return _lane_registers(converter_for(tensor, normalization)) | mask
    return {0: 1 if is_float else 9} | mask


def _rk3566(tensor: Tensor, normalization: Normalization, *, raw: bool) -> dict[int, int]:
    if tensor.dtype is DataType.FLOAT16:
        return {0: 0}
    if raw:
        registers = _lane_registers(converter_for(tensor, normalization))
        return registers | {0: registers[0] | _RK3566_CONVERT}
    return {0: 8, **{1 + channel: _IDENTITY_SCALE for channel in range(tensor.shape[1])}}


class _Separate(NamedTuple):
    """Chips with scales and offsets in registers of their own. Their files hold the setting for uint8 pictures."""

    off: int
    """CVT_CON0 without conversion, signed: what convolutions hold that do not read pictures. Inferred."""
    raised: bool
    """Offsets are shifted up, and CVT_CON0 says which of them are odd."""


_SEPARATE = {
    "rv1106": _Separate(off=0x09, raised=True),
    "rk3562": _Separate(off=0x0B, raised=False),
    "rk3576": _Separate(off=0x0B, raised=False),
}
_KNOWN = ("rk3588", "rk3566", *_SEPARATE, "rv1106b")


def _separate(tensor: Tensor, normalization: Normalization, form: _Separate, *, raw: bool) -> dict[int, int]:
    """Slots: shifts, two registers of scales, four of offsets. Channels that the picture lacks have scale 1."""
    if not raw or tensor.dtype is DataType.FLOAT16:  # files have it off for fp16, but for a ConvTranspose (times 1)
        return {0: form.off}
    channels = tensor.shape[1]
    lanes = [*converter_for(tensor, normalization)[:channels], *[Lane(0, 1, 0)] * (_LANES - channels)]
    shifts = sum(lane.shift << (4 + 6 * number) for number, lane in enumerate(lanes))
    offsets = [lane.offset << lane.shift if form.raised else lane.offset for lane in lanes]
    odd = sum((lane.offset & 1) << (28 + number) for number, lane in enumerate(lanes)) if form.raised else 0
    low, high = (lanes[at].multiplier | lanes[at + 1].multiplier << 16 for at in (0, 2))
    return {0: shifts | odd, 1: low, 2: high, **{3 + number: offset for number, offset in enumerate(offsets)}}


def _rv1106b(tensor: Tensor, normalization: Normalization, *, raw: bool) -> dict[int, int]:
    """Slots: shift and raised offset of each channel, two registers of scales; slot 11 switches the converter on.

    The files hold the setting for uint8 pictures. For int8 the converter is switched off: inferred.
    """
    if not raw:
        return {11: 0}
    channels = tensor.shape[1]
    lanes = [*converter_for(tensor, normalization)[:channels], *[Lane(0, 1, 0)] * (_LANES - channels)]
    offsets = [lane.shift << 26 | lane.offset << lane.shift & 0x1FF_FFFF for lane in lanes]
    low, high = (lanes[at].multiplier | lanes[at + 1].multiplier << 16 for at in (0, 2))
    return {**dict(enumerate(offsets)), 4: low, 5: high, 11: _RV1106B_CONVERT}


def _rows(patch: InputPatch, tensor: Tensor) -> Iterator[tuple[int, int]]:
    """Rows that are padded in memory make the image wider; the output size stays, so the padding is never used."""
    width, pixels = tensor.shape[3], row_pixels(tensor)
    if pixels == width:
        return
    size, line, surface = patch.slots[0], patch.slots[3], patch.slots[4]
    if size is not None:
        yield size.command, size.value & 0xFFFF | pixels << _WIDTH_SHIFT
    if line is not None:
        yield line.command, line.value // width * pixels
    if surface is not None:
        yield surface.command, surface.value // width * pixels


def _lines(patch: InputPatch, tensor: Tensor) -> Iterator[tuple[int, int]]:
    """RK3566/68: the line stride counts 8 bytes; the file has that of rows without padding."""
    line, size = patch.slots[3], 2 if tensor.dtype is DataType.FLOAT16 else 1
    if line is not None:
        yield line.command, row_pixels(tensor) * tensor.shape[1] * size // _LITE_ATOM


_ROWS = {"rk3588": _rows, "rk3566": _lines}
_LITE_ATOM = 8
