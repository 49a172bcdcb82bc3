"""DPU_RDMA: four readers for the DPU.

MRDMA reads the main data of tasks without a convolution, BRDMA and NRDMA the operands per channel of BS and BN, ERDMA
the operand of EW.

    line pitch = W + line notch;  surface pitch = (H - 1) * line pitch + W + surface notch        (atoms)

Combined, MRDMA reads the even surfaces of one tensor and ERDMA the odd ones.
"""

from __future__ import annotations

import numpy as np

from openrknn.errors import UnknownModeError
from openrknn.isa import Precision
from openrknn.isa.enums import CombineUse, OperandKinds, OperandMode
from openrknn.npu.blocks.formats import Numbers, decode, widen
from openrknn.npu.memory import Bytes, Memory
from openrknn.records import dataclass
from openrknn.task.formats import element_bytes, is_float, surfaces
from openrknn.task.rdma import Config, Walk

__all__ = [
    "ChannelOperands",
    "fetch_channels",
    "fetch_main",
    "fetch_operand",
    "operand_bytes",
    "operand_precision",
]

_KIND_BYTES = {OperandKinds.ALU: 4, OperandKinds.CPEND: 2, OperandKinds.MUL: 2}
"""Bytes per channel, in the order of the kinds in memory."""
_BLOCK = np.dtype([("alu", "<i4", 4), ("mul", "<i2", 4)])
_BYTE_FORM = np.dtype([("first", _BLOCK), ("cpend", "i1", 8), ("second", _BLOCK)])
_NOT_A_BYTE = -128
"""128 does not fit into a byte, and this stands for it."""


@dataclass(frozen=True, slots=True)
class ChannelOperands:
    """Operands per channel; a kind that is not read is None."""

    alu: Numbers | None = None
    cpend: Numbers | None = None
    mul: Numbers | None = None


def _cube(memory: Memory, walk: Walk, shape: tuple[int, int, int, int], what: str) -> Bytes:
    """Atoms of `shape` = (surfaces, rows, columns, bytes of an atom)."""
    return memory.strided(walk.address, shape, (walk.surface_bytes, walk.line_bytes, shape[3], 1), what)


def _combined(config: Config, memory: Memory, count: int, height: int, width: int) -> Bytes:
    """Even surfaces from MRDMA, odd ones from ERDMA."""
    if config.main is None or config.operand is None:
        raise UnknownModeError("combined reading with one of its readers off", register="RDMA_FEATURE_MODE_CFG")
    size = config.atom_bytes
    atoms = np.empty((count, height, width, size), np.uint8)
    atoms[0::2] = _cube(memory, config.main, ((count + 1) // 2, height, width, size), "MRDMA")
    if count > 1:
        atoms[1::2] = _cube(memory, config.operand.walk, (count // 2, height, width, size), "ERDMA")
    return atoms


def fetch_main(config: Config, memory: Memory) -> Bytes:
    """The main data as atoms [surface, row, column, byte]."""
    count = surfaces(config.channels, element_bytes(config.precision), config.atom_bytes)
    if config.combine & CombineUse.ENABLE and config.combine & CombineUse.MAIN:
        return _combined(config, memory, count, config.height, config.width)
    if config.main is None:
        raise UnknownModeError("main data are needed but MRDMA is off", register="RDMA_FEATURE_MODE_CFG")
    return _cube(memory, config.main, (count, config.height, config.width, config.atom_bytes), "MRDMA")


def fetch_operand(config: Config, memory: Memory, shape: tuple[int, int, int]) -> Numbers:
    """The EW operand for data of `shape` = [channel, row, column]; per channel it is [channel, 1, 1]."""
    operand = config.operand
    if operand is None:
        raise UnknownModeError("an EW operand is needed but ERDMA is off", register="RDMA_ERDMA_CFG")
    channels, height, width = shape
    precision = operand_precision(config.proc_precision, operand.bytes_each)
    count = surfaces(channels, operand.bytes_each, config.atom_bytes)
    if operand.mode is OperandMode.PER_CHANNEL:
        flat = memory.view(operand.walk.address, count * config.atom_bytes, "ERDMA per channel")
        return widen(decode(flat, precision), config.proc_precision)[:channels, None, None]
    if operand.mode is OperandMode.PER_CHANNEL_BY_PIXEL:  # one element per pixel, packed: all channels share it
        packed = memory.view(operand.walk.address, height * width * operand.bytes_each, "ERDMA per pixel")
        return widen(decode(packed, precision), config.proc_precision).reshape(1, height, width)
    if config.combine & CombineUse.ENABLE and config.combine & CombineUse.OPERAND:
        atoms = _combined(config, memory, count, height, width)
    else:
        atoms = _cube(memory, operand.walk, (count, height, width, config.atom_bytes), "ERDMA")
    numbers = widen(decode(atoms, precision), config.proc_precision)
    return numbers.transpose(0, 3, 1, 2).reshape(-1, height, width)[:channels]


def operand_precision(arithmetic: Precision, size: int) -> Precision:
    """The operand's register only says how wide it is; what it is follows from the arithmetic."""
    if size == 1:
        return Precision.INT8
    if not is_float(arithmetic):
        return Precision.INT16 if size == 2 else Precision.INT32
    if size == 2:
        return Precision.BF16 if arithmetic is Precision.BF16 else Precision.FP16
    return Precision.FP32


def operand_bytes(kinds: int) -> int:
    """Bytes of one channel's operands of these kinds."""
    return sum(size for kind, size in _KIND_BYTES.items() if kinds & kind)


def fetch_channels(
    config: Config, channels: int, precision: Precision, memory: Memory, *, norm: bool
) -> ChannelOperands:
    """Operands per channel of BS, or of BN: blocks of channels, in each the enabled kinds one after another."""
    address, kinds = (
        (config.norm_address, config.norm_kinds) if norm else (config.bias_address, config.bias_kinds)
    )
    if kinds & OperandKinds.TRT:
        raise UnknownModeError("shifts per channel are not implemented", register="RDMA_BRDMA_CFG")
    if not kinds:
        return ChannelOperands()
    if config.byte_corrections and kinds & OperandKinds.CPEND:
        return _with_bytes(config, channels, address, kinds, memory)
    together = config.operand_block
    block = together * operand_bytes(kinds)
    count = -(-channels // together)
    raw = memory.view(address, count * block, "operands per channel").reshape(count, block)
    found: dict[OperandKinds, Numbers] = {}
    at = 0
    for kind, size in _KIND_BYTES.items():
        if kinds & kind:
            form = _channel_precision(kind, precision)
            found[kind] = widen(decode(raw[:, at : at + size * together], form), form).reshape(-1)[:channels]
            at += size * together
    return ChannelOperands(*(found.get(kind) for kind in _KIND_BYTES))


def _with_bytes(
    config: Config, channels: int, address: int, kinds: OperandKinds, memory: Memory
) -> ChannelOperands:
    """Integers: 4 x int32, 4 x int16, 8 corrections of one byte for this block and the next, 4 x int32, 4 x int16."""
    if kinds != OperandKinds.ALU | OperandKinds.CPEND | OperandKinds.MUL:
        raise UnknownModeError("corrections without addends and multipliers", register="RDMA_BRDMA_CFG")
    pairs = -(-channels // (2 * config.operand_block))
    half = channels % (2 * config.operand_block) in range(1, config.operand_block + 1)  # the last block may be alone
    whole = np.zeros(pairs, _BYTE_FORM)
    size = whole.nbytes - (_BLOCK.itemsize if half else 0)
    whole.view(np.uint8)[:size] = memory.view(address, size, "operands per channel")
    both = np.stack([whole["first"], whole["second"]], 1)
    negated = whole["cpend"].reshape(-1).astype(np.int64)
    return ChannelOperands(
        alu=both["alu"].reshape(-1)[:channels].astype(np.int64),
        cpend=np.where(negated == _NOT_A_BYTE, -_NOT_A_BYTE, negated)[:channels],
        mul=both["mul"].reshape(-1)[:channels].astype(np.int64),
    )


def _channel_precision(kind: OperandKinds, precision: Precision) -> Precision:
    if kind is OperandKinds.CPEND or not is_float(precision):
        return Precision.INT32 if kind is OperandKinds.ALU else Precision.INT16
    if kind is OperandKinds.ALU:
        return Precision.FP32
    return Precision.BF16 if precision is Precision.BF16 else Precision.FP16
