"""Registers of a task that reads a tensor from memory and works on each number: copies, activations, two operands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from openrknn.compiler.formats import Format, align
from openrknn.compiler.program import Place, Registers, Tensor
from openrknn.compiler.recipes.base import dpu_base, merge
from openrknn.compiler.tile.columns import fold
from openrknn.isa.enums import OperandMode

__all__ = ["LARGEST_SIDE", "Cube", "band_registers", "dense_sides", "elementwise_registers", "repeat_registers"]

LARGEST_SIDE = 8191
"""Rows and columns of a task of the DPU."""


@dataclass(frozen=True, slots=True)
class Cube:
    """A tensor as a task sees it: first atom, and atoms from surface to surface."""

    place: Place
    pitch: int


def dense_sides(rows: int, columns: int) -> tuple[int, int]:
    """Pixels that lie one after the other, as sides that the registers count; as they are if there are no such."""
    if max(rows, columns) <= LARGEST_SIDE:
        return rows, columns
    return fold(rows * columns, LARGEST_SIDE) or (1, rows * columns)


def elementwise_registers(
    form: Format, size: tuple[int, int, int], source: Cube, target: Cube, finish: Registers, other: Cube | None = None,
    *, per_channel: bool = False, line: int = 0,
) -> Registers:  # fmt: skip
    """`size` is (channels, rows, columns); `other` the second operand; `line` atoms from row to row, if not dense."""
    channels, rows, columns = size
    if not line:
        rows, columns = dense_sides(rows, columns)
    padded = align(channels, form.atom)
    registers = dpu_base(form, flying=True)
    gap = (line or columns) - columns
    extent = rows * columns + (rows - 1) * gap
    merge(
        registers,
        {
            "DPU.DST_BASE_ADDR": {"dst_base_addr": target.place},
            "DPU.DST_SURF_STRIDE": {"dst_surf_stride": target.pitch},
            "DPU.DATA_CUBE_WIDTH": {"width": columns},
            "DPU.DATA_CUBE_HEIGHT": {"height": rows},
            "DPU.DATA_CUBE_CHANNEL": {"channel": padded, "orig_channel": padded},
            "DPU.WDMA_SIZE_0": {"channel_wdma": padded},
            "DPU.WDMA_SIZE_1": {"width_wdma": columns, "height_wdma": rows},
            "DPU.SURFACE_ADD": {"surf_add": target.pitch},
            "DPU_RDMA.RDMA_DATA_CUBE_WIDTH": {"width": columns},
            "DPU_RDMA.RDMA_DATA_CUBE_HEIGHT": {"height": rows},
            "DPU_RDMA.RDMA_DATA_CUBE_CHANNEL": {"channel": padded},
            "DPU.DATA_CUBE_NOTCH_ADDR": {"notch_addr_0": gap, "notch_addr_1": gap},
            "DPU_RDMA.RDMA_SRC_DMA_CFG": {"line_notch_addr": gap},
            "DPU_RDMA.RDMA_SRC_BASE_ADDR": {"src_base_addr": source.place},
            "DPU_RDMA.RDMA_SURF_NOTCH": {"surf_notch_addr": source.pitch - extent},
        },
        finish,
    )
    if other is not None:
        notch = 0 if per_channel else other.pitch - rows * columns
        merge(
            registers,
            {
                "DPU_RDMA.RDMA_EW_BASE_ADDR": {"ew_base_addr": other.place},
                "DPU_RDMA.RDMA_EW_SURF_STRIDE": {"ew_surf_stride": other.pitch},
                "DPU_RDMA.RDMA_EW_SURF_NOTCH": {"ew_surf_notch": notch},
            },
        )
    return registers


def band_registers(
    whole: Registers, first: int, count: int, tensors: Mapping[str, Tensor], atom_bytes: int
) -> Registers:
    """The same work on some rows only, of a map with several; of a map with one row, on some of its columns.

    Addresses move by atoms of the tensor that they point into; notches count atoms of the chip (`atom_bytes`).
    """

    def move(register: str, name: str) -> int:
        """Returns the chip's atoms in one of the tensor's."""
        place = registers[register][name]
        assert isinstance(place, Place)
        each = tensors[place.tensor].atom_bytes
        registers[register][name] = Place(place.tensor, place.offset + skipped * each)
        return each // atom_bytes

    height, width = (_number(whole, f"DPU.DATA_CUBE_{side.upper()}", side) for side in ("height", "width"))
    side, skipped, left = ("width", first, width - count)
    if height > 1:
        side, skipped, left = ("height", first * width, (height - count) * width)
    registers = {name: dict(fields) for name, fields in whole.items()}
    registers[f"DPU.DATA_CUBE_{side.upper()}"][side] = count
    registers[f"DPU_RDMA.RDMA_DATA_CUBE_{side.upper()}"][side] = count
    registers["DPU.WDMA_SIZE_1"][f"{side}_wdma"] = count
    move("DPU.DST_BASE_ADDR", "dst_base_addr")
    atoms = move("DPU_RDMA.RDMA_SRC_BASE_ADDR", "src_base_addr")
    registers["DPU_RDMA.RDMA_SURF_NOTCH"] = {
        "surf_notch_addr": _number(whole, "DPU_RDMA.RDMA_SURF_NOTCH", "surf_notch_addr") + left * atoms
    }
    mode = _number(whole, "DPU_RDMA.RDMA_ERDMA_CFG", "erdma_data_mode")
    if "DPU_RDMA.RDMA_EW_BASE_ADDR" in registers and mode != OperandMode.PER_CHANNEL:
        atoms = move("DPU_RDMA.RDMA_EW_BASE_ADDR", "ew_base_addr")
        registers["DPU_RDMA.RDMA_EW_SURF_NOTCH"] = {
            "ew_surf_notch": _number(whole, "DPU_RDMA.RDMA_EW_SURF_NOTCH", "ew_surf_notch") + left * atoms
        }
    return registers


def _number(registers: Registers, register: str, name: str) -> int:
    value = registers.get(register, {}).get(name, 0)
    return value if isinstance(value, int) else 0


def repeat_registers(
    form: Format, rows: int, columns: int, factors: tuple[int, int], source: Cube, target: Place, *, as_bytes: bool
) -> Registers:
    """Nearest upsampling of one surface: each atom `factors` times. `as_bytes`: whatever is in them."""
    from openrknn.isa import Precision

    high, wide = factors
    moved = Precision.INT8 if as_bytes else form.precision
    lanes = form.atom_bytes if as_bytes else form.atom
    line = columns * wide
    registers = elementwise_registers(form, (form.atom, rows, columns), source, Cube(target, line), {})
    notch = (high - 1) * line
    return merge(
        registers,
        {
            "DPU.DATA_FORMAT": {
                "proc_precision": moved, "in_precision": Precision.INT16, "out_precision": moved,
            },
            "DPU.OUT_CVT_SCALE": {"fp32tofp16_en": 0},
            "DPU.DATA_CUBE_WIDTH": {"width": line},
            "DPU.DATA_CUBE_NOTCH_ADDR": {"notch_addr_0": notch, "notch_addr_1": notch},
            "DPU.DATA_CUBE_CHANNEL": {"channel": lanes, "orig_channel": lanes},
            "DPU.WDMA_SIZE_0": {"channel_wdma": lanes},
            "DPU.BS_OW_CFG": {"size_e_0": high, "size_e_1": high, "size_e_2": high},
            "DPU.WDMA_SIZE_1": {"width_wdma": line, "height_wdma": rows},
            "DPU_RDMA.RDMA_DATA_CUBE_CHANNEL": {"channel": form.atom_bytes // 2},
            "DPU_RDMA.RDMA_FEATURE_MODE_CFG": {
                "proc_precision": moved, "in_precision": Precision.INT16, "mrdma_fp16tofp32_en": 0,
            },
            "DPU_RDMA.RDMA_SRC_DMA_CFG": {
                "kernel_width": wide, "kernel_height": high, "kernel_stride_width": wide, "kernel_stride_height": high,
                "unpooling_en": 1,
            },
        },
    )  # fmt: skip
