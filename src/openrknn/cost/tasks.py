"""The shape of a task in natural units, made by a decoder or by the compiler."""

from __future__ import annotations

from openrknn.cost.work import Kind, Shape
from openrknn.isa.enums import CombineUse, OperandMode
from openrknn.npu.blocks.rdma import operand_bytes
from openrknn.task import cna, dpu, ppu, rdma
from openrknn.task.formats import element_bits, element_bytes, surfaces, surfaces_of
from openrknn.task.place import Address

__all__ = ["convolution_shape", "elementwise_shape", "pooling_shape"]


def convolution_shape(
    source: cna.Config[Address], stages: dpu.Config[Address], reader: rdma.Config[Address] | None,
    pooling: ppu.Config[Address] | None = None,
) -> Shape:  # fmt: skip
    """CNA, CORE, DPU; `pooling`: the DPU hands its result to the PPU."""
    pixels, picture = source.out_height * source.out_width, source.packed_channels
    stored = source.weight_bytes if source.compression is None else source.compression.size
    each = surfaces_of(source.channels, source.precision, source.atom_bytes) * source.atom_bytes
    if picture:
        each = picture * element_bytes(source.precision)
    kind = Kind.DEPTHWISE if source.depthwise else Kind.PICTURE if picture else Kind.CONVOLUTION
    return Shape(
        kind, pixels, source.kernel_height * source.kernel_width, picture or source.weight_channels, source.kernels,
        max(element_bits(source.arithmetic) // 8, 1), stages.channels, _uses_table(stages),
        feature_bytes=source.height * source.width * each,
        weight_bytes=0 if source.reuses_weights else stored,
        operand_bytes=_operands(reader, stages.channels) if reader is not None else 0,
        written_bytes=_written(stages, pixels) if pooling is None else _pooled(pooling)[1],
    )  # fmt: skip


def elementwise_shape(
    stages: dpu.Config[Address], reader: rdma.Config[Address], pooling: ppu.Config[Address] | None = None
) -> Shape:
    """DPU and DPU_RDMA; `pooling`: the DPU hands its result to the PPU."""
    pixels = reader.height * reader.width * reader.repeat_x * reader.repeat_y
    written = _written(stages, pixels) if pooling is None else _pooled(pooling)[1]
    return Shape(
        Kind.FLYING, pixels, channels=stages.channels, uses_table=_uses_table(stages), feature_bytes=_main(reader),
        operand_bytes=_operands(reader, stages.channels), written_bytes=written,
    )  # fmt: skip


def pooling_shape(config: ppu.Config[Address]) -> Shape:
    """PPU and PPU_RDMA."""
    read, written = _pooled(config)
    taps = config.kernel_height + config.kernel_width
    return Shape(
        Kind.POOLING, config.out_height * config.out_width, taps, feature_bytes=read, written_bytes=written
    )  # fmt: skip


def _pooled(config: ppu.Config[Address]) -> tuple[int, int]:
    count = surfaces(config.channels, element_bytes(config.precision), config.atom_bytes) * config.atom_bytes
    return count * config.height * config.width, count * config.out_height * config.out_width


def _uses_table(config: dpu.Config[Address]) -> bool:
    return config.element_wise is not None and config.element_wise.table is not None


def _main(reader: rdma.Config[Address]) -> int:
    if reader.main is None:
        return 0
    size = element_bytes(reader.precision)
    return surfaces(reader.channels, size, reader.atom_bytes) * reader.atom_bytes * reader.height * reader.width


def _operands(reader: rdma.Config[Address], channels: int) -> int:
    """Per channel, and the second operand."""
    read = reader.channels * sum(operand_bytes(kinds) for kinds in (reader.bias_kinds, reader.norm_kinds))
    if reader.operand is None or reader.combine & CombineUse.MAIN:
        return read
    pixels = 1 if reader.operand.mode is OperandMode.PER_CHANNEL else reader.height * reader.width
    return read + channels * reader.operand.bytes_each * pixels


def _written(config: dpu.Config[Address], pixels: int) -> int:
    size = element_bytes(config.out.precision)
    if config.write.packed_bytes is not None:
        return pixels * config.write.packed_bytes
    return surfaces(config.real_channels, size, config.write.atom_bytes) * config.write.atom_bytes * pixels
