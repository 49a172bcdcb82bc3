"""DPU_RDMA of a task as RK3588's registers; `encode_walks` is the same on the other chips."""

from __future__ import annotations

from openrknn.chip.rk3588.encode_dpu import BURST, PIXEL_BITS, Fields, conv_mode, is_converted, keeps_fp16, pointers
from openrknn.chip.target import Registers
from openrknn.isa import Precision
from openrknn.task import rdma
from openrknn.task.formats import is_float
from openrknn.task.kinds import Piped
from openrknn.task.place import Address

__all__ = ["encode_readers", "encode_walks", "notches", "repetition", "widens"]


def encode_readers(task: Piped, reader: rdma.Config[Address]) -> Registers:
    """What the four readers fetch."""
    mode: Fields = {
        "flying_mode": int(task.dpu.flying), "conv_mode": conv_mode(task), "mrdma_disable": int(reader.main is None),
        "mrdma_fp16tofp32_en": int(widens(task)), "proc_precision": reader.proc_precision,
        "in_precision": Precision.INT16 if keeps_fp16(task) else reader.precision, "burst_len": BURST,
        "comb_use": reader.combine,
    }  # fmt: skip
    line = 0 if reader.main is None else notches(reader, reader.main)[0]
    registers = encode_walks(task, reader) | {
        "DPU_RDMA.RDMA_FEATURE_MODE_CFG": mode,
        "DPU_RDMA.RDMA_SRC_DMA_CFG": {**repetition(reader), "line_notch_addr": line},
        "DPU_RDMA.RDMA_WEIGHT": {"m_weight": 1, "b_weight": 1, "n_weight": 1, "e_weight": 1},
    }
    if task.dpu.reduction:
        registers["DPU_RDMA.RDMA_ERDMA_CFG"]["ov4k_bypass"] = 1
    return registers


def widens(task: Piped) -> bool:
    """Whether 16-bit floats from memory become floats of 32 bits."""
    return task.dpu.flying and is_float(task.dpu.precision) and is_converted(task.dpu) and not task.is_narrow


def repetition(reader: rdma.Config[Address]) -> Fields:
    """How often each atom is read along both axes."""
    return {
        "kernel_width": reader.repeat_x, "kernel_height": reader.repeat_y, "kernel_stride_width": reader.repeat_x,
        "kernel_stride_height": reader.repeat_y, "unpooling_en": int(reader.repeats),
    }  # fmt: skip


def notches(reader: rdma.Config[Address], walk: rdma.Walk[Address]) -> tuple[int, int]:
    """Atoms from the end of a line to the next, and from the end of a surface to the next."""
    line = walk.line_bytes // reader.atom_bytes
    surface = walk.surface_bytes // reader.atom_bytes
    return line - reader.width, surface - (reader.height - 1) * line - reader.width


def encode_walks(task: Piped, reader: rdma.Config[Address]) -> Registers:
    """Sizes, and where the main data and the operands are."""
    operand = reader.operand
    registers: Registers = {
        "DPU_RDMA.RDMA_S_POINTER": pointers(is_first=task.is_first),
        "DPU_RDMA.RDMA_DATA_CUBE_WIDTH": {"width": reader.width},
        "DPU_RDMA.RDMA_DATA_CUBE_HEIGHT": {"height": reader.height},
        "DPU_RDMA.RDMA_DATA_CUBE_CHANNEL": {"channel": reader.channels},
        "DPU_RDMA.RDMA_ERDMA_CFG": {"erdma_disable": int(operand is None)},
    }
    if reader.main is not None:
        registers["DPU_RDMA.RDMA_SRC_BASE_ADDR"] = {"src_base_addr": reader.main.address}
        registers["DPU_RDMA.RDMA_SURF_NOTCH"] = {"surf_notch_addr": notches(reader, reader.main)[1]}
    if operand is not None:
        line, surface = notches(reader, operand.walk)
        registers["DPU_RDMA.RDMA_ERDMA_CFG"] |= {
            "erdma_data_size": PIXEL_BITS[operand.bytes_each], "erdma_data_mode": operand.mode,
        }  # fmt: skip
        registers["DPU_RDMA.RDMA_EW_BASE_ADDR"] = {"ew_base_addr": operand.walk.address}
        registers["DPU_RDMA.RDMA_EW_SURF_STRIDE"] = {"ew_surf_stride": operand.stride_bytes // reader.atom_bytes}
        registers["DPU_RDMA.RDMA_EW_SURF_NOTCH"] = {"ew_surf_notch": surface}
        registers["DPU_RDMA.RDMA_DATA_CUBE_HEIGHT"]["ew_line_notch_addr"] = line
    for letter, stage, kinds, address in (
        ("b", "bs", reader.bias_kinds, reader.bias_address), ("n", "bn", reader.norm_kinds, reader.norm_address)
    ):  # fmt: skip
        if kinds:
            registers[f"DPU_RDMA.RDMA_{letter.upper()}RDMA_CFG"] = {f"{letter}rdma_data_use": kinds}
            registers[f"DPU_RDMA.RDMA_{stage.upper()}_BASE_ADDR"] = {f"{stage}_base_addr": address}
    return registers
