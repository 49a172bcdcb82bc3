"""Registers of one convolution task."""

from __future__ import annotations

from dataclasses import dataclass, field

from openrknn.compiler.formats import Format, align, ceil_div
from openrknn.compiler.program import Place, Registers
from openrknn.compiler.recipes.base import dpu_base, merge
from openrknn.compiler.targets import Buffer
from openrknn.compiler.tile import Band, row_entries
from openrknn.isa.enums import ArgbInput, CombineUse, ConvMode

__all__ = ["ConvolutionTask", "Residual", "convolution_registers"]

_PICTURES = {1: ArgbInput.CHANNELS1, 3: ArgbInput.CHANNELS3, 4: ArgbInput.CHANNELS4}
_LARGEST_GRAINS = 1023


@dataclass(frozen=True, slots=True)
class Residual:
    """The tensor that is added: its first atom, and atoms from surface to surface."""

    place: Place
    pitch: int


@dataclass(frozen=True, slots=True)
class ConvolutionTask:
    """One band of a convolution."""

    format: Format
    band: Band
    source: Place
    weights: Place
    bias: Place
    target: Place
    width: int
    """Columns that are read."""
    line_pixels: int
    """Columns of the input in memory."""
    source_pitch: int
    target_pitch: int
    out_width: int
    kernels: int
    """Output channels; depthwise: channels of this task."""
    stored_kernels: int
    kernel_bytes: int
    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    pad_left: int
    pad_value: int
    depthwise: bool = False
    spread: tuple[int, int] = (1, 1)
    picture_channels: int = 0
    picture_row: int = 0
    picture_height: int = 0
    buffer: Buffer = field(kw_only=True)
    residual: Residual | None = None
    target_line: int = 0
    """Columns of the output in memory; 0: as many as are written."""


def convolution_registers(task: ConvolutionTask, finish: Registers) -> Registers:
    """All registers; `finish` holds those of the DPU's stages."""
    band, form = task.band, task.format
    group = form.depthwise_group if task.depthwise else form.group
    made = align(task.kernels, group)
    registers = dpu_base(form, flying=False, depthwise=task.depthwise)
    merge(registers, _cna(task), _core(task, made), _dpu(task, made), finish)
    if task.residual is not None:
        _residual(task, registers, band, task.residual)
    return registers


def _cna(task: ConvolutionTask) -> Registers:
    band, form = task.band, task.format
    channels = align(band.channels, form.atom)
    height, width = band.rows, task.width
    is_cropped = width != task.line_pixels and not task.picture_channels
    if task.picture_channels:
        entries = task.picture_row * height if task.buffer.whole_pictures else ceil_div(task.picture_row, 4)
        lines, surface = task.line_pixels, task.line_pixels * task.picture_height - width
    else:
        entries = row_entries(channels, width, form, task.buffer)
        lines = task.line_pixels if is_cropped else 4 * width
        surface = task.source_pitch - (width if is_cropped else 4 * width)
    conv: dict[str, int | Place] = {
        "conv_mode": ConvMode.DEPTHWISE if task.depthwise else ConvMode.DIRECT,
        "in_precision": form.precision, "proc_precision": form.precision,
        "deconv": int(task.spread != (1, 1)), "group_line_off": int(is_cropped),
    }  # fmt: skip
    kept = {"kept_rows": band.kept, "first_entry": band.entry} if band.kept else {}
    if task.picture_channels:
        conv |= {"argb_in": _PICTURES[task.picture_channels], "nonalign_dma": 1, "group_line_off": 1}
    return {
        "CNA.CBUF_CON0": {
            "data_bank": band.data_banks, "weight_bank": band.weight_banks, "weight_reuse": int(band.reuses_weights),
            "data_reuse": int(band.kernel > 0), **kept,
        },
        "CNA.CONV_CON1": conv,
        "CNA.CONV_CON2": {"feature_grains": _grains(task, entries)},
        "CNA.CONV_CON3": {
            "conv_x_stride": task.strides[1], "conv_y_stride": task.strides[0],
            "deconv_x_stride": task.spread[1], "deconv_y_stride": task.spread[0],
            "atrous_x_dilation": task.dilations[1], "atrous_y_dilation": task.dilations[0],
        },
        "CNA.DATA_SIZE0": {"datain_height": height, "datain_width": width},
        "CNA.DATA_SIZE1": {"datain_channel": channels, "datain_channel_real": (band.channels - 1) % 64 + 1},
        "CNA.DATA_SIZE2": {"dataout_width": task.out_width},
        "CNA.DATA_SIZE3": {"dataout_atomics": task.out_width * band.out_rows},
        "CNA.WEIGHT_SIZE0": {"weight_bytes": task.kernel_bytes * task.stored_kernels},
        "CNA.WEIGHT_SIZE1": {"weight_bytes_per_kernel": task.kernel_bytes},
        "CNA.WEIGHT_SIZE2": {
            "weight_kernels": task.stored_kernels, "weight_height": task.kernel[0], "weight_width": task.kernel[1],
        },
        "CNA.CBUF_CON1": {"data_entries": entries},
        "CNA.CVT_CON0": {"cvt_bypass": 1, "cvt_type": 1, "data_sign": 1},
        "CNA.CVT_CON1": {"cvt_scale0": 1},
        "CNA.CVT_CON2": {"cvt_scale1": 1},
        "CNA.CVT_CON3": {"cvt_scale2": 1},
        "CNA.CVT_CON4": {"cvt_scale3": 1},
        "CNA.PAD_CON0": {"pad_top": band.pad_top, "pad_left": task.pad_left},
        "CNA.PAD_CON1": {"pad_value": _pad_bits(task)},
        "CNA.FEATURE_DATA_ADDR": {"feature_base_addr": task.source},
        "CNA.DMA_CON0": {"data_burst_len": 16, "weight_burst_len": 16},
        "CNA.DMA_CON1": {"line_stride": lines},
        "CNA.DMA_CON2": {"surf_stride": surface},
        "CNA.FC_DATA_SIZE0": {"dma_height": height, "dma_width": width},
        "CNA.FC_DATA_SIZE1": {"dma_channel": channels},
        "CNA.DCOMP_ADDR0": {"decompress_addr0": task.weights},
    }  # fmt: skip


def _grains(task: ConvolutionTask, entries: int) -> int:
    """Rows that are fetched before the sequencer starts: timing only; the vendor's values where they are understood."""
    height, kernel = task.band.rows, task.kernel[0]
    most, bank = height + kernel + task.band.pad_top, task.buffer.bank_entries
    if task.picture_channels:
        return min(height + (kernel + task.band.pad_top if entries <= bank else 0), _LARGEST_GRAINS)
    if entries * height <= bank:
        return min(most, _LARGEST_GRAINS)
    twice = 2 * -(-bank // entries)
    enough = min(height, twice) if kernel == 1 else max(twice, kernel + task.band.pad_top + 8)
    return min(most, enough, _LARGEST_GRAINS)


def _pad_bits(task: ConvolutionTask) -> int:
    if task.format.element_bytes == 2:
        return task.pad_value
    low = task.pad_value & 0xFF
    bits = low << 8 | low if task.depthwise else low
    sign = (0xFFFF0000 if task.depthwise else 0xFFFFFF00) if task.pad_value < 0 else 0
    return bits | sign


def _core(task: ConvolutionTask, made: int) -> Registers:
    return {
        "CORE.MISC_CFG": {
            "qd_en": int(task.format.element_bytes == 1), "dw_en": int(task.depthwise),
            "proc_precision": task.format.precision,
        },
        "CORE.DATAOUT_SIZE_0": {"dataout_width": task.out_width, "dataout_height": task.band.out_rows},
        "CORE.DATAOUT_SIZE_1": {"dataout_channel": made},
    }  # fmt: skip


def _dpu(task: ConvolutionTask, made: int) -> Registers:
    rows, columns = task.band.out_rows, task.out_width
    together = (2 if task.depthwise else 1) * task.format.group_atoms
    gap = (task.target_line or columns) - columns if rows > 1 else 0
    return {
        "DPU.DST_BASE_ADDR": {"dst_base_addr": task.target},
        "DPU.DST_SURF_STRIDE": {"dst_surf_stride": task.target_pitch},
        "DPU.DATA_CUBE_WIDTH": {"width": columns},
        "DPU.DATA_CUBE_HEIGHT": {"height": rows},
        "DPU.DATA_CUBE_CHANNEL": {"channel": made, "orig_channel": task.kernels},
        **({"DPU.DATA_CUBE_NOTCH_ADDR": {"notch_addr_0": gap, "notch_addr_1": gap}} if gap else {}),
        "DPU.BS_OW_CFG": {"size_e_0": together, "size_e_1": together, "size_e_2": together},
        "DPU.WDMA_SIZE_0": {"channel_wdma": made},
        "DPU.WDMA_SIZE_1": {"width_wdma": columns, "height_wdma": rows},
        "DPU.SURFACE_ADD": {"surf_add": together * task.target_pitch},
        "DPU_RDMA.RDMA_DATA_CUBE_WIDTH": {"width": columns},
        "DPU_RDMA.RDMA_DATA_CUBE_HEIGHT": {"height": rows},
        "DPU_RDMA.RDMA_DATA_CUBE_CHANNEL": {"channel": made},
        "DPU_RDMA.RDMA_BS_BASE_ADDR": {"bs_base_addr": task.bias},
    }


def _residual(task: ConvolutionTask, registers: Registers, band: Band, residual: Residual) -> None:
    """Both readers fetch the operand together: even surfaces through the one, odd ones through the other."""
    notch = 2 * residual.pitch - band.out_rows * task.out_width
    merge(
        registers,
        {
            "DPU_RDMA.RDMA_SRC_BASE_ADDR": {"src_base_addr": residual.place},
            "DPU_RDMA.RDMA_EW_BASE_ADDR": {
                "ew_base_addr": residual.place._replace(
                    offset=residual.place.offset + residual.pitch * task.format.atom_bytes
                )
            },
            "DPU_RDMA.RDMA_EW_SURF_STRIDE": {"ew_surf_stride": residual.pitch},
            "DPU_RDMA.RDMA_FEATURE_MODE_CFG": {
                "mrdma_disable": 0, "comb_use": CombineUse.ENABLE | CombineUse.OPERAND,
            },
            "DPU_RDMA.RDMA_SURF_NOTCH": {"surf_notch_addr": notch},
            "DPU_RDMA.RDMA_EW_SURF_NOTCH": {"ew_surf_notch": notch},
        },
    )  # fmt: skip
