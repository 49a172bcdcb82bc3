"""How a convolution is cut into tasks: bands of rows, for depthwise ones chunks of channels, and stripes of columns.

The convolution buffer (CBUF, see `targets.Buffer`) has banks that data and weights share. Rows of the input have to fit
in the banks for data; weights are streamed through the rest. The rules are those of the vendor's converter, so no task
asks for more than boards have seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from openrknn.chip import limits
from openrknn.compiler.budget import MOST_TASKS, refuse_tasks
from openrknn.compiler.errors import UnsupportedOperatorError
from openrknn.compiler.formats import Format, align, ceil_div
from openrknn.compiler.targets import Buffer
from openrknn.compiler.tile.bands import Band, Shape
from openrknn.compiler.tile.columns import LONGEST, Axis, Columns, column_windows, fold

__all__ = ["Band", "Shape", "folded", "row_entries", "tile"]


def row_entries(channels: int, width: int, format: Format, buffer: Buffer) -> int:  # noqa: A002
    """Entries that one row of a feature map takes."""
    return limits.row_entries(format.surfaces(channels), width, buffer.entry_atoms)


_SHARED = 64
"""Pixels of one row that are worth being shared by cores."""
_STRIPES = 512
"""More of them, and a window itself does not fit."""
_MOST_TRIED = 4 * MOST_TASKS
"""Bands of all cuts that are compared."""


class _TooManyError(Exception):
    """A cut of more bands than an operator may have tasks."""


def tile(shape: Shape, format: Format, name: str) -> list[Band]:  # noqa: A002
    """Bands from top to bottom, in each the chunks of channels; stripes of columns from left to right if need be."""
    try:
        whole = _whole(shape, format)
        if whole is not None:
            return whole[0]
        axis = shape.axis
        if axis is not None and not shape.picture_row:
            found = list(_striped(shape, axis, format))
            if found:
                return min(found, key=lambda bands: (_cost(bands, shape), len(bands)))
    except _TooManyError:
        refuse_tasks(name, name)
    raise UnsupportedOperatorError(
        f"{name!r}: {shape.reach} rows of {shape.channels} channels and {shape.width} columns do not fit into "
        "the NPU's buffer; make the input narrower"
    )


def _striped(shape: Shape, axis: Axis, format: Format) -> Iterator[list[Band]]:  # noqa: A002
    """The fewest stripes that fit, and some more of them: lower stripes read fewer rows twice."""
    tried = work = 0
    least = ceil_div(max(axis.out, axis.size), LONGEST)
    if least > MOST_TASKS:
        raise _TooManyError
    for count in range(max(2, least), min(axis.out, least + _STRIPES) + 1):
        windows = column_windows(axis, count)
        try:
            bands = None if windows is None else _stripes(shape, windows, format)
        except _TooManyError:  # narrower stripes are higher: these may be fewer
            bands, work = None, work + MOST_TASKS
        if bands is not None:
            tried, work = tried + 1, work + len(bands)
            yield bands
        if tried > 0 and (tried > least + 2 or shape.out_height == 1 or work > _MOST_TRIED):
            return
        if work > _MOST_TRIED:
            raise _TooManyError


def _stripes(shape: Shape, windows: list[Columns], format: Format) -> list[Band] | None:  # noqa: A002
    """All bands of a stripe, then the next stripe. Weights stay where they are if the banks are shared out alike."""
    found: list[Band] = []
    for window in windows:
        if max(window.columns, window.out_columns) > LONGEST:
            return None
        share = shape.width // shape.axis.size if shape.axis is not None else 1
        part = replace(
            shape, width=window.columns * share, pixels=window.out_columns * shape.out_height, axis=None,
            most_out=LONGEST if shape.can_skip else 1,
        )  # fmt: skip
        made = _whole(part, format)
        if made is None:
            return None
        bands, fits = made
        if found and fits and found[-1].weight_banks == bands[0].weight_banks:
            bands = [replace(bands[0], reuses_weights=True), *bands[1:]]
        found += [replace(band, columns=window) for band in bands]
        if len(found) > MOST_TASKS:
            raise _TooManyError
    return found


def folded(shape: Shape, format: Format, *, wants_rows: bool = False) -> Shape:  # noqa: A002
    """A 1x1 convolution over pixels that lie one after the other: as rows and columns that fit, or can be shared."""
    try:
        return _folded(shape, format, wants_rows=wants_rows)
    except _TooManyError:  # `tile` says so
        return shape


def _folded(shape: Shape, format: Format, *, wants_rows: bool) -> Shape:  # noqa: A002
    axis = shape.axis
    if axis is None or shape.kernel != (1, 1) or shape.stride != 1 or axis.stride != 1 or shape.spread > 1:
        return shape
    pixels = shape.out_height * axis.out
    is_whole = shape.height == shape.out_height and axis.size == axis.out and shape.pad_top == axis.pad == 0
    sides = fold(pixels) if is_whole and not shape.picture_row else None
    fits = _whole(shape, format) is not None
    if sides is None or (fits and not (wants_rows and shape.out_height == 1 and pixels >= _SHARED)):
        return shape
    rows, columns = sides
    made = replace(shape, height=rows, out_height=rows, width=columns, axis=axis._replace(size=columns, out=columns))
    bands = _whole(made, format)
    if bands is None:
        return shape
    if not fits:
        cut = list(_striped(shape, axis, format))
        if cut and min(map(len, cut)) < len(bands[0]):
            return shape
    return made


def _cost(bands: list[Band], shape: Shape) -> int:
    """Pixels that are read, as they are spread over channels."""
    return sum(band.rows * (band.columns.columns if band.columns else shape.width) * band.channels for band in bands)


def _whole(shape: Shape, format: Format) -> tuple[list[Band], bool] | None:  # noqa: A002
    """Bands of whole rows, and whether weights stay in the buffer from one to the next; None if rows are too long."""
    buffer = shape.buffer
    if shape.axis is not None and max(shape.axis.size, shape.axis.out) > LONGEST:
        return None
    chunks = list(_chunks(shape, format))
    first = chunks[0][1]
    stored = shape.kernel_channels
    if shape.depthwise:
        stored = min(stored, align(first, format.depthwise_group))
    kernel_bytes = shape.kernel[0] * shape.kernel[1] * stored * format.element_bytes
    all_weights = _spared(shape, format, kernel_bytes, ceil_div(kernel_bytes * shape.stored_kernels, buffer.bank_bytes))
    few_weights = _spared(shape, format, kernel_bytes, _few_weights(shape, format, first, kernel_bytes))
    if buffer.data_banks:
        return _fixed(shape, format, chunks, kernel_bytes)
    data = _banks(shape, format, first, shape.height)
    is_low = shape.height <= LONGEST and shape.out_height <= shape.most_out
    if is_low and (
        data + all_weights <= buffer.banks or (data <= buffer.single_band_data and data + few_weights <= buffer.banks)
    ):
        rows, weight = shape.height, buffer.banks - data
        if buffer.fills:
            weight = all_weights if data + all_weights <= buffer.banks else few_weights
        if shape.spread > 1 or buffer.fills:  # as the vendor does: what the weights leave is for data
            weight = max(1, min(all_weights, weight))
            data = buffer.banks - weight
    else:
        weight = all_weights if buffer.keeps_weights or shape.spread > 1 else few_weights
        if weight >= buffer.banks or _rows(shape, format, first, buffer.banks - weight) * shape.spread < shape.reach:
            weight = few_weights
        data = buffer.banks - weight
        rows = min(_rows(shape, format, first, data), LONGEST)
        if rows * shape.spread < shape.reach + shape.spread - 1 or data < 1:
            return None
    fits = kernel_bytes * shape.stored_kernels <= weight * buffer.bank_bytes
    if buffer.chunks_first:
        bands = _by_chunks(shape, format, rows, data, chunks, fits)
    else:
        bands = list(_bands(shape, rows, data, weight, chunks, fits and len(chunks) == 1))
    if fits or not buffer.cuts_pointwise or shape.kernel != (1, 1) or shape.pixels <= 1:
        return bands, fits and len(chunks) == 1
    count = weight * buffer.bank_bytes // kernel_bytes // format.group * format.group
    return [replace(band, kernel=kernel, kernels=min(count, shape.stored_kernels - kernel))
            for band in bands for kernel in range(0, shape.stored_kernels, count)], False  # fmt: skip


def _by_chunks(
    shape: Shape, format: Format, rows: int, data: int, chunks: list[tuple[int, int]], fits: bool,  # noqa: A002
) -> list[Band]:  # fmt: skip
    """All bands of a chunk, then the next chunk."""
    buffer = shape.buffer
    bands: list[Band] = []
    for chunk in chunks:
        is_whole = rows == shape.height and shape.spread == 1 and not buffer.fills
        own = _banks(shape, format, chunk[1], shape.height) if is_whole else data
        most = rows
        if buffer.fills and len(chunks) > 1:  # the last chunk may be smaller
            most = max(rows, min(_rows(shape, format, chunk[1], own), shape.height, LONGEST))
        made = list(_bands(shape, most, own, buffer.banks - own, [chunk], fits))
        bands += _ring(shape, format, made) if buffer.keeps_rows else made
    return bands


def _fixed(
    shape: Shape, format: Format, chunks: list[tuple[int, int]], kernel_bytes: int  # noqa: A002
) -> tuple[list[Band], bool] | None:
    """Where data have one of a few shares of the buffer, and weights always stream."""
    buffer = shape.buffer
    streamed = kernel_bytes * min(shape.stored_kernels, buffer.streamed_bytes[0] // format.element_bytes)
    room = (buffer.banks - buffer.data_banks[-1]) * buffer.bank_bytes
    is_light = streamed <= (buffer.light_bytes if shape.spread == 1 else room)
    choices = buffer.data_banks if is_light else buffer.data_banks[:1]
    bands: list[Band] = []
    fits = False
    for chunk in chunks:
        needed = _banks(shape, format, chunk[1], shape.height)
        data = next((count for count in choices if needed <= count), choices[-1])
        rows = min(shape.height, _rows(shape, format, chunk[1], data), LONGEST)
        if rows < shape.height and rows * shape.spread < shape.reach + shape.spread - 1:
            return None
        weight = buffer.banks - data
        fits = kernel_bytes * shape.stored_kernels <= weight * buffer.bank_bytes and shape.spread == 1
        made = list(_bands(shape, rows, data, weight, [chunk], fits))
        bands += _ring(shape, format, made) if buffer.keeps_rows else made
    return bands, fits and len(chunks) == 1


def _spared(shape: Shape, format: Format, kernel_bytes: int, banks: int) -> int:  # noqa: A002
    """These banks of weights, and one more where a group of kernels would fill them and hang the NPU."""
    group = kernel_bytes * min(shape.stored_kernels, format.group)
    hangs = shape.buffer.chip.known_cbuf.full_group_hangs and not shape.depthwise
    return banks + (hangs and banks * shape.buffer.bank_bytes == group)


def _few_weights(shape: Shape, format: Format, channels: int, kernel_bytes: int) -> int:  # noqa: A002
    """Banks for the kernels that are at work while the next ones come; fewer of them if they must be."""
    most = shape.buffer.banks
    banks = most
    for kernels in shape.buffer.streamed_bytes if shape.spread == 1 else shape.buffer.spread_streamed_bytes:
        streamed = kernel_bytes * min(shape.stored_kernels, kernels // format.element_bytes)
        banks = min(ceil_div(streamed, shape.buffer.bank_bytes), shape.buffer.most_streamed or most)
        if banks < most and _rows(shape, format, channels, most - banks) * shape.spread >= shape.reach:
            break
    if shape.buffer.least_streamed and shape.spread == 1:
        banks = max(banks + (shape.pixels == 1), shape.buffer.least_streamed)
    return min(banks, ceil_div(kernel_bytes * shape.stored_kernels, shape.buffer.bank_bytes))


def _banks(shape: Shape, format: Format, channels: int, rows: int) -> int:  # noqa: A002
    if shape.picture_row:
        return ceil_div(shape.picture_row * rows, _pixels(shape, format))
    entries = row_entries(channels, shape.width, format, shape.buffer)
    return ceil_div(entries * rows * shape.room, shape.buffer.bank_entries)


def _pixels(shape: Shape, format: Format) -> int:  # noqa: A002
    """Pixels of a picture in a bank."""
    return shape.buffer.bank_bytes // shape.buffer.chip.cbuf_pixel_bytes(format.element_bytes)


def _rows(shape: Shape, format: Format, channels: int, banks: int) -> int:  # noqa: A002
    if shape.picture_row:
        return banks * _pixels(shape, format) // shape.picture_row
    return banks * shape.buffer.bank_entries // row_entries(channels, shape.width, format, shape.buffer) // shape.room


def _chunks(shape: Shape, format: Format) -> Iterator[tuple[int, int]]:  # noqa: A002
    group = format.depthwise_group
    most = shape.buffer.data_banks[-1] if shape.buffer.data_banks else shape.buffer.banks - 1
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
    for number, band in enumerate(_all_bands(shape, rows, data, weight, chunks, fits)):
        if number >= MOST_TASKS:
            raise _TooManyError
        yield band


def _all_bands(
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
            made = min(shape.out_height - out, shape.most_out)
        else:
            made = min((count + pad - shape.reach) // shape.stride + 1, shape.out_height - out, shape.most_out)
        count = min(count, (made - 1) * shape.stride + shape.reach - pad)
        for channel, channels in chunks:
            yield Band(channel, channels, start, count, out, made, pad, data, weight, fits and out > 0)
        out += made


def _ring(shape: Shape, format: Format, bands: list[Band]) -> list[Band]:  # noqa: A002
    """int8 maps: rows that a band shares with the one before stay in the buffer, which goes round."""
    if format.element_bytes > 1 or shape.spread > 1 or shape.picture_row:
        return bands
    found = bands[:1]
    for band in bands[1:]:
        before = found[-1]
        kept = max(0, before.row + before.rows - band.row)
        entries = row_entries(band.channels, shape.width, format, shape.buffer)
        at = (before.entry + (before.rows - kept) * entries) % (band.data_banks * shape.buffer.bank_entries)
        found.append(replace(band, kept=kept, entry=at if kept else 0))
    return found


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
        made = min(made, shape.most_out)
        for channel, channels in chunks:
            yield Band(channel, channels, first, last_row - first + 1, out, made, pad, data, weight, fits and out > 0)
        out += made
