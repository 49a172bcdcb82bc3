"""The DPU as a whole: configuration of all stages, and the way of the data through them."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np

from openrknn import numerics
from openrknn.errors import UnknownModeError
from openrknn.isa import Precision
from openrknn.isa.enums import ChannelReduction
from openrknn.npu.blocks import core, rdma
from openrknn.npu.blocks.dpu import ew, out_cvt, write
from openrknn.npu.blocks.dpu.stage import apply_bn, apply_bs
from openrknn.npu.blocks.formats import Numbers, decode, encode, widen
from openrknn.npu.blocks.rdma import ChannelOperands
from openrknn.npu.memory import Bytes, Memory
from openrknn.task import core as task_core
from openrknn.task import rdma as task_rdma
from openrknn.task.dpu import Config
from openrknn.task.formats import element_bytes, is_float, surfaces

__all__ = [
    "pad_bytes",
    "run_convolution",
    "run_flying",
    "run_stages",
    "stream_convolution",
    "stream_flying",
]


def run_convolution(
    sums: core.Sums, config: Config, truncation: task_core.Config, reader: task_rdma.Config | None, memory: Memory
) -> None:
    """From accumulators to memory."""
    if config.reduction & ChannelReduction.ENABLE:
        operands = _channel_operands(config, reader, memory, norm=False)
        _reduce_sums(run_stages(sums.accumulators, config, operands, reader, memory), config, memory)
        return
    _finish(_of_sums(sums, config, truncation, reader, memory), config, memory)


def stream_convolution(
    sums: core.Sums, config: Config, truncation: task_core.Config, reader: task_rdma.Config | None, memory: Memory
) -> Bytes:
    """From accumulators to atoms for the PPU, in the order in which the DPU makes them: [k, byte]."""
    atoms = _encoded(_of_sums(sums, config, truncation, reader, memory), config)
    return np.ascontiguousarray(atoms).reshape(-1, config.write.atom_bytes)


def _of_sums(
    sums: core.Sums, config: Config, truncation: task_core.Config, reader: task_rdma.Config | None, memory: Memory
) -> Numbers:
    """From accumulators through all stages."""
    values = _fit(sums.accumulators, config.channels)
    operands = _channel_operands(config, reader, memory, norm=False)
    if config.correction is not None and sums.window is not None:
        given = config.correction.operand
        factor = operands.cpend if given is None else np.full(config.channels, given, np.int64)
        if factor is None:
            raise UnknownModeError("zero points per channel are needed but BRDMA does not read them")
        window = sums.window if len(sums.window) == 1 else _fit(sums.window, config.channels)
        values = values + factor[: config.channels, None, None] * window
    return run_stages(core.truncate(values, truncation), config, operands, reader, memory)


def run_flying(config: Config, reader: task_rdma.Config, memory: Memory) -> None:
    """From a tensor in memory to memory."""
    atoms = rdma.fetch_main(reader, memory)
    if config.write.transposed_lanes is not None:
        write.place(write.transpose_lanes(atoms, config.write.transposed_lanes), config.write, memory)
    elif config.write.transposes_atoms:
        # A copy: a task may write on top of what it reads, and it reads everything first.
        write.place(np.array(atoms, order="C").reshape(-1, config.write.atom_bytes), config.write, memory)
    elif config.reduction & ChannelReduction.ENABLE:
        _reduce(atoms, config, reader, memory)
    elif reader.repeats:
        write.place_cube(_repeated(atoms, reader), len(atoms) * reader.repeat_y, config.write, memory)
    else:
        cube = widen(decode(atoms, reader.precision), config.precision)
        values = _fit(cube.transpose(0, 3, 1, 2).reshape(-1, *cube.shape[1:3]), config.channels)
        operands = _channel_operands(config, reader, memory, norm=False)
        _finish(run_stages(values, config, operands, reader, memory), config, memory)


def _fit(values: Numbers, channels: int) -> Numbers:
    """Exactly `channels` channels: surplus ones dropped, missing ones 0."""
    if len(values) >= channels:
        return values[:channels]
    return np.concatenate([values, np.zeros((channels - len(values), *values.shape[1:]), values.dtype)])


def _channel_operands(
    config: Config, reader: task_rdma.Config | None, memory: Memory, *, norm: bool
) -> ChannelOperands:
    if reader is None:
        return ChannelOperands()
    return rdma.fetch_channels(reader, config.channels, config.precision, memory, norm=norm)


def run_stages(
    values: Numbers, config: Config, operands: ChannelOperands, reader: task_rdma.Config | None, memory: Memory
) -> Numbers:
    """BS, BN, EW and the output converter."""

    def operand() -> Numbers:
        if reader is None:
            raise UnknownModeError("an EW operand is needed but DPU_RDMA is off")
        _, height, width = values.shape
        # ERDMA only moves bytes; what they are follows from the DPU's own precision, which layer norm changes alone.
        return rdma.fetch_operand(
            replace(reader, proc_precision=config.precision), memory, (config.channels, height, width)
        )

    with np.errstate(over="ignore", invalid="ignore"):
        biased = apply_bs(values, config.bias, operands)
        normed = apply_bn(biased, config.norm, _channel_operands(config, reader, memory, norm=True))
        result = ew.apply(normed, config.element_wise, operand)
        return out_cvt.apply(result, config.out)


def stream_flying(config: Config, reader: task_rdma.Config, memory: Memory) -> Bytes:
    """From a tensor in memory to atoms for the PPU, in the order in which the DPU makes them: [k, byte]."""
    cube = widen(decode(rdma.fetch_main(reader, memory), reader.precision), config.precision)
    values = _fit(cube.transpose(0, 3, 1, 2).reshape(-1, *cube.shape[1:3]), config.channels)
    operands = _channel_operands(config, reader, memory, norm=False)
    atoms = _encoded(run_stages(values, config, operands, reader, memory), config)
    return np.ascontiguousarray(atoms).reshape(-1, config.write.atom_bytes)


def _finish(values: Numbers, config: Config, memory: Memory) -> None:
    """Encode, set the channels without data, write."""
    atoms = _encoded(values, config)
    if config.write.packed_bytes is not None:
        write.place_packed(np.ascontiguousarray(atoms), config.write, memory)
    else:
        size = element_bytes(config.in_precision if config.is_copy else config.out.precision)
        valid = surfaces(config.real_channels, size, config.write.atom_bytes)
        write.place_cube(atoms, valid, config.write, memory)


def _encoded(values: Numbers, config: Config) -> Bytes:
    """Atoms [surface, row, column, byte]; channels without data hold the pad value."""
    precision = config.in_precision if config.is_copy else config.out.precision
    size, atom = element_bytes(precision), config.write.atom_bytes
    count = surfaces(config.channels, size, atom)
    filled = _fit(values, count * atom // size)
    stored = encode(np.moveaxis(filled, 0, -1), precision)
    height, width = values.shape[1:]
    typed = stored.reshape(height, width, count, atom)
    if config.real_channels < config.channels:
        flat = typed.reshape(height, width, -1)
        start = config.real_channels * size
        flat[..., start:] = pad_bytes(config, precision, flat.shape[-1] - start)
    return typed.transpose(2, 0, 1, 3)


def pad_bytes(config: Config, precision: Precision, length: int) -> Bytes:
    """What channels without data hold, again and again."""
    size = element_bytes(precision)
    pattern = config.pad_bits.to_bytes(2, "little")
    element = pattern[:size] if size <= 2 else bytes(size)
    if size > 2 and config.pad_bits:
        value = numerics.decode_fp16(np.array([config.pad_bits], np.uint16))
        element = (value if is_float(precision) else value.astype(np.int32)).tobytes()
    return np.frombuffer(element * (length // size), np.uint8)


def _repeated(atoms: Bytes, reader: task_rdma.Config) -> Bytes:
    """Nearest upsampling: each atom repeat_x times along the row, each surface repeat_y times as the next atoms."""
    wide = np.repeat(atoms, reader.repeat_x, axis=2)
    return np.repeat(wide, reader.repeat_y, axis=0)


def _reduce_sums(values: Numbers, config: Config, memory: Memory) -> None:
    """The first half of softmax's maximum on RK3576: a convolution spreads channels over the first halves of atoms.

    Pixels come surface by surface. With `reduced_pixels` the result is one atom per pixel, the largest lane by lane;
    otherwise it is one number for as many pixels as make `real_channels`, packed. Which lane gets which number does not
    matter to what follows, the maximum over the lanes.
    """
    lanes = config.write.atom_bytes // element_bytes(config.out.precision)
    kept = values.reshape(-1, lanes, values[0].size)[:, : lanes // 2].reshape(-1, values[0].size)
    if config.reduced_pixels:
        largest = kept.reshape(len(kept), -1, config.reduced_pixels).max(1)
        write.place(encode(largest.T, config.out.precision).reshape(config.reduced_pixels, -1), config.write, memory)
        return
    together = config.real_channels // len(values)
    single = kept.reshape(len(kept), -1, together).max((0, 2))
    packed = encode(single, config.out.precision).reshape(-1)
    memory.view(config.write.address, packed.size, "DPU packed write", write=True)[...] = packed


def _reduce(atoms: Bytes, config: Config, reader: task_rdma.Config, memory: Memory) -> None:
    """The largest (or smallest) channel of each pixel, packed."""
    values = decode(atoms, reader.precision)
    flat = values.transpose(0, 3, 1, 2).reshape(-1, reader.height * reader.width)[: reader.channels]
    # Not flat.max(0): which of two zeros that gives depends on the processor.
    better = numerics.larger if config.reduction & ChannelReduction.MAXIMUM else numerics.smaller
    reduced = functools.reduce(better, flat)
    whole = np.where(np.isnan(reduced), reduced.dtype.type(np.nan), reduced) if reduced.dtype.kind == "f" else reduced
    packed = np.ascontiguousarray(whole).view(np.uint8)
    memory.view(config.write.address, packed.size, "DPU packed write", write=True)[...] = packed
