"""How a convolution is cut into tasks: bands of rows, and for depthwise ones chunks of channels.

The convolution buffer (CBUF, see `targets.Buffer`) has banks that data and weights share. Rows of the input have to fit
in the banks for data; weights are streamed through the rest. The rules are those of the vendor's converter, so no task
asks for more than boards have seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from openrknn.compiler.errors import UnsupportedOperatorError
from openrknn.compiler.formats import Format, align, ceil_div
from openrknn.compiler.targets import RK3588, Buffer

__all__ = ["Band", "Shape", "row_entries", "tile"]

_ENTRY_ATOMS = 4


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
    pixels: int = 0
    """Of the output."""
    buffer: Buffer = RK3588.buffer

    @property
    def reach(self) -> int:
        return (self.kernel[0] - 1) * self.dilation + 1

    @property
    def room(self) -> int:
        """Rows that one row of the input takes in the buffer."""
        return self.spread if self.buffer.counts_spread else 1


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
    kernel: int = 0
    kernels: int = 0
    """Where kernels are cut: how many of them, from `kernel` on; 0: all."""


def row_entries(channels: int, width: int, format: Format) -> int:  # noqa: A002
    """Entries of four atoms that one row of a feature map takes."""
    whole, rest = divmod(format.surfaces(channels), 4)
    return whole * width + (width if rest == 3 else ceil_div(rest * width, 4))


def tile(shape: Shape, format: Format, name: str) -> list[Band]:  # noqa: A002
    """Bands from top to bottom, in each the chunks of channels."""
    buffer = shape.buffer
    chunks = list(_chunks(shape, format))
    first = chunks[0][1]
    stored = shape.kernel_channels
    if shape.depthwise:
        stored = min(stored, align(first, format.depthwise_group))
    kernel_bytes = shape.kernel[0] * shape.kernel[1] * stored * format.element_bytes
    all_weights = ceil_div(kernel_bytes * shape.stored_kernels, buffer.bank_bytes)
    few_weights = _few_weights(shape, format, first, kernel_bytes)
    data = _banks(shape, format, first, shape.height)
    if data + all_weights <= buffer.banks or (data <= buffer.single_band_data and data + few_weights <= buffer.banks):
        rows, weight = shape.height, buffer.banks - data
        if shape.spread > 1:  # as the vendor does: what the weights leave is for data
            weight = max(1, min(all_weights, weight))
            data = buffer.banks - weight
    else:
        weight = all_weights if buffer.keeps_weights or shape.spread > 1 else few_weights
        if weight >= buffer.banks or _rows(shape, format, first, buffer.banks - weight) * shape.spread < shape.reach:
            weight = few_weights
        data = buffer.banks - weight
        rows = _rows(shape, format, first, data)
        if rows * shape.spread < shape.reach + shape.spread - 1 or data < 1:
            raise UnsupportedOperatorError(
                f"{name!r}: {shape.reach} rows of {shape.channels} channels and {shape.width} columns do not fit into "
                "the NPU's buffer; make the input narrower"
            )
    fits = kernel_bytes * shape.stored_kernels <= weight * buffer.bank_bytes
    if buffer.chunks_first:
        bands: list[Band] = []
        for chunk in chunks:
            own = _banks(shape, format, chunk[1], shape.height) if rows == shape.height and shape.spread == 1 else data
            bands += _bands(shape, rows, own, buffer.banks - own, [chunk], fits)
    else:
        bands = list(_bands(shape, rows, data, weight, chunks, fits and len(chunks) == 1))
    if fits or not buffer.cuts_pointwise or shape.kernel != (1, 1) or shape.pixels <= 1:
        return bands
    count = weight * buffer.bank_bytes // kernel_bytes // format.group * format.group
    return [replace(band, kernel=kernel, kernels=min(count, shape.stored_kernels - kernel))
            for band in bands for kernel in range(0, shape.stored_kernels, count)]  # fmt: skip


def _few_weights(shape: Shape, format: Format, channels: int, kernel_bytes: int) -> int:  # noqa: A002
    """Banks for the kernels that are at work while the next ones come; fewer of them if they must be."""
    most = shape.buffer.banks
    banks = most
    for kernels in shape.buffer.streamed_bytes if shape.spread == 1 else shape.buffer.spread_streamed_bytes:
        streamed = kernel_bytes * min(shape.stored_kernels, kernels // format.element_bytes)
        banks = ceil_div(streamed, shape.buffer.bank_bytes)
        if banks < most and _rows(shape, format, channels, most - banks) * shape.spread >= shape.reach:
            break
    return banks


def _banks(shape: Shape, format: Format, channels: int, rows: int) -> int:  # noqa: A002
    if shape.picture_row:  # one atom per pixel
        return ceil_div(shape.picture_row * rows, _ENTRY_ATOMS * shape.buffer.bank_entries)
    return ceil_div(row_entries(channels, shape.width, format) * rows * shape.room, shape.buffer.bank_entries)


def _rows(shape: Shape, format: Format, channels: int, banks: int) -> int:  # noqa: A002
    if shape.picture_row:
        return banks * _ENTRY_ATOMS * shape.buffer.bank_entries // shape.picture_row
    return banks * shape.buffer.bank_entries // row_entries(channels, shape.width, format) // shape.room


def _chunks(shape: Shape, format: Format) -> Iterator[tuple[int, int]]:  # noqa: A002
    group = format.depthwise_group
    most = shape.buffer.banks - 1
    size = shape.channels
    if shape.depthwise and size > group and _banks(shape, format, align(size, group), shape.height) > most:
        size = align(size, group) - group
        while size > group and _banks(shape, format, size, shape.height) > most:
            size -= group
    # Tall kernels: as many rows as one window has must fit beside the chunk's weights.
    taps = shape.kernel[0] * shape.kernel[1] * format.element_bytes
    while shape.depthwise and size > group:
        left = shape.buffer.banks - ceil_div(taps * align(size, group), shape.buffer.bank_bytes)
        if left > 0 and _rows(shape, format, size, left) * shape.spread >= shape.reach + shape.spread - 1:
            break
        size = align(size, group) - group
    for start in range(0, shape.channels, size):
        yield start, min(size, shape.channels - start)


def _bands(
    shape: Shape, rows: int, data: int, weight: int, chunks: list[tuple[int, int]], fits: bool
) -> Iterator[Band]:
    if shape.spread > 1:
        yield from _spread_bands(shape, rows, data, weight, chunks, fits and not shape.buffer.counts_spread)
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


def _spread_bands(
    shape: Shape, rows: int, data: int, weight: int, chunks: list[tuple[int, int]], fits: bool
) -> Iterator[Band]:
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
            yield Band(channel, channels, first, last_row - first + 1, out, made, pad, data, weight, fits and out > 0)
        out += made
