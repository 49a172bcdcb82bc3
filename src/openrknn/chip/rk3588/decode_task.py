"""RK3588: the registers of one task as a task in natural units; the other direction of `encode`."""

from __future__ import annotations

from openrknn.chip.rk3588 import cna, dpu, dpu_stages
from openrknn.chip.rk3588.decode import (
    configure_core,
    configure_dpu,
    configure_features,
    configure_pooling,
    configure_readers,
)
from openrknn.chip.rk3588.encode_dpu import is_converted
from openrknn.chip.task_registers import Registers
from openrknn.isa import Precision
from openrknn.task import lut
from openrknn.task.dpu import Config
from openrknn.task.kinds import BufferUse, Convolution, Elementwise, Pooling

__all__ = ["decode_convolution", "decode_elementwise", "decode_pooling"]

_REAL_CHANNELS = 64


def decode_pooling(registers: Registers) -> Pooling:
    """PPU and PPU_RDMA."""
    return Pooling(configure_pooling(registers))


def decode_elementwise(registers: Registers, tables: lut.Tables) -> Elementwise:
    """DPU and DPU_RDMA."""
    config = configure_dpu(registers, tables)
    floats = Precision.FP16 in {config.precision, config.out.precision} and is_converted(config)
    narrows = registers.read(dpu_stages.OutCvtScale).fp32tofp16_en
    return Elementwise(config, configure_readers(registers), floats and not narrows, _is_first(registers))


def decode_convolution(registers: Registers, tables: lut.Tables, *, reads: bool) -> Convolution:
    """CNA, CORE, DPU and, if it `reads` operands, DPU_RDMA."""
    source = configure_features(registers)
    use, size = registers.read(cna.CbufCon0), registers.read(cna.DataSize1)
    rest = size.datain_channel_real
    rows = 0
    if source.packed_channels:
        surface = registers.read(cna.DmaCon2).surf_stride + source.width
        rows = surface // registers.read(cna.DmaCon1).line_stride
    config: Config = configure_dpu(registers, tables)
    return Convolution(
        source=source, array=configure_core(registers, source), dpu=config,
        reader=configure_readers(registers) if reads else None,
        buffer=BufferUse(
            use.data_bank, use.weight_bank, registers.read(cna.CbufCon1).data_entries,
            registers.read(cna.ConvCon2).feature_grains, bool(use.data_reuse), 0, 0,
        ),
        channels=(size.datain_channel - rest) // _REAL_CHANNELS * _REAL_CHANNELS + rest, picture_rows=rows,
        is_first=_is_first(registers),
    )  # fmt: skip


def _is_first(registers: Registers) -> bool:
    return bool(registers.read(dpu.SPointer).pointer_pp_clear)
