"""The DPU's stages as structures of the native library."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.isa import Precision
from openrknn.isa.enums import CombineUse, EwAlgorithm, OperandMode
from openrknn.nativelib.structures import Chain, Clamp, ClampKinds, Dpu, ElementWise, Lookup, Stage
from openrknn.npu.blocks import rdma
from openrknn.npu.blocks.dpu import out_cvt, pipeline
from openrknn.npu.blocks.formats import Numbers
from openrknn.npu.blocks.rdma import ChannelOperands
from openrknn.npu.native.places import Places, padded
from openrknn.npu.native.reading import Reading, RefusedError, Way, ignore
from openrknn.records import dataclass
from openrknn.task import dpu as task_dpu
from openrknn.task import ew, lut, stage
from openrknn.task import out_cvt as task_out_cvt
from openrknn.task import rdma as task_rdma
from openrknn.task.formats import ATOM_BYTES, element_bytes, is_float, surfaces

LANES = 16
_MULTIPLY, NOTHING = 16, 17
_PER_CHANNEL, TENSOR, _PER_PIXEL = 1, 2, 3
_PADDING_BYTES = 64
_PADDING = ctypes.c_uint8 * _PADDING_BYTES
_LARGEST_SELECT = 31
"""Distances between entries that products of 17-bit entries allow for in 64 bits."""
HALF_BYTES = 8
"""Atoms of RK3566/68 and RV1103B/06B; the kernels put two of them together."""
_ALGORITHMS = {
    EwAlgorithm.MAX, EwAlgorithm.MIN, EwAlgorithm.ADD, EwAlgorithm.DIV, EwAlgorithm.MINUS, EwAlgorithm.ABS,
    EwAlgorithm.NEG, EwAlgorithm.FLOOR, EwAlgorithm.CEIL,
}


@dataclass(frozen=True)
class Task:
    """A DPU task with its grid and its operands per channel."""

    config: task_dpu.Config
    reader: task_rdma.Config | None
    height: int
    width: int
    bias: ChannelOperands
    norm: ChannelOperands

    @property
    def is_float(self) -> bool:
        return is_float(self.config.precision)

    @functools.cached_property
    def precision(self) -> Precision:
        """Of what is written."""
        ignore(self.config, "flying", "in_precision")  # what `is_copy` is made of
        return self.config.in_precision if self.config.is_copy else self.config.out.precision

    @property
    def padded_channels(self) -> int:
        """Room for whole atoms of every channel, and a block of them more."""
        return -(-self.config.channels // LANES) * LANES + 4 * LANES

    @classmethod
    def of(
        cls, config: task_dpu.Config, reader: task_rdma.Config | None, height: int, width: int, places: Places
    ) -> Task:
        """Read the operands per channel; they must not change later."""
        if reader is not None:
            _ignore_unused(reader, config)
        found = []
        for norm in (False, True):
            operands = ChannelOperands()
            if reader is not None:
                kinds = reader.norm_kinds if norm else reader.bias_kinds
                address = reader.norm_address if norm else reader.bias_address
                operands = rdma.fetch_channels(reader, config.channels, config.precision, places.memory, norm=norm)
                if kinds and not places.is_fixed(address, config.channels * 2):
                    raise RefusedError("operands per channel that change")
            found.append(operands)
        return cls(config, reader, height, width, *found)

    def seen_by(self, way: Way) -> Task:
        """A copy that notes elsewhere what is read."""
        return Task(way.view(self.config), way.view(self.reader), self.height, self.width, self.bias, self.norm)


def _ignore_unused(reader: task_rdma.Config, config: task_dpu.Config) -> None:
    """The grid and the DPU's own precision count, and readers of operands that somebody needs."""
    main = () if config.flying else ("main", "combine", "atom_bytes")
    ignore(reader, "width", "height", "channels", "precision", "proc_precision", "repeat_x", "repeat_y", "repeats")
    if not (reader.bias_kinds or reader.norm_kinds):
        ignore(reader, "bias_address", "norm_address", "operand_block", "byte_corrections")
    operation = config.element_wise.operation if config.element_wise is not None else None
    if operation is None or operation.operand is not None:
        ignore(reader, "operand", *main)
        return
    if reader.operand is not None:
        ignore(reader.operand, "stride_bytes")
    if not reader.combine:
        ignore(reader, *main)


def describe(task: Task, places: Places) -> Dpu:
    """What all ways through the stages need."""
    config = task.config
    size = element_bytes(task.precision)
    atom = config.write.atom_bytes
    count, valid = (surfaces(number, size, atom) for number in (config.channels, config.real_channels))
    padding = pipeline.pad_bytes(config, task.precision, _PADDING_BYTES).tobytes()
    result = Dpu(
        target=places.target(config.write, pixels=task.height * task.width, count=count, valid=valid),
        padding=_PADDING.from_buffer_copy(padding),
        width=task.width,
        channels=config.channels,
        real_channels=config.real_channels,
        is_float=task.is_float,
        format=int(task.precision),
        halves=atom == HALF_BYTES,
    )
    result.element_wise.operation = NOTHING
    operation = config.element_wise.operation if config.element_wise is not None else None
    if operation is not None and operation.operand is None:
        _fetch(result.element_wise, task, places)
    return result


def choose_stages(dpu: Dpu, task: Task, places: Places, reading: Reading[Any]) -> None:
    """The chain if there is one that knows every field of the stages, else the general form."""
    step = reading.original
    if dpu.chain.flags and not any(reading.chain.unread((step.dpu, step.reader))):
        reading.used = reading.chain
        return
    dpu.chain = Chain()
    if dpu.halves:
        raise RefusedError("atoms of 8 bytes without a chain")
    reading.used = reading.general
    general = task.seen_by(reading.general)
    stages = general.config
    dpu.bias = _stage(stages.bias, general, task.bias, places, multiplies_first=False)
    dpu.norm = _stage(stages.norm, general, task.norm, places, multiplies_first=True)
    if stages.element_wise is not None:
        _element_wise(dpu.element_wise, stages.element_wise, general, places)
    _out(dpu, stages.out, is_float=task.is_float)


def _out(result: Dpu, out: task_out_cvt.Config, *, is_float: bool) -> None:
    result.fill(
        scale=out.scale, shift=out.shift, offset=out.offset, add_first=out.add_first, ties_away=int(out.rounding)
    )
    result.factor = float(np.float32(out.scale) * np.float32(2.0**-out.minus_exponent))
    if not is_float:
        scales = out_cvt.writes_float(out) and out.minus_exponent
        result.factor = float(np.float32(2.0**-out.minus_exponent)) if scales else 1.0
        if scales:
            result.offset, result.add_first = 0, False


def _stage(
    config: stage.Stage | None, task: Task, operands: ChannelOperands, places: Places, *, multiplies_first: bool
) -> Stage:
    result = Stage()
    if config is None:
        return result
    result.multiplies_first = multiplies_first and not config.adds_first
    if config.is_float != task.is_float:
        raise RefusedError("a stage in another kind of arithmetic")
    dtype = np.float32 if task.is_float else np.int32
    if not multiplies_first:
        ignore(config, "adds_first")
    if not config.adds:
        ignore(config, "addend", "subtracts")
    else:
        values = _operand(operands.alu, config.addend, task)
        result.addends = places.keep(padded(values, dtype, task.padded_channels))
        result.subtracts = config.subtracts
    if config.scaling is not None:
        values = _operand(operands.mul, config.scaling.operand, task)
        result.factors = places.keep(padded(values, dtype, task.padded_channels))
        result.shift, result.shift_negative = config.scaling.shift, config.scaling.shift_negative
        result.negative_only = config.scaling.negative_only
    result.clamp = _clamp(config.clamp, task)
    return result


def _operand(values: Numbers | None, given: float | None, task: Task) -> npt.NDArray[Any]:
    """Per channel, whether it comes from memory or from a register."""
    if given is not None:
        return np.full(task.config.channels, given, np.float32 if task.is_float else np.int64)
    if values is None or len(values) < task.config.channels:
        raise RefusedError("operands per channel are not read from memory")
    return values


def _clamp(clamp: stage.Clamp | None, task: Task) -> Clamp:
    result = Clamp()
    ends = () if clamp is None else (("lower", clamp.lower), ("below", clamp.below), ("upper", clamp.upper))
    for name, value in ends:
        if value is not None:
            result.kinds |= ClampKinds[name.upper()]
            if task.is_float:
                setattr(result, f"{name}_float", value)
            else:
                setattr(result, name, int(value))
    return result


def _element_wise(result: ElementWise, config: ew.Config, task: Task, places: Places) -> None:
    result.lookup = _lookup(config.table, places)
    result.clamp = _clamp(config.clamp, task)
    if config.operation is not None:
        _operation(result, config.operation, task)


def _lookup(table: lut.Config | None, places: Places) -> Lookup:
    if table is None:
        return Lookup()
    if max(table.le_select, table.lo_select) > _LARGEST_SELECT:
        raise RefusedError("entries of a table that are very far apart")
    shorts = np.ascontiguousarray(table.entries, np.int16)
    return Lookup(
        entries=places.keep(np.ascontiguousarray(table.entries, np.int64)),
        shorts=places.keep(shorts) if np.array_equal(shorts, table.entries) else None,
        le_start=table.le_start,
        lo_start=table.lo_start,
        lo_end=table.lo_end,
        le_select=table.le_select,
        lo_select=table.lo_select,
        below_scale=table.below.scale,
        below_shift=table.below.shift,
        above_scale=table.above.scale,
        above_shift=table.above.shift,
    )


def _operation(result: ElementWise, operation: ew.Operation, task: Task) -> None:
    if not operation.multiplies and operation.algorithm not in _ALGORITHMS:
        raise RefusedError(f"the operation {operation.algorithm.name}")
    if operation.algorithm is EwAlgorithm.DIV and not operation.multiplies and not task.is_float:
        raise RefusedError("a division of integers")
    ignore_unused(operation)
    result.operation = _MULTIPLY if operation.multiplies else int(operation.algorithm)
    result.negative_only = operation.negative_only
    result.shift, result.shift_negative = operation.shift, operation.shift_negative
    if operation.converter is not None:
        converter = operation.converter
        result.converts, result.convert_add_first = True, converter.add_first
        result.convert_offset, result.convert_scale = converter.offset, converter.scale
        result.convert_shift, result.convert_away = converter.shift, int(converter.rounding)
    if operation.operand is not None and task.is_float:
        result.constant_float = operation.operand
    elif operation.operand is not None:
        result.constant = int(operation.operand)


def ignore_unused(operation: ew.Operation) -> None:
    """A multiplication has no algorithm; what is not one has no shift, and is the same for both signs."""
    ignore(operation, *(("algorithm",) if operation.multiplies else ("negative_only", "shift", "shift_negative")))


def _fetch(result: ElementWise, task: Task, places: Places) -> None:
    """The address of the operand; the twin of rdma.fetch_operand."""
    reader = task.reader
    if reader is None or reader.operand is None:
        raise RefusedError("an operand that is not read")
    operand, size = reader.operand, reader.operand.bytes_each
    atom = reader.atom_bytes
    count = surfaces(task.config.channels, size, atom)
    if atom != ATOM_BYTES and (size != 1 or reader.combine or operand.mode is not OperandMode.PER_PIXEL):
        raise RefusedError("this operand in atoms of 8 bytes")
    result.operand_format = int(rdma.operand_precision(task.config.precision, size))
    if operand.mode in {OperandMode.PER_CHANNEL, OperandMode.PER_CHANNEL_BY_PIXEL}:
        ignore(operand.walk, "line_bytes", "surface_bytes")
        if not task.config.flying:
            ignore(reader, "combine", "main")
    if operand.mode is OperandMode.PER_CHANNEL:
        flat = places.read(operand.walk.address, count * ATOM_BYTES, "ERDMA per channel")
        result.operand_kind = _PER_CHANNEL
        result.operand.base[0] = flat.ctypes.data
        return
    if operand.mode is OperandMode.PER_CHANNEL_BY_PIXEL:
        packed = places.read(operand.walk.address, task.height * task.width * size, "ERDMA per pixel")
        result.operand_kind = _PER_PIXEL
        result.operand.base[0] = packed.ctypes.data
        return
    shape = (count, task.height, task.width)
    result.operand_kind = TENSOR
    if reader.combine & CombineUse.ENABLE and reader.combine & CombineUse.OPERAND:
        if reader.main is None:
            raise RefusedError("combined reading with one reader")
        result.operand = places.combined_cube(reader.main, operand.walk, shape)
    else:
        result.operand = places.cube(operand.walk, shape, "ERDMA", atom=atom)
