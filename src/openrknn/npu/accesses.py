"""What a decoded task reads and writes, as walks through memory, one for each unit that goes there.

A walk has four nested axes [surface, row, column, byte]. Only bytes that carry data count: of the last atom of a pixel
the lanes of real channels. Writes that change the order of atoms or lanes are not `exact`: they are a superset.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from openrknn.isa import Precision
from openrknn.isa.enums import CombineUse, OperandMode
from openrknn.npu.blocks import rdma
from openrknn.npu.task import Chained, Convolution, Flying, Pooling, Step
from openrknn.task import cna, ppu
from openrknn.task import dpu as task_dpu
from openrknn.task import rdma as task_rdma
from openrknn.task.formats import element_bits, element_bytes, surfaces


@dataclass(frozen=True, slots=True)
class Access:
    """One walk."""

    unit: str
    """Who goes there: "CNA", "MRDMA", "ERDMA", "DPU" ..."""
    register: str
    """That holds the address."""
    address: int
    shape: tuple[int, int, int, int]
    steps: tuple[int, int, int, int]
    writes: bool = False
    exact: bool = True
    channels: int = 0
    """Of the data; 0 where there are none."""
    element_bytes: int = 1
    is_picture: bool = False
    """Pixels lie packed, not in atoms."""

    @property
    def first(self) -> int:
        """The lowest address."""
        return self.address + sum(min((size - 1) * step, 0) for size, step in zip(self.shape, self.steps, strict=True))

    @property
    def end(self) -> int:
        """Behind the highest one."""
        reach = sum(max((size - 1) * step, 0) for size, step in zip(self.shape, self.steps, strict=True))
        return self.address + reach + 1

    @property
    def is_per_channel(self) -> bool:
        """Operands of BS or BN, one after another for each channel."""
        return self.unit in {"BRDMA", "NRDMA"} and self.channels > 0

    @property
    def is_empty(self) -> bool:
        return min(self.shape) <= 0


def accesses_of(step: Step) -> Iterator[Access]:
    """All walks of one task, reads before writes; a task that loads tables has none."""
    found: list[Access] = []
    if isinstance(step, Convolution):
        pixels = step.source.out_height, step.source.out_width
        found += [_features(step.source), _weights(step.source)]
        if step.reader is not None:
            found += _operands(step.reader, step.dpu, *pixels)
        found += _dpu_writes(step, step.dpu, pixels[0] * pixels[1])
    elif isinstance(step, Flying):
        rows, columns = step.reader.height, step.reader.width
        found += _main(step.reader)
        found += _operands(step.reader, step.dpu, rows, columns)
        if isinstance(step, Chained):
            found.append(_pool_write(step.pooling))
        else:
            found += _dpu_writes(step, step.dpu, rows * columns * step.reader.repeat_x * step.reader.repeat_y)
    elif isinstance(step, Pooling):
        found += [_pool_read(step.config), _pool_write(step.config)]
    return (access for access in found if not access.is_empty)


def _features(config: cna.Config) -> Access:
    size, channels = element_bits(config.precision) // 8, config.channels
    if not size:  # two numbers in a byte
        size, channels = 1, -(-channels // 2)
    if config.packed_channels:
        pixel = config.packed_channels * size
        return Access(
            "CNA", "FEATURE_DATA_ADDR", config.feature_address, (1, config.height, config.width, pixel),
            (0, config.line_bytes, pixel, 1), channels=config.packed_channels, element_bytes=size, is_picture=True,
        )  # fmt: skip
    width = config.folded_width or config.width
    return _cube(
        ("CNA", "FEATURE_DATA_ADDR"), task_rdma.Walk(config.feature_address, config.line_bytes, config.surface_bytes),
        (channels, config.height * config.width // max(width, 1), width), size, config.atom_bytes,
    )  # fmt: skip


def _weights(config: cna.Config) -> Access:
    """Compressed ones are shorter than the registers say: how much is read follows from the data."""
    there = config.reuses_weights or config.compression is not None
    return _run("CNA", "DCOMP_ADDR0", config.weight_address, 0 if there else config.weight_bytes)


def _cube(
    names: tuple[str, str], walk: task_rdma.Walk, shape: tuple[int, int, int], size: int, atom: int, *,
    writes: bool = False,
) -> Access:  # fmt: skip
    """A tensor in atoms. With a single surface only the lanes of real channels count."""
    channels, rows, columns = shape
    unit, register = names
    count = surfaces(channels, size, atom)
    lanes = atom if count > 1 else min(channels * size, atom)
    return Access(
        unit, register, walk.address, (count, rows, columns, atom if writes else lanes),
        (walk.surface_bytes, walk.line_bytes, atom, 1), writes=writes, channels=channels, element_bytes=size,
    )  # fmt: skip


def _run(
    unit: str, register: str, address: int, size: int, *, writes: bool = False, exact: bool = True, channels: int = 0
) -> Access:
    """Bytes one behind the other."""
    shape, steps = (1, 1, 1, size), (0, 0, 0, 1)
    return Access(unit, register, address, shape, steps, writes=writes, exact=exact, channels=channels)


def _main(reader: task_rdma.Config) -> Iterator[Access]:
    if reader.main is None:
        return
    size = element_bytes(reader.precision)
    shape = reader.channels, reader.height, reader.width
    if reader.combine & CombineUse.ENABLE and reader.combine & CombineUse.MAIN and reader.operand is not None:
        yield from _pair(reader, reader.operand, shape, size)
    else:
        yield _cube(("MRDMA", "RDMA_SRC_BASE_ADDR"), reader.main, shape, size, reader.atom_bytes)


def _pair(
    reader: task_rdma.Config, operand: task_rdma.Operand, shape: tuple[int, int, int], size: int
) -> Iterator[Access]:
    """MRDMA reads the even surfaces, ERDMA the odd ones."""
    count = surfaces(shape[0], size, reader.atom_bytes)
    lanes = reader.atom_bytes // size
    halves = ((count + 1) // 2, "MRDMA", "RDMA_SRC_BASE_ADDR", reader.main), (
        count // 2, "ERDMA", "RDMA_EW_BASE_ADDR", operand.walk,
    )  # fmt: skip
    for part, unit, register, walk in halves:
        if part and walk is not None:
            yield _cube((unit, register), walk, (part * lanes, *shape[1:]), size, reader.atom_bytes)


def _operands(reader: task_rdma.Config, dpu: task_dpu.Config, rows: int, columns: int) -> Iterator[Access]:
    """The operands per channel, and that of EW if EW asks for it."""
    for address, kinds, unit, register in (
        (reader.bias_address, int(reader.bias_kinds), "BRDMA", "RDMA_BS_BASE_ADDR"),
        (reader.norm_address, int(reader.norm_kinds), "NRDMA", "RDMA_BN_BASE_ADDR"),
    ):
        size = rdma.operand_bytes(kinds) * dpu.real_channels
        yield _run(unit, register, address, size, channels=dpu.real_channels)
    operation = dpu.element_wise.operation if dpu.element_wise is not None else None
    if reader.operand is None or operation is None or operation.operand is not None:
        return
    combined = reader.combine & CombineUse.ENABLE
    if combined and reader.combine & CombineUse.MAIN:
        return  # ERDMA reads half of the main data
    size, at = reader.operand.bytes_each, reader.operand.walk
    match reader.operand.mode:
        case OperandMode.PER_CHANNEL:
            yield _run("ERDMA", "RDMA_EW_BASE_ADDR", at.address, dpu.real_channels * size)
        case OperandMode.PER_CHANNEL_BY_PIXEL:
            yield _run("ERDMA", "RDMA_EW_BASE_ADDR", at.address, rows * columns * size)
        case _ if combined and reader.combine & CombineUse.OPERAND:
            yield from _pair(reader, reader.operand, (dpu.real_channels, rows, columns), size)
        case _:
            shape = dpu.real_channels, rows, columns
            yield _cube(("ERDMA", "RDMA_EW_BASE_ADDR"), at, shape, size, reader.atom_bytes)


def _dpu_writes(step: Step, config: task_dpu.Config, pixels: int) -> Iterator[Access]:
    walk = config.write
    size = element_bytes(Precision.INT16 if config.is_copy else config.out.precision)
    count = surfaces(config.real_channels, size, walk.atom_bytes)
    plain = not (config.flying and (walk.transposes_atoms or walk.transposed_lanes is not None or config.reduction))
    if walk.packed_bytes is None and plain and walk.per_pixel and pixels == walk.width * walk.height:
        whole, rest = divmod(count, walk.per_pixel)
        for number, surface in enumerate(range(0, count, walk.per_pixel)):
            each = walk.per_pixel if number < whole else rest
            for at in range(min(each, count - surface)):
                start = walk.address + number * walk.group_step_bytes + at * walk.atom_step_bytes
                yield Access(
                    "DPU", "DST_BASE_ADDR", start, (1, walk.height, walk.width, walk.atom_bytes),
                    (0, walk.line_bytes, walk.atom_bytes, 1), writes=True, channels=config.real_channels,
                    element_bytes=size,
                )  # fmt: skip
        return
    for address, length in step.writes():
        yield _run("DPU", "DST_BASE_ADDR", address, length, writes=True, exact=False)


def _pool_read(config: ppu.Config) -> Access:
    walk = task_rdma.Walk(config.source_address, config.source_line_bytes, config.source_surface_bytes)
    size = element_bytes(config.precision)
    shape = config.channels, config.height, config.width
    return _cube(("PPU", "RDMA_SRC_BASE_ADDR"), walk, shape, size, config.atom_bytes)


def _pool_write(config: ppu.Config) -> Access:
    walk = task_rdma.Walk(config.target_address, config.target_line_bytes, config.target_surface_bytes)
    size = element_bytes(config.precision)
    shape = config.channels, config.out_height, config.out_width
    return _cube(("PPU", "DST_BASE_ADDR"), walk, shape, size, config.atom_bytes, writes=True)
