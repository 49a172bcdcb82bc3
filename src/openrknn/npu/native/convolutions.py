"""Convolutions as structures of the native library: input, converter, corrections, packed weights."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from openrknn.isa import Precision
from openrknn.isa.enums import ChannelReduction
from openrknn.nativelib import structures
from openrknn.nativelib.structures import StepStructure
from openrknn.npu.blocks import cna
from openrknn.npu.blocks.formats import Numbers, decode
from openrknn.npu.memory import Bytes
from openrknn.npu.native import chain
from openrknn.npu.native.context import INT8_MAGNITUDE, KernelContext
from openrknn.npu.native.places import Places, padded
from openrknn.npu.native.program import HALF_BYTES, LANES, Task, choose_stages, describe
from openrknn.npu.native.reading import Reading, RefusedError, ignore, whole
from openrknn.npu.native.rows import join_rows
from openrknn.npu.task import Convolution
from openrknn.task import cna as task_cna
from openrknn.task.formats import ATOM_BYTES, MIXED, element_bits, element_bytes, is_float, surfaces_of

_INT32 = 2**31
_LARGEST_KERNEL = 32
_PICTURE_CHANNELS = 4
_CONVOLVED = {Precision.INT8, Precision.FP16, Precision.BF16, Precision.INT4}
_NATIVE_INT4 = 17
"""OPENRKNN_INT4."""


def convolution(reading: Reading[Convolution], places: Places, context: KernelContext) -> StepStructure:
    """The structure of a convolution; RefusedError where no kernel fits."""
    step = reading.step
    source, config = step.source, step.dpu
    ignore(source, "reuses_weights")
    ignore(config.write, "transposes_atoms", "transposed_lanes")
    if source.atom_bytes != config.write.atom_bytes or source.atom_bytes not in {ATOM_BYTES, HALF_BYTES}:
        raise RefusedError("atoms of another size")
    if source.precision not in _CONVOLVED or source.arithmetic is not source.precision:
        raise RefusedError(f"{source.precision.name} convolution")
    if source.precision is Precision.INT4 and (source.packed_channels or source.atom_bytes != ATOM_BYTES):
        raise RefusedError("4-bit features in another order than that of maps")
    if is_float(config.precision) != source.is_float:
        raise RefusedError("a DPU in another kind of arithmetic than the convolution")
    if source.packed_channels > _PICTURE_CHANNELS or (source.depthwise and source.packed_channels):
        raise RefusedError("a depthwise convolution of a packed picture, or a picture of many channels")
    if config.reduction & ChannelReduction.ENABLE:
        raise RefusedError("a reduction of what a convolution delivers")
    if max(source.kernel_height, source.kernel_width) > _LARGEST_KERNEL:
        raise RefusedError("a very large kernel")
    result = structures.Convolution()
    _features(result, source, places, context)
    task = Task.of(config, step.reader, source.out_height, source.out_width, places)
    order = plain(source, places, config.channels)
    corrections = _corrections(step, task) + order.corrections
    result.dpu = describe(task, places)
    if source.is_float:
        if result.dpu.halves:
            raise RefusedError("floating point in atoms of 8 bytes")
        if step.array.shift or corrections.any():
            raise RefusedError("integer corrections of floating point sums")
        ignore(step.array, "rounding")
        choose_stages(result.dpu, task, places, reading)
    else:
        limit = _limit(source, result.channels, corrections)
        result.corrections = places.keep(padded(corrections, np.int32, task.padded_channels))
        result.dpu.truncate, result.dpu.truncate_away = step.array.shift, int(step.array.rounding)
        if not step.array.shift:
            result.dpu.chain = chain.build(task.seen_by(reading.chain), limit, places, context.tables)
        choose_stages(result.dpu, task, places, reading)
    join_rows(result)
    _weights(result, step, places, context, corrections, values=order.values)
    return result


def _features(
    result: structures.Convolution, source: task_cna.Config, places: Places, context: KernelContext
) -> None:
    if source.packed_channels:
        size = element_bytes(source.precision)
        pixel = source.packed_channels * size
        result.source = places.read_strided(
            source.feature_address,
            (source.height, source.width, pixel),
            (source.line_bytes, pixel, 1),
            "CNA picture",
            main=True,
        )
        available = source.packed_channels
        ignore(source, "channels")
    else:
        count = surfaces_of(source.channels, source.precision, source.atom_bytes)
        result.source = places.read_strided(
            source.feature_address,
            (count, source.height, source.width, source.atom_bytes),
            (source.surface_bytes, source.line_bytes, source.atom_bytes, 1),
            "CNA features",
            main=True,
        )
        available = source.channels
    result.fill(
        surface=source.surface_bytes, line=source.line_bytes, height=source.height, width=source.width,
        picture=source.packed_channels, channels=min(available, source.weight_channels),
        format=int(Precision.INT8 if source.precision is Precision.INT4 else source.precision),
        source_format=_code(source.precision), weight_format=_code(source.weight_precision), pad_top=source.pad_top,
        pad_left=source.pad_left, out_height=source.out_height, out_width=source.out_width,
        kernel_height=source.kernel_height, kernel_width=source.kernel_width, stride_y=source.stride_y,
        stride_x=source.stride_x, dilation_y=source.dilation_y, dilation_x=source.dilation_x,
        spread_y=source.spread_y, spread_x=source.spread_x, depthwise=source.depthwise,
        weight_channels=source.weight_channels, weight_kernels=source.kernels,
    )  # fmt: skip
    if source.precision is Precision.INT4:
        ignore(source, "pad_bits")  # 0, or there is no padding
    pads = [source.pad_bits & 0xFFFF] * 2 if source.is_float else cna.pads_of(source, 2)
    result.pads[0], result.pads[1] = int(pads[0]), int(pads[-1])
    if source.converter is not None and source.precision is Precision.INT4:
        raise RefusedError("a converter of 4-bit features")
    if source.converter is not None or source.is_unsigned:
        result.converter = places.keep(_converter(source, context))


def _code(precision: Precision) -> int:
    return _NATIVE_INT4 if precision is Precision.INT4 else int(precision)


def _converter(source: task_cna.Config, context: KernelContext) -> npt.NDArray[np.int8]:
    """What each byte becomes, for channels c with c mod 16 = 0 ... 15; all tasks of an operator share one."""
    key = whole(source.converter), source.is_unsigned, min(source.packed_channels or LANES, LANES)
    found = context.converters.get(key)
    if found is None:
        found = context.converters[key] = _converted(*key)
    return found


def _converted(converter: task_cna.Converter | None, is_unsigned: bool, used: int) -> npt.NDArray[np.int8]:
    values = np.arange(256) if is_unsigned else np.arange(256).astype(np.uint8).view(np.int8)
    features = np.broadcast_to(values.astype(np.int64), (LANES, 1, 256))
    converted = features
    if converter is not None:
        converted = cna.convert(features, converter, Precision.INT8)
    if np.abs(converted[:used]).max() > INT8_MAGNITUDE or converted[:used].max() == INT8_MAGNITUDE:
        raise RefusedError("input bytes that do not become int8")
    tables = np.zeros((LANES, 256), np.int8)
    tables[:used] = converted[:used, 0]
    return tables


def _corrections(step: Convolution, task: Task) -> npt.NDArray[np.int64]:
    """What is added to the weights of each output channel."""
    correction = task.config.correction
    if correction is None:
        ignore(step.array, "window_sums")
        return np.zeros(task.config.channels, np.int64)
    if not step.array.window_sums:
        ignore(task.config, "correction")
        return np.zeros(task.config.channels, np.int64)
    if correction.operand is not None:
        return np.full(task.config.channels, correction.operand, np.int64)
    if task.bias.cpend is None:
        raise RefusedError("zero points per channel are not read from memory")
    return task.bias.cpend[: task.config.channels]


def _limit(source: task_cna.Config, channels: int, corrections: npt.NDArray[np.int64]) -> int:
    """The largest magnitude of an accumulator; kernels add in 32 bits."""
    largest = int(np.abs(corrections).max(initial=0))
    taps = source.kernel_height * source.kernel_width * (1 if source.depthwise else channels)
    limit = taps * INT8_MAGNITUDE * (INT8_MAGNITUDE + largest)
    if source.depthwise and not np.all((corrections > -INT8_MAGNITUDE) & (corrections <= INT8_MAGNITUDE)):
        raise RefusedError("zero points of depthwise weights that are no bytes")
    if max(limit, taps * INT8_MAGNITUDE * 255) >= _INT32 or largest >= 2**15 - INT8_MAGNITUDE:
        raise RefusedError("sums that could leave 32 bits")
    return limit


def _weights(
    result: structures.Convolution,
    step: Convolution,
    places: Places,
    context: KernelContext,
    corrections: npt.NDArray[np.int64],
    *,
    values: npt.NDArray[np.int8] | None,
) -> None:
    source = step.source
    result.fill(
        kernel_group=source.kernel_group, input_group=source.input_group, depthwise_group=source.depthwise_group
    )
    kernels = 1 if source.depthwise else source.kernels
    count = kernels * source.kernel_height * source.kernel_width * source.weight_channels
    bits = element_bits(source.weight_precision)
    if source.weight_bytes * 8 % bits:
        raise RefusedError("weights that are not whole elements")
    if count * bits > source.weight_bytes * 8:
        raise RefusedError("fewer weights than kernels need")
    if values is not None:
        result.kernel_group, result.input_group, result.depthwise_group = kernels, *[source.weight_channels] * 2
    result.kind, result.kernels = result.KIND, context.kernels
    result.fresh_weights = not is_fixed(source, places)
    size = context.library.openrknn_packed_bytes(result)
    key = (source.weight_address, whole(source.compression), result.channels, result.picture, result.dpu.channels,
           result.dpu.target.atoms, source.weight_channels, kernels, source.kernel_height, source.kernel_width,
           source.depthwise, source.precision, source.weight_precision, _digest_of(corrections), size,
           (result.stride_x, result.dilation_x) if source.depthwise else None)  # the order of a kernel's columns
    known = None if result.fresh_weights else context.packed(key)
    if known is not None:
        result.packed = places.keep(known)
        return
    packed = _aligned(size)
    result.packed = places.keep(packed)
    if result.fresh_weights:
        result.weights = _changing(source, places).ctypes.data
        return
    context.pack(result, _stored(source, places) if values is None else values, places.kept)
    context.keep_packed(key, packed)


def _digest_of(corrections: npt.NDArray[np.int64]) -> bytes:
    """For a key that says how many there are."""
    return hashlib.sha256(corrections.tobytes()).digest() if corrections.any() else b""


def _aligned(size: int) -> npt.NDArray[np.uint8]:
    """Zeros that begin at a cache line."""
    room = np.zeros(size + 63, np.uint8)
    skip = -room.ctypes.data % 64
    return room[skip : skip + size]


# Weights that other chips store in other ways, in the order that the kernels know.
#
# RK3562, RK3576 and the RV chips have the zero points of depthwise weights between the weights, or one for all of them;
# the kernels add them as they add RK3588's corrections. RK3576 gives each row of an image kernel 16 bytes. Compressed
# weights are decompressed before they are packed.


class Plain(NamedTuple):
    """Weights as [row, column, kernel, channel], depthwise [row, column, channel], and what is added to them."""

    values: npt.NDArray[np.int8] | None
    """None: memory has them in an order that the kernels know."""
    corrections: npt.NDArray[np.int64]
    """Of each kernel."""


def plain(source: task_cna.Config, places: Places, channels: int) -> Plain:
    """For an output of `channels` channels."""
    corrections = np.zeros(channels, np.int64)
    if not (source.inline_zero_points or source.weight_offset or source.packed_rows):
        return Plain(None, corrections)
    _refuse_mixtures(source)
    if not is_fixed(source, places):
        raise RefusedError("weights in an order of their own that change")
    if source.packed_rows:
        return Plain(np.ascontiguousarray(cna.fetch_weights(source, places.memory).transpose(1, 2, 0, 3)), corrections)
    if not source.inline_zero_points:
        available = source.packed_channels or source.channels
        kernels = min(source.weight_channels, available) if source.depthwise else source.kernels
        corrections[:kernels] = source.weight_offset
        return Plain(None, corrections)
    raw = decode(cna.stored_weights(source, places.memory), source.weight_precision)
    pairs = cna.pairs_of(raw, source.inline_zero_points)
    weights, negated = (
        cna.depthwise_weights(np.ascontiguousarray(pairs[:, part]).reshape(-1), source) for part in (0, 1)
    )
    count = min(len(weights), channels)
    corrections[:count] = _one_each(negated)[:count]
    return Plain(np.ascontiguousarray(weights.transpose(1, 2, 0)), corrections)


def _refuse_mixtures(source: task_cna.Config) -> None:
    """Each order was seen with one kind of convolution; with another, NumPy says what comes out."""
    if (source.precision, source.weight_precision) in MIXED or source.precision is Precision.INT4:
        raise RefusedError("narrow weights in an order of int8 weights")
    if source.is_float:
        raise RefusedError("floating point weights in an order of int8 weights")
    if source.packed_rows and source.depthwise:
        raise RefusedError("depthwise weights in the rows of an image kernel")
    if source.inline_zero_points and not source.depthwise:
        raise RefusedError("zero points between weights that are not depthwise")


def is_fixed(source: task_cna.Config, places: Places) -> bool:
    """Whether the weights never change."""
    if source.compression is None:
        return places.is_fixed(source.weight_address, source.weight_bytes)
    return all(places.is_fixed(stream.address, stream.size) for stream in source.compression.streams)


def _changing(source: task_cna.Config, places: Places) -> Bytes:
    """The bytes of weights that are packed in each run."""
    if source.compression is not None:
        raise RefusedError("compressed weights that change")
    return places.read(source.weight_address, source.weight_bytes, "CNA weights")


def _stored(source: task_cna.Config, places: Places) -> Bytes:
    """The bytes of weights that are packed once, as the kernels find them: in memory, or decompressed."""
    if source.compression is None:
        return places.look(source.weight_address, source.weight_bytes, "CNA weights")
    for stream in source.compression.streams:
        places.look(stream.address, stream.size, "CNA compressed weights")
    return cna.stored_weights(source, places.memory)


def _one_each(negated: Numbers) -> npt.NDArray[np.int64]:
    """The zero point of each channel; it stands at every tap."""
    flat = negated.reshape(len(negated), -1).astype(np.int64)
    if np.any(flat != flat[:, :1]):
        raise RefusedError("zero points that differ within a channel")
    return np.where(flat[:, 0] == cna.NOT_A_BYTE, -cna.NOT_A_BYTE, flat[:, 0])
