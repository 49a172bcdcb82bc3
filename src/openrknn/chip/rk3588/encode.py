"""From tasks to RK3588's registers in natural values; what is not mentioned is 0."""

from __future__ import annotations

from openrknn.chip.rk3588.encode_cna import encode_cna, encode_core
from openrknn.chip.rk3588.encode_dpu import BURST, PIXEL_BITS, Fields, encode_dpu, is_converted, pointers
from openrknn.chip.target import Registers
from openrknn.isa import Precision
from openrknn.isa.enums import ConvMode
from openrknn.task import dpu, ppu, rdma
from openrknn.task.formats import element_bytes
from openrknn.task.kinds import Convolution, Elementwise, Pooling
from openrknn.task.place import Address

__all__ = ["encode", "restarted"]

_PPU_BURST = 4


def encode(task: Convolution[Address] | Elementwise[Address] | Pooling[Address]) -> tuple[tuple[str, ...], Registers]:
    """The blocks that work, and their registers."""
    blocks: tuple[str, ...]
    if isinstance(task, Pooling):
        return ("PPU", "PPU_RDMA"), _pooling(task)
    if isinstance(task, Elementwise):
        blocks, registers = ("DPU", "DPU_RDMA"), _elementwise(task)
    else:
        readers = ("DPU_RDMA",) if task.reader is not None else ()
        blocks, registers = ("CNA", "CORE", "DPU", *readers), _convolution(task)
    return blocks, restarted(registers) if task.is_first else registers


def restarted(registers: Registers) -> Registers:
    """The same behind a freshly loaded table: both pointers at register group 0, no ping-pong."""
    cleared: Fields = {"pointer_pp_clear": 1, "executer_pp_clear": 1}
    return {name: {**cleared} if name.endswith("S_POINTER") else fields for name, fields in registers.items()}


def _pooling(task: Pooling[Address]) -> Registers:
    """PPU and PPU_RDMA."""
    config = task.pooling
    return {
        "PPU.S_POINTER": pointers(),
        "PPU_RDMA.RDMA_S_POINTER": pointers(),
        "PPU.MISC_CTRL": {"burst_len": _PPU_BURST},
        "PPU.DATA_CUBE_IN_WIDTH": {"cube_in_width": config.width},
        "PPU.DATA_CUBE_IN_HEIGHT": {"cube_in_height": config.height},
        "PPU.DATA_CUBE_IN_CHANNEL": {"cube_in_channel": config.channels},
        "PPU.DATA_CUBE_OUT_WIDTH": {"cube_out_width": config.out_width},
        "PPU.DATA_CUBE_OUT_HEIGHT": {"cube_out_height": config.out_height},
        "PPU.DATA_CUBE_OUT_CHANNEL": {"cube_out_channel": config.channels},
        "PPU.OPERATION_MODE_CFG": {
            "pooling_method": config.method, "flying_mode": 1,
            "notch_addr": config.target_line_bytes // config.atom_bytes - config.out_width,
        },
        "PPU.POOLING_KERNEL_CFG": {
            "kernel_width": config.kernel_width, "kernel_height": config.kernel_height,
            "kernel_stride_width": config.stride_x, "kernel_stride_height": config.stride_y,
        },
        "PPU.RECIP_KERNEL_WIDTH": {"recip_kernel_width": config.reciprocal_width},
        "PPU.RECIP_KERNEL_HEIGHT": {"recip_kernel_height": config.reciprocal_height},
        "PPU.POOLING_PADDING_CFG": {
            "pad_left": config.pad_left, "pad_top": config.pad_top, "pad_right": config.pad_right,
            "pad_bottom": config.pad_bottom,
        },
        **_pooling_memory(config),
    }  # fmt: skip


def _pooling_memory(config: ppu.Config[Address]) -> Registers:
    atom = config.atom_bytes
    target_pitch = config.target_surface_bytes // atom
    return {
        "PPU.PADDING_VALUE_1_CFG": {"pad_value_0": config.pad_value & 0xFFFFFFFF},
        "PPU.PADDING_VALUE_2_CFG": {"pad_value_1": config.pad_value >> 32 & 7},
        "PPU.DST_BASE_ADDR": {"dst_base_addr": config.target_address},
        "PPU.DST_SURF_STRIDE": {"dst_surf_stride": target_pitch},
        "PPU.DATA_FORMAT": {"proc_precision": config.precision, "index_add": target_pitch},
        "PPU_RDMA.RDMA_CUBE_IN_WIDTH": {"cube_in_width": config.width},
        "PPU_RDMA.RDMA_CUBE_IN_HEIGHT": {"cube_in_height": config.height},
        "PPU_RDMA.RDMA_CUBE_IN_CHANNEL": {"cube_in_channel": config.channels},
        "PPU_RDMA.RDMA_SRC_BASE_ADDR": {"src_base_addr": config.source_address},
        "PPU_RDMA.RDMA_SRC_LINE_STRIDE": {"src_line_stride": config.source_line_bytes // atom},
        "PPU_RDMA.RDMA_SRC_SURF_STRIDE": {"src_surf_stride": config.source_surface_bytes // atom},
        "PPU_RDMA.RDMA_DATA_FORMAT": {"in_precision": PIXEL_BITS[element_bytes(config.precision)]},
    }


def _elementwise(task: Elementwise[Address]) -> Registers:
    """DPU and DPU_RDMA."""
    reader = task.reader
    size = reader.height, reader.width * (reader.repeat_x if reader.repeats else 1)
    return {
        **encode_dpu(task.dpu, reader, size, depthwise=False, is_narrow=task.is_narrow),
        **_readers(reader, task.dpu, depthwise=False, is_narrow=task.is_narrow),
    }


def _convolution(task: Convolution[Address]) -> Registers:
    """CNA, CORE, DPU and perhaps DPU_RDMA."""
    source, reader = task.source, task.reader
    size = source.out_height, source.out_width
    depthwise = source.depthwise
    registers: Registers = {
        **encode_cna(task), **encode_core(task),
        **encode_dpu(task.dpu, reader, size, depthwise=depthwise, is_narrow=False),
    }  # fmt: skip
    if reader is not None:
        registers |= _readers(reader, task.dpu, depthwise=depthwise, is_narrow=False)
    return registers


def _readers(
    config: rdma.Config[Address], stages: dpu.Config[Address], *, depthwise: bool, is_narrow: bool
) -> Registers:
    """DPU_RDMA."""
    flying = stages.flying
    widens = flying and stages.precision is Precision.FP16 and is_converted(stages) and not is_narrow
    source: Fields = {
        "kernel_width": config.repeat_x, "kernel_height": config.repeat_y, "kernel_stride_width": config.repeat_x,
        "kernel_stride_height": config.repeat_y,
    }  # fmt: skip
    if config.repeats:
        source["unpooling_en"] = 1
    mode: Fields = {
        "flying_mode": int(flying), "conv_mode": ConvMode.DEPTHWISE if depthwise else ConvMode.DIRECT,
        "mrdma_disable": int(config.main is None), "mrdma_fp16tofp32_en": int(widens),
        "proc_precision": config.proc_precision, "in_precision": config.precision, "burst_len": BURST,
    }  # fmt: skip
    if config.combine:
        mode["comb_use"] = config.combine
    registers: Registers = {
        "DPU_RDMA.RDMA_S_POINTER": pointers(),
        "DPU_RDMA.RDMA_FEATURE_MODE_CFG": mode,
        "DPU_RDMA.RDMA_SRC_DMA_CFG": source,
        "DPU_RDMA.RDMA_WEIGHT": {"m_weight": 1, "b_weight": 1, "n_weight": 1, "e_weight": 1},
        "DPU_RDMA.RDMA_DATA_CUBE_WIDTH": {"width": config.width},
        "DPU_RDMA.RDMA_DATA_CUBE_HEIGHT": {"height": config.height},
        "DPU_RDMA.RDMA_DATA_CUBE_CHANNEL": {"channel": config.channels},
        "DPU_RDMA.RDMA_ERDMA_CFG": {"erdma_disable": int(config.operand is None)},
    }
    if stages.reduction:
        registers["DPU_RDMA.RDMA_ERDMA_CFG"]["ov4k_bypass"] = 1
    _walks(registers, config)
    for letter, kinds, address in (
        ("b", config.bias_kinds, config.bias_address), ("n", config.norm_kinds, config.norm_address)
    ):  # fmt: skip
        if kinds:
            stage = "bs" if letter == "b" else "bn"
            registers[f"DPU_RDMA.RDMA_{letter.upper()}RDMA_CFG"] = {f"{letter}rdma_data_use": kinds}
            registers[f"DPU_RDMA.RDMA_{stage.upper()}_BASE_ADDR"] = {f"{stage}_base_addr": address}
    return registers


def _walks(registers: Registers, config: rdma.Config[Address]) -> None:
    """Where the main data and the operand are."""
    atom, operand = config.atom_bytes, config.operand

    def notches(walk: rdma.Walk[Address]) -> tuple[int, int]:
        line = walk.line_bytes // atom
        return line - config.width, walk.surface_bytes // atom - (config.height - 1) * line - config.width

    if config.main is not None:
        line, surface = notches(config.main)
        registers["DPU_RDMA.RDMA_SRC_BASE_ADDR"] = {"src_base_addr": config.main.address}
        registers["DPU_RDMA.RDMA_SRC_DMA_CFG"]["line_notch_addr"] = line
        registers["DPU_RDMA.RDMA_SURF_NOTCH"] = {"surf_notch_addr": surface}
    if operand is not None:
        line, surface = notches(operand.walk)
        registers["DPU_RDMA.RDMA_ERDMA_CFG"] |= {
            "erdma_data_size": PIXEL_BITS[operand.bytes_each], "erdma_data_mode": operand.mode,
        }  # fmt: skip
        registers["DPU_RDMA.RDMA_EW_BASE_ADDR"] = {"ew_base_addr": operand.walk.address}
        registers["DPU_RDMA.RDMA_EW_SURF_STRIDE"] = {"ew_surf_stride": operand.stride_bytes // atom}
        registers["DPU_RDMA.RDMA_EW_SURF_NOTCH"] = {"ew_surf_notch": surface}
        if line:
            registers["DPU_RDMA.RDMA_DATA_CUBE_HEIGHT"]["ew_line_notch_addr"] = line
