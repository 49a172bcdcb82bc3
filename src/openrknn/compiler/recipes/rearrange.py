"""Tasks of the DPU that only move 16-bit numbers: atoms in another order, and lanes and pixels that change places.

Both are the forms of the vendor's converter. The write DMA numbers the atoms of the stream and places them by four
counters, from the fastest: e (1 to 8), w, h, g (see `npu.blocks.dpu.write`).
"""

from __future__ import annotations

from dataclasses import dataclass

from openrknn.compiler.formats import Format
from openrknn.compiler.program import Place, Registers
from openrknn.compiler.recipes.base import dpu_base, merge
from openrknn.isa import Precision
from openrknn.isa.enums import TransposeLanes

__all__ = ["Read", "Write", "atoms_registers", "lanes_registers", "zero_registers"]

_LONGEST = 0xFFFF


@dataclass(frozen=True, slots=True)
class Read:
    """`surfaces` times `rows` lines of `columns` atoms; steps in atoms."""

    place: Place
    columns: int
    rows: int
    surfaces: int
    row_step: int
    surface_step: int


@dataclass(frozen=True, slots=True)
class Write:
    """Counts and steps of the counters; w steps by one atom."""

    place: Place
    e: int
    e_step: int
    w: int
    h: int
    h_step: int
    g_step: int


def atoms_registers(form: Format, read: Read, write: Write) -> Registers:
    """Atoms in another order. `form`: the chip's fp16, whatever is in them."""
    registers = _moved(form, read, write)
    return merge(registers, {
        "DPU.FEATURE_MODE_CFG": {"tp_en": 1},
        "DPU.WDMA_SIZE_0": {"tp_precision": TransposeLanes.BITS16},
    })  # fmt: skip


def lanes_registers(
    form: Format, read: Read, write: Write, width: TransposeLanes = TransposeLanes.BITS16
) -> Registers:
    """Of each 8 atoms in a row: atom n becomes what was lane n of all of them; e counts these.

    16 lanes of 8 bits: of each 16 atoms; e counts the first 8 and the last 8 of them, the next counter these halves.
    """
    registers = _moved(form, read, write)
    return merge(registers, {
        "DPU.FEATURE_MODE_CFG": {"surf_len": min(read.columns * read.rows * read.surfaces, _LONGEST)},
        "DPU.WDMA_SIZE_0": {"tp_precision": width, "size_c_wdma": read.surfaces - 1},
        "DPU.BS_OW_CFG": {"tp_org_en": 1},
    })  # fmt: skip


def zero_registers(form: Format, read: Read) -> Registers:
    """Everything that is read becomes zero, in place."""
    write = Write(read.place, 1, read.surface_step, read.columns, read.rows, read.row_step, read.surface_step)
    registers = _moved(form, read, write)
    return merge(registers, {"DPU.BS_CFG": {"bs_bypass": 0, "bs_mul_bypass": 0}})


def _moved(form: Format, read: Read, write: Write) -> Registers:
    registers = dpu_base(form, flying=True)
    lanes = form.atom * read.surfaces
    precision = {"proc_precision": Precision.INT16, "in_precision": Precision.INT16}
    notch = write.h_step - write.w
    extent = (read.rows - 1) * read.row_step + read.columns
    return merge(registers, {
        "DPU.DATA_FORMAT": {**precision, "out_precision": Precision.INT16},
        "DPU.OUT_CVT_SCALE": {"fp32tofp16_en": 0},
        "DPU.DST_BASE_ADDR": {"dst_base_addr": write.place},
        "DPU.DST_SURF_STRIDE": {"dst_surf_stride": write.e_step},
        "DPU.DATA_CUBE_WIDTH": {"width": read.columns},
        "DPU.DATA_CUBE_HEIGHT": {"height": read.rows},
        "DPU.DATA_CUBE_NOTCH_ADDR": {"notch_addr_0": notch, "notch_addr_1": notch},
        "DPU.DATA_CUBE_CHANNEL": {"channel": lanes, "orig_channel": lanes},
        "DPU.BS_OW_CFG": {"size_e_0": write.e, "size_e_1": write.e, "size_e_2": write.e},
        "DPU.WDMA_SIZE_0": {"channel_wdma": lanes},
        "DPU.WDMA_SIZE_1": {"width_wdma": write.w, "height_wdma": write.h},
        "DPU.SURFACE_ADD": {"surf_add": write.g_step},
        "DPU_RDMA.RDMA_DATA_CUBE_WIDTH": {"width": read.columns},
        "DPU_RDMA.RDMA_DATA_CUBE_HEIGHT": {"height": read.rows},
        "DPU_RDMA.RDMA_DATA_CUBE_CHANNEL": {"channel": lanes},
        "DPU_RDMA.RDMA_SRC_BASE_ADDR": {"src_base_addr": read.place},
        "DPU_RDMA.RDMA_FEATURE_MODE_CFG": {**precision, "mrdma_fp16tofp32_en": 0},
        "DPU_RDMA.RDMA_SRC_DMA_CFG": {"line_notch_addr": read.row_step - read.columns},
        "DPU_RDMA.RDMA_SURF_NOTCH": {"surf_notch_addr": read.surface_step - extent},
    })  # fmt: skip
