"""The register map of RK3588, the one that the others derive from."""

from __future__ import annotations

from openrknn.chip.rk3588.cna import CNA
from openrknn.chip.rk3588.core import CORE
from openrknn.chip.rk3588.dma import DDMA, GLOBAL, SDMA
from openrknn.chip.rk3588.dpu import DPU
from openrknn.chip.rk3588.dpu_rdma import DPU_RDMA
from openrknn.chip.rk3588.pc import PC
from openrknn.chip.rk3588.ppu import PPU
from openrknn.chip.rk3588.ppu_rdma import PPU_RDMA
from openrknn.isa.blocks import RegisterMap
from openrknn.isa.common import ENABLE, NOP, SYNC

__all__ = ["RK3588"]

RK3588 = RegisterMap(
    "rk3588",
    (NOP, SYNC, ENABLE, PC, CNA, CORE, DPU, DPU_RDMA, PPU, PPU_RDMA, DDMA, SDMA, GLOBAL),
    text="Established by executing compiled streams and comparing with the vendor's simulator.",
)
