"""DDMA, SDMA and GLOBAL: bus interfaces, and an enable register for the CPU.

On RK3588 no command can address them and no stream does. RK3562 and RV1103/RV1106 streams write two registers of
DDMA through the target that RK3566/68 uses for CMAC.
"""

from __future__ import annotations

from openrknn.isa.blocks import Block
from openrknn.isa.common import EnableMask
from openrknn.isa.fields import Bits, Flag, Unsigned
from openrknn.isa.registers import Register

__all__ = ["DDMA", "GLOBAL", "SDMA", "dma_block"]


class CfgOutstanding(Register, evidence="T"):
    """Requests in flight at once."""

    rd_os_cnt = Unsigned(7, 0, "Reads.")
    wr_os_cnt = Unsigned(15, 8, "Writes.")


class RdWeight0(Register, evidence="T"):
    """Shares of the readers on the bus."""

    rd_weight_feature = Unsigned(7, 0, "CNA features.")
    rd_weight_kernel = Unsigned(15, 8, "CNA weights.")
    rd_weight_dpu = Unsigned(23, 16, "DPU_RDMA.")
    rd_weight_pdp = Unsigned(31, 24, "PPU_RDMA.")


class WrWeight0(Register, evidence="T"):
    """Shares of the writers on the bus."""

    wr_weight_dpu = Unsigned(7, 0, "DPU.")
    wr_weight_pdp = Unsigned(15, 8, "PPU.")


class CfgIdError(Register, evidence="T"):
    """Who made the request that failed."""

    rd_resp_id = Unsigned(4, 0, "Reader.")
    wr_resp_id = Unsigned(9, 6, "Writer.")


class RdWeight1(Register, evidence="T"):
    """Share of the PC on the bus."""

    rd_weight_pc = Unsigned(7, 0, "PC.")


class CfgDmaFifoClr(Register, evidence="T"):
    """Empties the FIFO."""

    dma_fifo_clr = Flag(0, "Clear.")


class CfgDmaArb(Register, evidence="T"):
    """Arbitration."""

    rd_fix_arb = Unsigned(2, 0, "Fixed order of readers.")
    wr_fix_arb = Unsigned(6, 4, "Fixed order of writers.")
    rd_arbit_model = Flag(8, "Model for readers.")
    wr_arbit_model = Flag(9, "Model for writers.")


class CfgDmaRdQos(Register, evidence="T"):
    """Quality of service of reads."""

    rd_feature_qos = Unsigned(1, 0, "CNA features.")
    rd_kernel_qos = Unsigned(3, 2, "CNA weights.")
    rd_dpu_qos = Unsigned(5, 4, "DPU_RDMA.")
    rd_ppu_qos = Unsigned(7, 6, "PPU_RDMA.")
    rd_pc_qos = Unsigned(9, 8, "PC.")


class CfgDmaRdCfg(Register, evidence="T"):
    """AXI signals of reads."""

    rd_arsize = Unsigned(2, 0, "Size: 2**n bytes per beat.")
    rd_arburst = Unsigned(4, 3, "Burst type: 1 counts up.")
    rd_arprot = Unsigned(7, 5, "Protection.")
    rd_arcache = Unsigned(11, 8, "Cache hints.")
    rd_arlock = Flag(12, "Lock.")


class CfgDmaWrCfg(Register, evidence="T"):
    """AXI signals of writes."""

    wr_awsize = Unsigned(2, 0, "Size: 2**n bytes per beat.")
    wr_awburst = Unsigned(4, 3, "Burst type: 1 counts up.")
    wr_awprot = Unsigned(7, 5, "Protection.")
    wr_awcache = Unsigned(11, 8, "Cache hints.")
    wr_awlock = Flag(12, "Lock.")


class CfgDmaWstrb(Register, evidence="T"):
    """Byte enables of writes."""

    wr_wstrb = Bits(31, 0, "One bit per byte.")


class CfgStatus(Register, evidence="T"):
    """State of the bus interface."""

    idel = Flag(8, "Idle.")


_SHAPES = {
    0x00: ("CFG_OUTSTANDING", CfgOutstanding),
    0x04: ("RD_WEIGHT_0", RdWeight0),
    0x08: ("WR_WEIGHT_0", WrWeight0),
    0x0C: ("CFG_ID_ERROR", CfgIdError),
    0x10: ("RD_WEIGHT_1", RdWeight1),
    0x14: ("CFG_DMA_FIFO_CLR", CfgDmaFifoClr),
    0x18: ("CFG_DMA_ARB", CfgDmaArb),
    0x20: ("CFG_DMA_RD_QOS", CfgDmaRdQos),
    0x24: ("CFG_DMA_RD_CFG", CfgDmaRdCfg),
    0x28: ("CFG_DMA_WR_CFG", CfgDmaWrCfg),
    0x2C: ("CFG_DMA_WSTRB", CfgDmaWstrb),
    0x30: ("CFG_STATUS", CfgStatus),
}


def dma_block(name: str, base: int, target: int | None, text: str) -> Block:
    """A bus interface at `base`."""
    registers = tuple(
        shape.place(offset=base + offset, name=register_name) for offset, (register_name, shape) in _SHAPES.items()
    )
    return Block(name, target, base, registers, shadowed=False, text=text)


class GlobalOperationEnable(EnableMask, offset=0xF008, name="OPERATION_ENABLE", evidence="T"):
    """Starts several blocks at once when the CPU writes registers. In streams the enable word does."""


DDMA = dma_block("DDMA", 0x8000, None, "Bus interface of the DMA readers and writers.")
SDMA = dma_block("SDMA", 0x9000, None, "Second bus interface.")
GLOBAL = Block("GLOBAL", None, 0xF000, (GlobalOperationEnable,), shadowed=False, text="Enable register for the CPU.")
