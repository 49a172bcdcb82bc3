"""CNA and CORE of a convolution as RK3588's registers; `encode_convolution` is the same on the other chips."""

from __future__ import annotations

from openrknn import numerics
from openrknn.chip.compression import encode_compression
from openrknn.chip.rk3588.encode_dpu import BURST, Fields, conv_mode
from openrknn.chip.target import Registers
from openrknn.errors import UnsupportedError
from openrknn.isa.enums import ArgbInput
from openrknn.task import cna
from openrknn.task.formats import element_bits, element_bytes
from openrknn.task.kinds import Convolution
from openrknn.task.place import Address

__all__ = ["PICTURES", "converter_fields", "converter_of", "encode_cna", "encode_convolution", "encode_core",
           "encode_lanes", "is_cropped", "kernel_bytes"]  # fmt: skip

PICTURES = {0: ArgbInput.OFF, 1: ArgbInput.CHANNELS1, 3: ArgbInput.CHANNELS3, 4: ArgbInput.CHANNELS4}
"""By channels of packed pixels."""
_REAL_CHANNELS = 64
"""DATA_SIZE1 counts channels that carry data modulo this."""


def kernel_bytes(task: Convolution[Address]) -> int:
    """Of the weights of one kernel."""
    source = task.source
    taps = source.kernel_height * source.kernel_width
    return source.weight_channels * taps * element_bits(source.weight_precision) // 8


def converter_of(source: cna.Config[Address]) -> cna.Converter:
    """The input converter; one that changes nothing where it is off."""
    return source.converter or cna.Converter(True, numerics.Rounding.EVEN, (0,) * 4, (1,) * 4, (0,) * 4, 0)


def converter_fields(source: cna.Config[Address]) -> Fields:
    """CVT_CON0 but for the switch."""
    converter = converter_of(source)
    return {
        "cvt_type": int(converter.add_first), "round_type": int(converter.rounding),
        "data_sign": int(not source.is_unsigned),
        **{f"cvt_truncate_{lane}": shift for lane, shift in enumerate(converter.shifts)},
    }  # fmt: skip


def encode_lanes(source: cna.Config[Address]) -> Registers:
    """Scales and offsets of the input converter, a register for each lane."""
    converter = converter_of(source)
    return {
        f"CNA.CVT_CON{lane + 1}": {f"cvt_scale{lane}": scale, f"cvt_offset{lane}": offset}
        for lane, (scale, offset) in enumerate(zip(converter.scales, converter.offsets, strict=True))
    }


def is_cropped(task: Convolution[Address]) -> bool:
    """Whether lines of a map are read in part: then the pitch of lines counts atoms, else four at a time."""
    source = task.source
    return not source.packed_channels and source.line_bytes != source.width * source.atom_bytes


def encode_convolution(task: Convolution[Address]) -> Registers:
    """Sizes, steps, addresses and compression."""
    source = task.source
    if source.packed_rows or source.folded_width or source.input_major:
        raise UnsupportedError("this order of weights or of pixels has no encoder")
    return encode_compression(source) | {
        "CNA.CONV_CON3": {
            "conv_x_stride": source.stride_x, "conv_y_stride": source.stride_y,
            "deconv_x_stride": source.spread_x, "deconv_y_stride": source.spread_y,
            "atrous_x_dilation": source.dilation_x, "atrous_y_dilation": source.dilation_y,
        },
        "CNA.DATA_SIZE0": {"datain_height": source.height, "datain_width": source.width},
        "CNA.DATA_SIZE2": {"dataout_width": source.out_width},
        "CNA.DATA_SIZE3": {"dataout_atomics": source.out_width * source.out_height},
        "CNA.WEIGHT_SIZE0": {"weight_bytes": source.weight_bytes},
        "CNA.WEIGHT_SIZE1": {"weight_bytes_per_kernel": kernel_bytes(task)},
        "CNA.WEIGHT_SIZE2": {
            "weight_kernels": source.kernels, "weight_height": source.kernel_height,
            "weight_width": source.kernel_width,
        },
        "CNA.CVT_CON0": {"cvt_bypass": int(source.converter is None), **converter_fields(source)},
        "CNA.PAD_CON0": {"pad_top": source.pad_top, "pad_left": source.pad_left},
        "CNA.FEATURE_DATA_ADDR": {"feature_base_addr": source.feature_address},
        "CNA.DMA_CON0": {"data_burst_len": BURST, "weight_burst_len": BURST},
        "CNA.DCOMP_ADDR0": {"decompress_addr0": source.weight_address},
        "CORE.DATAOUT_SIZE_0": {"dataout_width": source.out_width, "dataout_height": source.out_height},
        "CORE.DATAOUT_SIZE_1": {"dataout_channel": task.dpu.channels},
    }  # fmt: skip


def encode_cna(task: Convolution[Address]) -> Registers:
    """What is fetched, and how it is padded and convolved."""
    source, buffer = task.source, task.buffer
    packed, cropped, atom = source.packed_channels, is_cropped(task), source.atom_bytes
    if packed:
        line = source.line_bytes // (packed * element_bytes(source.precision))
        surface = line * task.picture_rows - source.width
    elif cropped:
        line, surface = source.line_bytes // atom, source.surface_bytes // atom - source.width
    else:
        line, surface = 4 * source.width, source.surface_bytes // atom - 4 * source.width
    conv: Fields = {
        "conv_mode": conv_mode(task), "in_precision": source.precision, "proc_precision": source.weight_precision,
        "deconv": int((source.spread_y, source.spread_x) != (1, 1)), "group_line_off": int(cropped or packed > 0),
        "argb_in": PICTURES[packed], "nonalign_dma": int(packed > 0),
    }  # fmt: skip
    return encode_convolution(task) | {
        "CNA.CBUF_CON0": {
            "data_bank": buffer.data_banks, "weight_bank": buffer.weight_banks,
            "weight_reuse": int(source.reuses_weights), "data_reuse": int(buffer.reuses_data),
        },
        "CNA.CONV_CON1": conv,
        "CNA.CONV_CON2": {"feature_grains": buffer.grains},
        "CNA.DATA_SIZE1": {
            "datain_channel": source.channels, "datain_channel_real": (task.channels - 1) % _REAL_CHANNELS + 1,
        },
        "CNA.CBUF_CON1": {"data_entries": buffer.entries},
        **encode_lanes(source),
        "CNA.CVT_CON5": {"per_channel_cvt_en": converter_of(source).lanes},
        "CNA.PAD_CON1": {"pad_value": source.pad_bits},
        "CNA.DMA_CON1": {"line_stride": line},
        "CNA.DMA_CON2": {"surf_stride": surface},
        "CNA.FC_DATA_SIZE0": {"dma_height": source.height, "dma_width": source.width},
        "CNA.FC_DATA_SIZE1": {"dma_channel": source.channels},
    }  # fmt: skip


def encode_core(task: Convolution[Address]) -> Registers:
    """The array; it makes the DPU's channels."""
    array, source = task.array, task.source
    return {
        "CORE.MISC_CFG": {
            "qd_en": int(array.window_sums), "dw_en": int(source.depthwise), "proc_precision": source.weight_precision,
        },
        "CORE.CLIP_TRUNCATE": {
            "clip_truncate": array.shift, "round_type": int(array.rounding) if array.shift else 0,
        },
    }  # fmt: skip
