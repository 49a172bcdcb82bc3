"""The register map of RK3588, the one that the others derive from."""

from __future__ import annotations

from openrknn.isa.blocks import RegisterMap
from openrknn.isa.cna import CNA
from openrknn.isa.common import ENABLE, NOP, SYNC
from openrknn.isa.core import CORE
from openrknn.isa.dma import DDMA, GLOBAL, SDMA
from openrknn.isa.dpu import DPU
from openrknn.isa.dpu_rdma import DPU_RDMA
from openrknn.isa.pc import PC
from openrknn.isa.ppu import PPU
from openrknn.isa.ppu_rdma import PPU_RDMA

__all__ = ["RK3588"]

RK3588 = RegisterMap(
    "rk3588",
    (NOP, SYNC, ENABLE, PC, CNA, CORE, DPU, DPU_RDMA, PPU, PPU_RDMA, DDMA, SDMA, GLOBAL),
    text="Established by executing compiled streams and comparing with the vendor's simulator.",
)
