"""Steps of the software NPU as structures of the native library, one function per kind."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from openrknn import numerics
from openrknn.compute import structures
from openrknn.compute.native import Kernels
from openrknn.compute.structures import StepStructure
from openrknn.isa import Precision
from openrknn.isa.enums import ChannelReduction, CombineUse, PoolingMethod
from openrknn.npu import cna, rdma
from openrknn.npu.accelerate import chain, table
from openrknn.npu.accelerate.known import refuse_unknown
from openrknn.npu.accelerate.places import Places, RefusedError, Span, padded
from openrknn.npu.accelerate.program import HALF_BYTES, LANES, Task, describe
from openrknn.npu.accelerate.weights import plain
from openrknn.npu.dpu import pipeline
from openrknn.npu.dpu import write as dpu_write
from openrknn.npu.formats import ATOM_BYTES, element_bytes, is_float, surfaces
from openrknn.npu.step import Convolution, Flying, Pooling, Step

__all__ = ["Context", "build"]

_INT32 = 2**31
_INT8_MAGNITUDE = 128
_LARGEST_KERNEL = 32
_COPIED_ATOM = 64
"""Bytes that an atom takes in the copy of the input: 8 floats become doubles."""
_CONVOLVED = {Precision.INT8, Precision.FP16, Precision.BF16}


class Context:
    """What the steps of one program share: the library, tables, packed weights."""

    def __init__(self, library: ctypes.CDLL, kernels: Kernels) -> None:
        self.library = library
        self.kernels = kernels
        self.tables: table.Cache = {}
        self.packed: dict[object, npt.NDArray[np.uint8]] = {}


def build(step: Step, places: Places, context: Context) -> StepStructure:
    """The structure of a step; RefusedError where no kernel fits."""
    builder: Callable[..., StepStructure] | None = _BUILDERS.get(type(step))
    if builder is None:
        raise RefusedError(f"no kernel for {step.kind}")
    refuse_unknown(step)
    _refuse_huge(step)
    structure = builder(step, places, context)
    structure.kind, structure.kernels = structure.KIND, context.kernels
    overlap = places.check_order(in_place=_looks_at_one_place(step))
    if overlap is not None:
        _read_first(structure, overlap, places)
    return structure


def _refuse_huge(step: Step) -> None:
    """Kernels count pixels, and offsets in the copy of their input, in 32 bits."""
    sizes: tuple[int, ...] = ()
    if isinstance(step, Convolution):
        source = step.source
        rows = source.out_height * source.stride_y + source.kernel_height * source.dilation_y
        columns = (source.out_width + 1) * source.stride_x + source.kernel_width * source.dilation_x
        planes = 1 if source.packed_channels else surfaces(source.weight_channels, element_bytes(source.precision)) + 1
        copied = (rows + 1) * (columns + source.stride_x) * planes * _COPIED_ATOM
        read = surfaces(source.channels, 1, source.atom_bytes) * source.surface_bytes
        sizes = (copied, read, source.height * source.width)
    elif isinstance(step, Flying):
        reader = step.reader
        sizes = (reader.height * reader.width * reader.channels * reader.repeat_x * reader.repeat_y,)
    elif isinstance(step, Pooling):
        sizes = (step.config.height * step.config.width, step.config.out_height * step.config.out_width)
    if max(sizes, default=0) >= _INT32 // 2:
        raise RefusedError("too large for the kernels")


def _looks_at_one_place(step: Step) -> bool:
    """Whether the result at a place needs no main data but that place's (depthwise: that surface's)."""
    if isinstance(step, Convolution):
        return step.source.depthwise
    if isinstance(step, Pooling):
        return (step.config.kernel_height, step.config.kernel_width) == (1, 1)
    return True


def _read_first(structure: StepStructure, overlap: Span, places: Places) -> None:
    """What is written overlaps the main data: have them copied."""
    if isinstance(structure, structures.Convolution):
        structure.copies_first = True
    elif isinstance(structure, structures.Reduction):
        raise RefusedError("what is written overlaps what is read")
    else:
        size = overlap.end - overlap.start
        structure.snapshot = places.memory.view(overlap.start, size, "main data").ctypes.data
        structure.snapshot_bytes = size


# ---------------------------------------------------------------------------------------------------- convolution


def _convolution(step: Convolution, places: Places, context: Context) -> StepStructure:
    source, config = step.source, step.dpu
    if source.atom_bytes != config.write.atom_bytes or source.atom_bytes not in {ATOM_BYTES, HALF_BYTES}:
        raise RefusedError("atoms of another size")
    if source.precision not in _CONVOLVED or source.weight_precision is not source.precision:
        raise RefusedError(f"{source.precision.name} convolution")
    if is_float(config.precision) != source.is_float:
        raise RefusedError("a DPU in another kind of arithmetic than the convolution")
    if max(source.kernel_height, source.kernel_width) > _LARGEST_KERNEL:
        raise RefusedError("a very large kernel")
    result = structures.Convolution()
    _features(result, source, places)
    task = Task.of(config, step.reader, source.out_height, source.out_width, places)
    stored = plain(source, places, config.channels)
    corrections = _corrections(step, task) + stored.corrections
    result.dpu = describe(task, places)
    if source.is_float:
        if result.dpu.halves:
            raise RefusedError("floating point in atoms of 8 bytes")
        if step.array.shift or corrections.any():
            raise RefusedError("integer corrections of floating point sums")
    else:
        limit = _limit(source, result.channels, corrections)
        result.corrections = places.keep(padded(corrections, np.int32, task.padded_channels))
        result.dpu.truncate, result.dpu.truncate_up = step.array.shift, int(step.array.rounding)
        if not step.array.shift:
            result.dpu.chain = chain.build(task, limit, places, context.tables)
        _refuse_general(result.dpu, config)
    _weights(result, step, places, context, corrections, values=stored.values)
    return result


def _features(result: structures.Convolution, source: cna.Config, places: Places) -> None:
    size = element_bytes(source.precision)
    if source.packed_channels:
        pixel = source.packed_channels * size
        result.source = places.read_strided(
            source.feature_address,
            (source.height, source.width, pixel),
            (source.line_bytes, pixel, 1),
            "CNA picture",
            main=True,
        )
        available = source.packed_channels
    else:
        count = surfaces(source.channels, size, source.atom_bytes)
        result.source = places.read_strided(
            source.feature_address,
            (count, source.height, source.width, source.atom_bytes),
            (source.surface_bytes, source.line_bytes, source.atom_bytes, 1),
            "CNA features",
            main=True,
        )
        available = source.channels
    result.surface, result.line = source.surface_bytes, source.line_bytes
    result.height, result.width = source.height, source.width
    result.picture = source.packed_channels
    result.channels = min(available, source.weight_channels)
    result.format = int(source.precision)
    pads = [source.pad_bits & 0xFFFF] * 2 if source.is_float else source.pads(2)
    result.pads[0], result.pads[1] = int(pads[0]), int(pads[-1])
    for name in ("pad_top", "pad_left", "out_height", "out_width", "kernel_height", "kernel_width", "stride_y",
                 "stride_x", "dilation_y", "dilation_x", "spread_y", "spread_x", "depthwise", "weight_channels"):
        setattr(result, name, getattr(source, name))
    result.weight_kernels = source.kernels
    if source.converter is not None or source.is_unsigned:
        result.converter = places.keep(_converter(source))


def _converter(source: cna.Config) -> npt.NDArray[np.int8]:
    """What each byte becomes, for channels c with c mod 16 = 0 ... 15."""
    values = np.arange(256) if source.is_unsigned else np.arange(256).astype(np.uint8).view(np.int8)
    features = np.broadcast_to(values.astype(np.int64), (LANES, 1, 256))
    converted = features
    if source.converter is not None:
        converted = cna._convert(features, source.converter, Precision.INT8)
    used = min(source.packed_channels or LANES, LANES)
    if np.abs(converted[:used]).max() > _INT8_MAGNITUDE or converted[:used].max() == _INT8_MAGNITUDE:
        raise RefusedError("input bytes that do not become int8")
    tables = np.zeros((LANES, 256), np.int8)
    tables[:used] = converted[:used, 0]
    return tables


def _corrections(step: Convolution, task: Task) -> npt.NDArray[np.int64]:
    """What is added to the weights of each output channel."""
    correction = task.config.correction
    if correction is None or not step.array.window_sums:
        return np.zeros(task.config.channels, np.int64)
    if correction.operand is not None:
        return np.full(task.config.channels, correction.operand, np.int64)
    if task.bias.cpend is None:
        raise RefusedError("zero points per channel are not read from memory")
    return task.bias.cpend[: task.config.channels]


def _limit(source: cna.Config, channels: int, corrections: npt.NDArray[np.int64]) -> int:
    """The largest magnitude of an accumulator; kernels add in 32 bits."""
    largest = int(np.abs(corrections).max(initial=0))
    taps = source.kernel_height * source.kernel_width * (1 if source.depthwise else channels)
    limit = taps * _INT8_MAGNITUDE * (_INT8_MAGNITUDE + largest)
    if max(limit, taps * _INT8_MAGNITUDE * 255) >= _INT32 or largest >= 2**15 - _INT8_MAGNITUDE:
        raise RefusedError("sums that could leave 32 bits")
    return limit


def _weights(
    result: structures.Convolution,
    step: Convolution,
    places: Places,
    context: Context,
    corrections: npt.NDArray[np.int64],
    *,
    values: npt.NDArray[np.int8] | None,
) -> None:
    source = step.source
    for name in ("kernel_group", "input_group", "depthwise_group"):
        setattr(result, name, getattr(source, name))
    kernels = 1 if source.depthwise else source.kernels
    count = kernels * source.kernel_height * source.kernel_width * source.weight_channels
    if count * element_bytes(source.weight_precision) > source.weight_bytes:
        raise RefusedError("fewer weights than kernels need")
    raw = places.read(source.weight_address, source.weight_bytes, "CNA weights")
    result.weights = raw.ctypes.data
    if values is not None:
        result.weights = places.keep(values)
        result.kernel_group, result.input_group, result.depthwise_group = kernels, *[source.weight_channels] * 2
    result.kind, result.kernels = result.KIND, context.kernels
    result.fresh_weights = not places.is_fixed(source.weight_address, source.weight_bytes)
    size = context.library.openrknn_packed_bytes(result)
    key = (source.weight_address, result.channels, result.picture, result.dpu.channels, result.dpu.target.atoms,
           source.weight_channels, kernels, source.kernel_height, source.kernel_width, source.depthwise,
           corrections.tobytes(), size)
    if not result.fresh_weights and key in context.packed:
        result.packed = places.keep(context.packed[key])
        return
    packed = _aligned(size)
    result.packed = places.keep(packed)
    if not result.fresh_weights:
        context.library.openrknn_pack(result)
        context.packed[key] = packed


def _aligned(size: int) -> npt.NDArray[np.uint8]:
    """Zeros that begin at a cache line."""
    room = np.zeros(size + 63, np.uint8)
    skip = -room.ctypes.data % 64
    return room[skip : skip + size]


# ---------------------------------------------------------------------------------------------------- without one


def _flying(step: Flying, places: Places, context: Context) -> StepStructure:
    config, reader = step.dpu, step.reader
    walk = config.write
    if reader.atom_bytes == walk.atom_bytes == HALF_BYTES:
        return _flying_halves(step, places, context)
    if reader.atom_bytes != ATOM_BYTES or walk.atom_bytes != ATOM_BYTES:
        raise RefusedError("atoms of another size")
    size = element_bytes(reader.precision)
    count = surfaces(reader.channels, size)
    shape = (count, reader.height, reader.width)
    cube = _main(reader, shape, places)
    if walk.transposed_lanes is not None or walk.transposes_atoms or reader.repeats:
        return _move(step, cube, shape, places)
    if config.reduction & ChannelReduction.ENABLE:
        return _reduction(step, cube, places)
    task = Task.of(config, reader, reader.height, reader.width, places)
    if is_float(reader.precision) and not task.is_float:
        raise RefusedError("floating point data for an integer DPU")
    becomes = _bytes_table(task, places)
    copies = _is_raw_copy(task) or (becomes is not None and np.array_equal(becomes, np.arange(-128, 128)))
    if (becomes is not None or copies) and walk.packed_bytes is None:
        found = _map(task, cube, count, places, None if copies else becomes)
        if found is not None:
            return found
    result = structures.Flying(
        source=cube, format=int(reader.precision), surfaces=count, height=reader.height, width=reader.width
    )
    result.dpu = describe(task, places)
    if reader.precision is Precision.INT8 and count >= result.dpu.target.atoms:
        result.dpu.chain = chain.build(task, _INT8_MAGNITUDE, places, context.tables)
    _refuse_general(result.dpu, config)
    return result


def _refuse_general(dpu: structures.Dpu, config: pipeline.Config) -> None:
    """What only chains can do: atoms of 8 bytes, and lookups with more than one slope beyond each end."""
    if dpu.halves and not dpu.chain.flags:
        raise RefusedError("atoms of 8 bytes without a chain")
    table = config.element_wise.table if config.element_wise is not None else None
    if table is not None and (table.further_below or table.further_above) and not dpu.chain.flags:
        raise RefusedError("a lookup with several slopes beyond its ends")


def _flying_halves(step: Flying, places: Places, context: Context) -> StepStructure:
    """Integers in atoms of 8 bytes."""
    config, reader = step.dpu, step.reader
    walk = config.write
    if walk.transposed_lanes is not None or walk.transposes_atoms or reader.repeats or walk.packed_bytes is not None:
        raise RefusedError("atoms of 8 bytes that change places")
    if config.reduction or reader.combine or reader.main is None or reader.precision is not Precision.INT8:
        raise RefusedError("this kind of step with atoms of 8 bytes")
    count = surfaces(reader.channels, 1, HALF_BYTES)
    if surfaces(config.channels, 1, HALF_BYTES) > count:
        raise RefusedError("more channels than are read")
    shape = (count, reader.height, reader.width)
    task = Task.of(config, reader, reader.height, reader.width, places)
    result = structures.Flying(
        source=places.cube(reader.main, shape, "MRDMA", main=True, atom=HALF_BYTES),
        format=int(reader.precision), surfaces=count, height=reader.height, width=reader.width,
    )  # fmt: skip
    result.dpu = describe(task, places)
    result.dpu.chain = chain.build(task, _INT8_MAGNITUDE, places, context.tables)
    _refuse_general(result.dpu, config)
    return result


def _main(reader: rdma.Config, shape: tuple[int, int, int], places: Places) -> structures.Cube:
    if reader.main is None:
        raise RefusedError("main data that nobody reads")
    if reader.combine & CombineUse.ENABLE and reader.combine & CombineUse.MAIN:
        if reader.operand is None:
            raise RefusedError("combined reading with one reader")
        return places.combined_cube(reader.main, reader.operand.walk, shape, main=True)
    return places.cube(reader.main, shape, "MRDMA", main=True)


def _is_raw_copy(task: Task) -> bool:
    """16-bit integers that nothing happens to."""
    config, out = task.config, task.config.out
    return config.is_copy and (out.scale, out.shift, out.offset) == (1, 0, 0)


def _bytes_table(task: Task, places: Places) -> npt.NDArray[np.int8] | None:
    """int8 to int8, the same for all channels and without a second tensor: what each byte becomes."""
    config, reader = task.config, task.reader
    if task.is_float or reader is None or reader.precision is not Precision.INT8:
        return None
    if task.precision is not Precision.INT8 or config.channels < 1:
        return None
    for stage in (config.bias, config.norm):
        if stage is not None and ((stage.adds and stage.addend is None) or
                                  (stage.scaling is not None and stage.scaling.operand is None)):
            return None
    operation = config.element_wise.operation if config.element_wise is not None else None
    if operation is not None and operation.operand is None:
        return None
    values = np.arange(-128, 128).reshape(1, 1, 256)
    result = pipeline._stages(values, config, task.bias, reader, places.memory)
    return numerics.saturate(result, np.int8).reshape(-1)


def _map(
    task: Task, cube: structures.Cube, count: int, places: Places, becomes: npt.NDArray[np.int8] | None
) -> StepStructure | None:
    config = task.config
    size = element_bytes(task.precision)
    needed, valid = surfaces(config.channels, size), surfaces(config.real_channels, size)
    target = places.target(config.write, pixels=task.height * task.width, count=needed, valid=valid)
    if target.atoms > count:
        return None
    result = structures.Map(source=cube, height=task.height, width=task.width, target=target)
    result.last_lanes = max(min(config.real_channels, config.channels) * size - (target.atoms - 1) * ATOM_BYTES, 0)
    if config.real_channels < config.channels:
        padding = pipeline._pad_bytes(config, task.precision, ATOM_BYTES)
        result.padding = type(result.padding).from_buffer_copy(padding.tobytes())
    if becomes is not None:
        result.table = places.keep(np.ascontiguousarray(becomes))
    return result


def _move(step: Flying, cube: structures.Cube, shape: tuple[int, int, int], places: Places) -> StepStructure:
    count, height, width = shape
    result = structures.Move(source=cube, surfaces=count, height=height, width=width)
    walk: dpu_write.Config = step.dpu.write
    if walk.transposed_lanes is not None:
        lanes = walk.transposed_lanes
        result.lanes = lanes
        result.target = places.stream(walk, count * (-(-height * width // lanes) * lanes))
    elif walk.transposes_atoms:
        result.target = places.stream(walk, count * height * width)
    else:
        reader = step.reader
        result.lanes, result.repeat_x, result.repeat_y = -1, reader.repeat_x, reader.repeat_y
        surfaces_out = count * reader.repeat_y
        pixels = height * width * reader.repeat_x
        result.target = places.target(walk, pixels=pixels, count=surfaces_out, valid=surfaces_out)
        if walk.packed_bytes is not None:
            raise RefusedError("packed upsampling")
    return result


def _reduction(step: Flying, cube: structures.Cube, places: Places) -> StepStructure:
    reader = step.reader
    if reader.precision not in {Precision.INT8, Precision.INT16, Precision.FP16}:
        raise RefusedError(f"a reduction of {reader.precision.name}")
    size = reader.height * reader.width * element_bytes(reader.precision)
    return structures.Reduction(
        source=cube,
        format=int(reader.precision),
        channels=reader.channels,
        height=reader.height,
        width=reader.width,
        largest=bool(step.dpu.reduction & ChannelReduction.MAXIMUM),
        target=places.write_strided(step.dpu.write.address, (size,), (1,), "DPU packed write"),
    )


def _pooling(step: Pooling, places: Places, context: Context) -> StepStructure:
    config = step.config
    if config.atom_bytes != ATOM_BYTES:
        raise RefusedError("atoms of another size")
    if config.precision not in {Precision.INT8, Precision.FP16}:
        raise RefusedError(f"pooling of {config.precision.name}")
    count = surfaces(config.channels, element_bytes(config.precision))
    result = structures.Pooling(
        source=places.read_strided(
            config.source_address,
            (count, config.height, config.width, ATOM_BYTES),
            (config.source_surface_bytes, config.source_line_bytes, ATOM_BYTES, 1),
            "PPU_RDMA",
            main=True,
        ),
        target=places.write_strided(
            config.target_address,
            (count, config.out_height, config.out_width, ATOM_BYTES),
            (config.target_surface_bytes, config.target_line_bytes, ATOM_BYTES, 1),
            "PPU write",
        ),
        source_line=config.source_line_bytes,
        source_surface=config.source_surface_bytes,
        target_line=config.target_line_bytes,
        target_surface=config.target_surface_bytes,
        surfaces=count,
        format=int(config.precision),
        method={PoolingMethod.AVERAGE: 0, PoolingMethod.MAX: 1, PoolingMethod.MIN: 2}[config.method],
        pad_value=config.pad_value,
    )
    for name in ("height", "width", "out_height", "out_width", "kernel_height", "kernel_width", "stride_y",
                 "stride_x", "pad_top", "pad_left"):
        setattr(result, name, getattr(config, name))
    if config.method is PoolingMethod.AVERAGE and config.precision is Precision.FP16:
        bits = np.array([config.reciprocal_width, config.reciprocal_height], np.uint16)
        width, height = numerics.decode_fp16(bits).astype(np.float64)
        result.factor = float(np.float32(width / 65536 * height / 65536))
    elif config.method is PoolingMethod.AVERAGE:
        result.reciprocal = config.reciprocal_width * config.reciprocal_height
    return result


_BUILDERS: dict[type[Step], Callable[..., StepStructure]] = {
    Convolution: _convolution,
    Flying: _flying,
    Pooling: _pooling,
}
