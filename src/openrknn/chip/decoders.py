"""Which blocks a chip has, and who reads their registers; what computes is the same for all."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import NamedTuple, Protocol, cast

from openrknn.chip import FAMILIES
from openrknn.chip.task_registers import Registers
from openrknn.chips import Chip
from openrknn.errors import UnsupportedError
from openrknn.task import cna, core, lut, ppu, rdma
from openrknn.task import dpu as task_dpu

__all__ = ["Family", "family_of"]


class Family(NamedTuple):
    """How the registers of one family of chips are read."""

    convolution: frozenset[str]
    """The blocks that a convolution needs; DPU_RDMA may join them."""
    features: Callable[[Registers], cna.Config]
    core: Callable[[Registers, cna.Config], core.Config]
    dpu: Callable[[Registers, lut.Tables], task_dpu.Config]
    readers: Callable[[Registers], rdma.Config]
    pooling: Callable[[Registers], ppu.Config]
    array_pooling: Callable[[Registers], ppu.Config | None] | None = None
    """Chips without a PPU pool in the blocks of a convolution; None: it is a convolution."""
    uses_table: Callable[[Registers], bool] = lambda registers: False
    """Whether a task that loads a table also works with it, as programs for boards do (allbilly/rk3588 silu). The
    vendor's tasks only load: they copy one atom onto itself."""


class _Module(Protocol):
    """What `decode` of a family has."""

    BLOCKS: frozenset[str]

    def configure_features(self, registers: Registers) -> cna.Config: ...

    def configure_core(self, registers: Registers, convolution: cna.Config) -> core.Config: ...

    def configure_dpu(self, registers: Registers, tables: lut.Tables) -> task_dpu.Config: ...

    def configure_readers(self, registers: Registers) -> rdma.Config: ...

    def configure_pooling(self, registers: Registers) -> ppu.Config: ...


@cache
def _family(name: str) -> Family:
    module = cast(_Module, import_module(f"openrknn.chip.{name}.decode"))
    family = Family(
        module.BLOCKS,
        module.configure_features,
        module.configure_core,
        module.configure_dpu,
        module.configure_readers,
        module.configure_pooling,
        getattr(module, "configure_array_pooling", None),
    )
    return family._replace(uses_table=module.uses_table) if hasattr(module, "uses_table") else family


def family_of(chip: Chip) -> Family:
    """How this chip's registers are read, or an error that says which chips can be executed."""
    if chip.family not in FAMILIES:
        raise UnsupportedError(
            f"the software NPU does not implement {chip.title} yet; it implements RK3588, RK3566/68, RK3562, "
            "RK3576, RV1126B, RV1103/06 and RV1103B/06B. `openrknn inspect` and `disasm` work for every chip"
        )
    return _family(chip.family)
