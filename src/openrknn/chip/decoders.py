"""Which blocks a chip has, and who reads their registers; what computes is the same for all."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from openrknn.chip.rk3588 import decode as rk3588
from openrknn.chip.rk3588 import dpu_stages
from openrknn.chip.task_registers import Registers
from openrknn.chips import Chip
from openrknn.errors import UnsupportedError
from openrknn.npu.blocks import cna, core, ppu, rdma
from openrknn.npu.blocks.dpu import lut, pipeline

__all__ = ["Family", "family_of"]


class Family(NamedTuple):
    """How the registers of one family of chips are read."""

    convolution: frozenset[str]
    """The blocks that a convolution needs; DPU_RDMA may join them."""
    features: Callable[[Registers], cna.Config]
    core: Callable[[Registers, cna.Config], core.Config]
    dpu: Callable[[Registers, lut.Tables], pipeline.Config]
    readers: Callable[[Registers], rdma.Config]
    pooling: Callable[[Registers], ppu.Config]
    array_pooling: Callable[[Registers], ppu.Config | None] | None = None
    """Chips without a PPU pool in the blocks of a convolution; None: it is a convolution."""
    uses_table: Callable[[Registers], bool] = lambda registers: False
    """Whether a task that loads a table also works with it, as programs for boards do (allbilly/rk3588 silu). The
    vendor's tasks only load: they copy one atom onto itself."""


class _Module(Protocol):
    """What the file of a family has."""

    def configure_features(self, registers: Registers) -> cna.Config: ...

    def configure_core(self, registers: Registers, convolution: cna.Config) -> core.Config: ...

    def configure_dpu(self, registers: Registers, tables: lut.Tables) -> pipeline.Config: ...

    def configure_readers(self, registers: Registers) -> rdma.Config: ...

    def configure_pooling(self, registers: Registers) -> ppu.Config: ...


def _family(blocks: str, module: _Module) -> Family:
    return Family(
        frozenset(blocks.split()),
        module.configure_features,
        module.configure_core,
        module.configure_dpu,
        module.configure_readers,
        module.configure_pooling,
    )


def _uses_table(registers: Registers) -> bool:
    config = registers.read(dpu_stages.EwCfg)
    return not config.ew_bypass and not config.ew_lut_bypass


def family_of(chip: Chip) -> Family:
    """How this chip's registers are read, or an error that says which chips can be executed."""
    match chip.family:
        case "rk3588":
            return _family("CNA CORE DPU", rk3588)._replace(uses_table=_uses_table)
        case "rk3566":
            from openrknn.chip.rk3566 import decode as rk3566

            return _family("CNA CMAC CORE DPU", rk3566)
        case "rk3562":
            from openrknn.chip.rk3562 import decode as rk3562

            return _family("CNA CORE DPU", rk3562)
        case "rk3576":
            from openrknn.chip.rk3576 import decode as rk3576

            return _family("CNA CORE DPU", rk3576)
        case "rv1106":
            from openrknn.chip.rv1106 import decode as rv1106

            return _family("CNA DPU", rv1106)
        case "rv1106b":
            from openrknn.chip.rv1106b import decode as rv1106b

            return _family("CNA DPU", rv1106b)._replace(array_pooling=rv1106b.configure_array_pooling)
        case _:
            raise UnsupportedError(
                f"the software NPU does not implement {chip.title} yet; it implements RK3588, RK3566/68, RK3562, "
                "RK3576, RV1126B, RV1103/06 and RV1103B/06B. `openrknn inspect` and `disasm` work for every chip"
            )
