"""Steps of the software NPU as structures of the native library, one function per kind.

The convolution has a file of its own, `convolutions`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from openrknn import numerics
from openrknn.isa import Precision
from openrknn.isa.enums import ChannelReduction, CombineUse, PoolingMethod
from openrknn.nativelib import structures
from openrknn.nativelib.structures import StepStructure
from openrknn.npu.blocks import ppu
from openrknn.npu.blocks.dpu import pipeline
from openrknn.npu.native import chain
from openrknn.npu.native.context import INT8_MAGNITUDE, KernelContext
from openrknn.npu.native.convolutions import convolution
from openrknn.npu.native.places import Places, Span, refuse_overlap
from openrknn.npu.native.program import HALF_BYTES, Task, choose_stages, describe
from openrknn.npu.native.reading import Reading, RefusedError, ignore, whole
from openrknn.npu.native.rows import join_rows
from openrknn.npu.task import Convolution, Flying, Pooling, Step
from openrknn.task import dpu as task_dpu
from openrknn.task import rdma
from openrknn.task import write as task_write
from openrknn.task.formats import ATOM_BYTES, element_bits, element_bytes, is_float, surfaces, surfaces_of

_INT32 = 2**31
_COPIED_ATOM = 64
"""Bytes that an atom takes in the copy of the input: 8 floats become doubles."""


_COMPUTES = (
    "flying", "precision", "in_precision", "channels", "real_channels", "pad_bits", "reduction", "bias", "norm",
    "element_wise", "out",
)  # fmt: skip
"""What the DPU does to numbers: nothing, where it moves or compares them."""
_OPERANDS = (
    "proc_precision", "bias_kinds", "bias_address", "norm_kinds", "norm_address", "operand", "operand_block",
    "byte_corrections",
)  # fmt: skip
"""What its readers fetch besides the main data."""
_COUNTERS = (
    "per_pixel", "width", "height", "line_bytes", "atom_step_bytes", "group_step_bytes",
)  # fmt: skip
"""What the write DMA counts, unless the result is packed."""
_PACKS = ("packed_bytes", "packed_run_bytes", "spread_run_bytes", "packed_limit_bytes")


def build(step: Step, places: Places, context: KernelContext) -> StepStructure:
    """The structure of a step; RefusedError where no kernel fits."""
    builder: Callable[..., StepStructure] | None = _BUILDERS.get(type(step))
    if builder is None:
        raise RefusedError(f"no kernel for {step.kind}")
    _refuse_huge(step)
    _refuse_standing(step)
    reading = Reading(step)
    try:
        structure = builder(reading, places, context)
        reading.refuse_unread()
    finally:
        reading.forget()
    structure.kind, structure.kernels = structure.KIND, context.kernels
    overlap = places.check_order(in_place=_looks_at_one_place(step), operand_in_place=_operand_keeps_places(step))
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
        planes = 1 if source.packed_channels else surfaces_of(source.weight_channels, source.precision) + 1
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


def _refuse_standing(step: Step) -> None:
    """Kernels find places by dividing by the stride. A stride of 0 is one pixel for all, and rare."""
    sizes: tuple[int, ...] = ()
    if isinstance(step, Convolution):
        source = step.source
        sizes = (source.stride_x, source.stride_y, source.spread_x, source.spread_y)
        sizes += (source.out_height, source.out_width, source.kernel_height, source.kernel_width)
        sizes += (source.kernels, source.weight_channels, source.height, source.width, source.channels)
        sizes += (source.kernel_group, source.input_group, source.depthwise_group, source.dilation_x, source.dilation_y)
    elif isinstance(step, Pooling):
        config = step.config
        sizes = (config.stride_x, config.stride_y, config.out_height, config.out_width)
        sizes += (config.kernel_height, config.kernel_width, config.height, config.width, config.channels)
    elif isinstance(step, Flying):
        reader = step.reader
        sizes = (reader.height, reader.width, reader.channels, reader.repeat_x, reader.repeat_y)
    if isinstance(step, Convolution | Flying):
        walk = step.dpu.write
        sizes += (walk.per_pixel, walk.width, walk.height, step.dpu.channels)
    if min(sizes, default=1) < 1:
        raise RefusedError("a stride or size of 0")


def _looks_at_one_place(step: Step) -> bool:
    """Whether the result at a place needs no main data but that place's (depthwise: that surface's).

    Elements of another size are in other atoms than the result, and a packed result has places of its own.
    """
    if isinstance(step, Convolution):
        return step.source.depthwise and 8 * _written_bytes(step.dpu) == element_bits(step.source.precision)
    if isinstance(step, Pooling):
        return (step.config.kernel_height, step.config.kernel_width) == (1, 1)
    return isinstance(step, Flying) and _written_bytes(step.dpu) == element_bytes(step.reader.precision)


def _operand_keeps_places(step: Step) -> bool:
    """Whether the operand of EW has elements of the size of the result, and so has the same atoms."""
    if not isinstance(step, Convolution | Flying) or step.reader is None or step.reader.operand is None:
        return True
    return _written_bytes(step.dpu) == step.reader.operand.bytes_each


def _written_bytes(dpu: task_dpu.Config) -> int:
    """Bytes of an element in the atoms of the result; 0 where it is packed."""
    if dpu.write.packed_bytes is not None:
        return 0
    return element_bytes(dpu.in_precision if dpu.is_copy else dpu.out.precision)


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


# ---------------------------------------------------------------------------------------------------- without one


def _flying(reading: Reading[Flying], places: Places, context: KernelContext) -> StepStructure:
    step = reading.step
    config, reader = step.dpu, step.reader
    walk = config.write
    ignore(config, "correction")  # there are no window sums
    if not reader.repeats:
        ignore(reader, "repeat_x", "repeat_y")
    if reader.atom_bytes == walk.atom_bytes == HALF_BYTES:
        return _flying_halves(reading, places, context)
    if reader.atom_bytes != ATOM_BYTES or walk.atom_bytes != ATOM_BYTES:
        raise RefusedError("atoms of another size")
    size = element_bytes(reader.precision)
    count = surfaces(reader.channels, size)
    shape = (count, reader.height, reader.width)
    cube = _main(reader, shape, places)
    moves = (walk.transposed_lanes is not None, walk.transposes_atoms, reader.repeats)
    if sum((*moves, bool(config.reduction & ChannelReduction.ENABLE))) > 1:
        raise RefusedError("several ways of moving atoms at once")
    if any(moves):
        return _move(step, cube, shape, places)
    if config.reduction & ChannelReduction.ENABLE:
        return _reduction(step, cube, places)
    task = Task.of(config, reader, reader.height, reader.width, places)
    if is_float(reader.precision) and not task.is_float:
        raise RefusedError("floating point data for an integer DPU")
    becomes = _bytes_table(task.seen_by(reading.table), places)
    copies = _is_raw_copy(task.seen_by(reading.table))
    copies = copies or (becomes is not None and np.array_equal(becomes, np.arange(-128, 128)))
    if (becomes is not None or copies) and walk.packed_bytes is None:
        found = _map(task, cube, count, places, None if copies else becomes)
        if found is not None:
            reading.used = reading.table
            return found
    result = structures.Flying(
        source=cube, format=int(reader.precision), surfaces=count, height=reader.height, width=reader.width
    )
    result.dpu = describe(task, places)
    if reader.precision is Precision.INT8 and count >= result.dpu.target.atoms:
        result.dpu.chain = chain.build(task.seen_by(reading.chain), INT8_MAGNITUDE, places, context.tables)
    choose_stages(result.dpu, task, places, reading)
    join_rows(result)
    return result


def _flying_halves(reading: Reading[Flying], places: Places, context: KernelContext) -> StepStructure:
    """Integers in atoms of 8 bytes."""
    config, reader = reading.step.dpu, reading.step.reader
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
    result.dpu.chain = chain.build(task.seen_by(reading.chain), INT8_MAGNITUDE, places, context.tables)
    choose_stages(result.dpu, task, places, reading)
    return result


def _main(reader: rdma.Config, shape: tuple[int, int, int], places: Places) -> structures.Cube:
    if reader.main is None:
        raise RefusedError("main data that are not read")
    if reader.combine & CombineUse.ENABLE and reader.combine & CombineUse.MAIN:
        if reader.operand is None:
            raise RefusedError("combined reading with one reader")
        return places.combined_cube(reader.main, reader.operand.walk, shape, main=True)
    return places.cube(reader.main, shape, "MRDMA", main=True)


def _is_raw_copy(task: Task) -> bool:
    """16-bit integers that nothing happens to; what is read as something else is converted on the way."""
    config, out = task.config, task.config.out
    if task.reader is None or task.reader.precision is not config.in_precision:
        return False
    if not config.is_copy or (out.scale, out.shift, out.offset, out.minus_exponent) != (1, 0, 0, 0):
        return False
    ignore(out, "precision", "add_first", "rounding")
    return True


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
    for stages in (config.bias, config.norm, config.element_wise, config.out):
        whole(stages)
    result = pipeline.run_stages(values, config, task.bias, reader, places.memory)
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
    kept = min(config.real_channels, config.channels) * size
    if kept < (target.atoms - 1) * ATOM_BYTES:  # the kernel pads the last atom only
        return None
    result = structures.Map(source=cube, height=task.height, width=task.width, target=target)
    result.last_lanes = kept - (target.atoms - 1) * ATOM_BYTES
    if config.real_channels >= config.channels:
        ignore(config, "pad_bits")
    else:
        padding = pipeline.pad_bytes(config, task.precision, ATOM_BYTES)
        result.padding = type(result.padding).from_buffer_copy(padding.tobytes())
    if becomes is not None:
        result.table = places.keep(np.ascontiguousarray(becomes))
    return result


def _move(step: Flying, cube: structures.Cube, shape: tuple[int, int, int], places: Places) -> StepStructure:
    count, height, width = shape
    ignore(step.dpu, *_COMPUTES)
    ignore(step.reader, *_OPERANDS)
    result = structures.Move(source=cube, surfaces=count, height=height, width=width)
    walk: task_write.Config = step.dpu.write
    if not step.reader.repeats:  # atoms are never packed then
        ignore(walk, *_PACKS, "transposes_atoms")
    if walk.transposed_lanes is not None:
        lanes = walk.transposed_lanes
        result.lanes = lanes
        result.target = places.stream(walk, -(-count * height * width // lanes) * lanes)
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
    ignore(step.dpu, *_COMPUTES)
    ignore(reader, *_OPERANDS)
    ignore(step.dpu.write, *_COUNTERS, *_PACKS)
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


def _pooling(reading: Reading[Pooling], places: Places, context: KernelContext) -> StepStructure:
    config = reading.step.config
    ignore(config, "pad_right", "pad_bottom")
    if config.atom_bytes != ATOM_BYTES:
        raise RefusedError("atoms of another size")
    if config.precision not in {Precision.INT8, Precision.FP16}:
        raise RefusedError(f"pooling of {config.precision.name}")
    count = surfaces(config.channels, element_bytes(config.precision))
    steps = (config.target_surface_bytes, config.target_line_bytes, ATOM_BYTES)
    refuse_overlap((count, config.out_height, config.out_width), steps)
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
    result.fill(
        height=config.height, width=config.width, out_height=config.out_height, out_width=config.out_width,
        kernel_height=config.kernel_height, kernel_width=config.kernel_width, stride_y=config.stride_y,
        stride_x=config.stride_x, pad_top=config.pad_top, pad_left=config.pad_left,
    )  # fmt: skip
    if config.method is not PoolingMethod.AVERAGE:
        ignore(config, "reciprocal_width", "reciprocal_height")
    if config.method is PoolingMethod.AVERAGE and config.precision is Precision.FP16:
        result.factor = float(ppu.float_factor(config))
    elif config.method is PoolingMethod.AVERAGE:
        result.reciprocal = config.reciprocal_width * config.reciprocal_height
    return result


_BUILDERS: dict[type[Step], Callable[..., StepStructure]] = {
    Convolution: convolution,
    Flying: _flying,
    Pooling: _pooling,
}
