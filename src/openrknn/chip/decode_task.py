"""From the registers of one task to the task in natural units, on every chip: the other direction of `encode`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from importlib import import_module
from typing import Protocol, cast

from openrknn.chip.decoders import family_of
from openrknn.chip.fetch import Fetch
from openrknn.chip.rk3588.encode_dpu import is_converted
from openrknn.chip.task_registers import Registers
from openrknn.errors import UnsupportedError
from openrknn.isa.enums import EwAlgorithm
from openrknn.task import cna, dpu, lut
from openrknn.task.formats import is_float
from openrknn.task.kinds import Convolution, Elementwise, Pooling

__all__ = ["decode_task"]


class _Module(Protocol):
    """What `decode` of a family that models are compiled for has."""

    def configure_fetch(self, registers: Registers, source: cna.Config) -> Fetch: ...


def decode_task(
    registers: Registers, blocks: Collection[str], tables: lut.Tables
) -> Convolution | Elementwise | Pooling:
    """What the blocks do together."""
    family = family_of(registers.chip)
    if {"DPU", "PPU"} <= set(blocks):
        raise UnsupportedError("the DPU and the PPU in one task have no kind of task")
    if "PPU" in blocks:
        return Pooling(family.pooling(registers))
    config = family.dpu(registers, tables)
    is_first = bool(registers.named("DPU")("S_POINTER", "pointer_pp_clear"))
    reader = family.readers(registers) if "DPU_RDMA" in blocks else None
    if "CNA" not in blocks:
        assert reader is not None
        return Elementwise(config, reader, _is_narrow(registers, config), is_first)
    source = family.features(registers)
    module = cast(_Module, import_module(f"openrknn.chip.{registers.chip.family}.decode"))
    fetch = module.configure_fetch(registers, source)
    return Convolution(
        source=replace(source, reuses_weights=fetch.reuses_weights), array=family.core(registers, source), dpu=config,
        reader=reader, buffer=fetch.buffer, channels=fetch.channels, picture_rows=fetch.picture_rows, is_first=is_first,
    )  # fmt: skip


def _is_narrow(registers: Registers, config: dpu.Config) -> bool:
    """Whether 16-bit floats stay so: RK3588 has a bit for it, the others have one for divisions only."""
    unit = registers.named("DPU")
    if registers.chip.family == "rk3588":
        floats = (is_float(config.precision) or is_float(config.out.precision)) and is_converted(config)
        return floats and not unit("OUT_CVT_SCALE", "fp32tofp16_en")
    operation = None if config.element_wise is None else config.element_wise.operation
    divides = operation is not None and not operation.multiplies and operation.algorithm is EwAlgorithm.DIV
    return divides and bool(unit("EW_CFG", "ew_op_cvt_bypass"))
