"""How a convolution is cut into tasks: bands of rows, and for depthwise ones chunks of channels.

The convolution buffer (CBUF) of an RK3588 core has 12 banks of 512 entries of 64 bytes, shared by data and weights.
Rows of the input have to fit in the banks for data; weights are streamed through the rest. The rules are those of the
vendor's converter (equal on 1250 of 1251 operators of real networks), so no task asks for more than boards have seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from openrknn.compiler.errors import UnsupportedOperatorError
from openrknn.compiler.formats import Format, align, ceil_div

__all__ = ["Band", "Shape", "row_entries", "tile"]

BANKS = 12
BANK_BYTES = 32768
BANK_ENTRIES = 512
PIXELS_PER_BANK = 2048
"""Of a picture: one atom per pixel."""
_LARGEST_DATA = 11
_SINGLE_BAND_DATA = 9
_STREAMED_BYTES = 64


@dataclass(frozen=True, slots=True)
class Shape:
    """What decides about the cut."""

    channels: int
    height: int
    """Rows of the input that are used."""
    width: int
    """Columns that are read; transposed: with the pad values between them."""
    out_height: int
    kernel: tuple[int, int]
    stride: int
    dilation: int
    pad_top: int
    depthwise: bool
    stored_kernels: int
    """1 for depthwise."""
    kernel_channels: int
    """Channels of one kernel as they are stored; of the first chunk for depthwise."""
    picture_row: int
    """Pixels of a row in memory, 0 for feature maps."""
    spread: int = 1
    """Transposed: distance of input rows once pad values stand between them."""

    @property
    def reach(self) -> int:
        return (self.kernel[0] - 1) * self.dilation + 1


@dataclass(frozen=True, slots=True)
class Band:
    """One task."""

    channel: int
    channels: int
    row: int
    rows: int
    out_row: int
    out_rows: int
    pad_top: int
    data_banks: int
    weight_banks: int
    reuses_weights: bool


def row_entries(channels: int, width: int, format: Format) -> int:  # noqa: A002
    """Entries of 64 bytes that one row of a feature map takes."""
    whole, rest = divmod(format.surfaces(channels), 4)
    return whole * width + (width if rest == 3 else ceil_div(rest * width, 4))


def tile(shape: Shape, format: Format, name: str) -> list[Band]:  # noqa: A002
    """Bands from top to bottom, in each the chunks of channels."""
    chunks = list(_chunks(shape, format))
    first = chunks[0][1]
    stored = shape.kernel_channels
    if shape.depthwise:
        stored = min(stored, align(first, format.depthwise_group))
    kernel_bytes = shape.kernel[0] * shape.kernel[1] * stored * format.element_bytes
    all_weights = ceil_div(kernel_bytes * shape.stored_kernels, BANK_BYTES)
    few_weights = _few_weights(shape, format, first, kernel_bytes)
    data = _banks(shape, format, first, shape.height)
    if data + all_weights <= BANKS or (data <= _SINGLE_BAND_DATA and data + few_weights <= BANKS):
        rows, weight = shape.height, BANKS - data
        if shape.spread > 1:  # as the vendor does: what the weights leave is for data
            weight = max(1, min(all_weights, weight))
            data = BANKS - weight
    else:
        weight = all_weights
        if all_weights > _LARGEST_DATA or _rows(shape, format, first, BANKS - all_weights) * shape.spread < shape.reach:
            weight = few_weights
        data = BANKS - weight
        rows = _rows(shape, format, first, data)
        if rows * shape.spread < shape.reach + shape.spread - 1 or data < 1:
            raise UnsupportedOperatorError(
                f"{name!r}: {shape.reach} rows of {shape.channels} channels and {shape.width} columns do not fit into "
                "the NPU's buffer; make the input narrower"
            )
    fits = kernel_bytes * shape.stored_kernels <= weight * BANK_BYTES and len(chunks) == 1
    return list(_bands(shape, rows, data, weight, chunks, fits))


def _few_weights(shape: Shape, format: Format, channels: int, kernel_bytes: int) -> int:  # noqa: A002
    """Banks for the kernels that are at work while the next ones come: 64 bytes of outputs, fewer if they must be."""
    banks = BANKS
    for kernels in (_STREAMED_BYTES, _STREAMED_BYTES // 2, _STREAMED_BYTES // 4):
        banks = ceil_div(kernel_bytes * min(shape.stored_kernels, kernels // format.element_bytes), BANK_BYTES)
        if banks < BANKS and _rows(shape, format, channels, BANKS - banks) * shape.spread >= shape.reach:
            break
    return banks


def _banks(shape: Shape, format: Format, channels: int, rows: int) -> int:  # noqa: A002
    if shape.picture_row:
        return ceil_div(shape.picture_row * rows, PIXELS_PER_BANK)
    return ceil_div(row_entries(channels, shape.width, format) * rows * shape.spread, BANK_ENTRIES)


def _rows(shape: Shape, format: Format, channels: int, banks: int) -> int:  # noqa: A002
    if shape.picture_row:
        return banks * PIXELS_PER_BANK // shape.picture_row
    return banks * BANK_ENTRIES // row_entries(channels, shape.width, format) // shape.spread


def _chunks(shape: Shape, format: Format) -> Iterator[tuple[int, int]]:  # noqa: A002
    group = format.depthwise_group
    size = shape.channels
    if shape.depthwise and size > group and _banks(shape, format, align(size, group), shape.height) > _LARGEST_DATA:
        size = align(size, group) - group
        while size > group and _banks(shape, format, size, shape.height) > _LARGEST_DATA:
            size -= group
    # Tall kernels: as many rows as one window has must fit beside the chunk's weights.
    taps = shape.kernel[0] * shape.kernel[1] * format.element_bytes
    while shape.depthwise and size > group:
        left = BANKS - ceil_div(taps * align(size, group), BANK_BYTES)
        if left > 0 and _rows(shape, format, size, left) * shape.spread >= shape.reach + shape.spread - 1:
            break
        size = align(size, group) - group
    for start in range(0, shape.channels, size):
        yield start, min(size, shape.channels - start)


def _bands(
    shape: Shape, rows: int, data: int, weight: int, chunks: list[tuple[int, int]], fits: bool
) -> Iterator[Band]:
    if shape.spread > 1:
        yield from _spread_bands(shape, rows, data, weight, chunks)
        return
    out = 0
    while out < shape.out_height:
        start = out * shape.stride - shape.pad_top
        pad, start = max(0, -start), max(0, start)
        count = min(rows, shape.height - start)
        if start + count >= shape.height:
            made = shape.out_height - out
        else:
            made = min((count + pad - shape.reach) // shape.stride + 1, shape.out_height - out)
            count = (made - 1) * shape.stride + shape.reach - pad
        for channel, channels in chunks:
            yield Band(channel, channels, start, count, out, made, pad, data, weight, fits and out > 0)
        out += made


def _spread_bands(shape: Shape, rows: int, data: int, weight: int, chunks: list[tuple[int, int]]) -> Iterator[Band]:
    """Transposed: a band starts at the first input row that any of its output rows needs."""
    out = 0
    while out < shape.out_height:
        top = out - shape.pad_top
        first = max(0, ceil_div(top, shape.spread))
        pad = first * shape.spread - top
        last_row = min(first + rows, shape.height) - 1
        if last_row == shape.height - 1:
            made = shape.out_height - out
        else:
            # Everything before the first row that is not there any more.
            made = min((last_row + 1) * shape.spread - top - shape.reach + 1, shape.out_height - out)
        for channel, channels in chunks:
            yield Band(channel, channels, first, last_row - first + 1, out, made, pad, data, weight, False)
        out += made
