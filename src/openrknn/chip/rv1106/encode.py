"""From tasks to the registers of RV1103 and RV1106: RK3588's places, RK3562's stages, half of the array, int8 only.

Every difference was read from files that the vendor's converter made of the same ONNX model for both chips.
"""

from __future__ import annotations

from openrknn.chip.rk3562 import encode_stages
from openrknn.chip.rk3566.encode import signed_pad
from openrknn.chip.rk3588.encode_cna import (
    PICTURES,
    converter_fields,
    converter_of,
    encode_convolution,
    is_cropped,
    kernel_bytes,
)
from openrknn.chip.rk3588.encode_dpu import conv_mode, line_notch, pointers, surface_length
from openrknn.chip.target import Encoded, Registers, align, ceil_div
from openrknn.chips import CHIPS
from openrknn.errors import UnsupportedError
from openrknn.isa.enums import Precision, Regroup
from openrknn.task.formats import element_bytes
from openrknn.task.kinds import Convolution, Piped, Pooling, Work
from openrknn.task.place import Address

__all__ = ["encode"]

_CHIP = CHIPS["rv1106"]
_ATOM = _CHIP.atom_bytes
_ENTRY_BYTES = 32
_PIXEL_BYTES = 4
"""Of a picture in the buffer, whatever its channels."""
_START_PIXELS = 16
_LARGEST_GRAINS = 1023
_SCAN_BITS = 16
_BUS, _GREY_BUS = 4, (3, 12)
"""Of data and weights; pictures of one channel have others."""
_OUT_SIZE = {1: 2, 2: 3, 4: 4}
"""By bytes of a number."""
_COPY = 9
"""What the readers of maps have set beside the conversion to fp32."""


def encode(task: Work) -> Encoded:
    """The blocks that work, and their registers."""
    if isinstance(task, Pooling):
        return ("PPU", "PPU_RDMA", "DDMA"), encode_stages.ddma() | encode_stages.pooling(task.pooling)
    blocks: tuple[str, ...] = ("DPU",)
    registers = encode_stages.ddma() | _stages(task)
    if task.reader is not None:
        blocks = ("DPU", "DPU_RDMA")
        registers |= encode_stages.encode_readers(task, task.reader)
        _readers(task, registers)
    if task.dpu.precision is Precision.INT16 or encode_stages.moves_words(task):
        _moves(task, registers)
    if isinstance(task, Convolution):
        return ("CNA", "CORE", *blocks, "DDMA"), registers | _features(task)
    return (*blocks, "DDMA"), registers


# -- DPU ---------------------------------------------------------------------------------------------------------


def _stages(task: Piped) -> Registers:
    config, lanes = task.dpu, _ATOM // (4 if element_bytes(task.dpu.precision) == 4 else 1)
    quads, write = (2 if task.depthwise else 1) * lanes // 4, config.write
    registers = encode_stages.encode_dpu(task, quads)
    repeats = task.reader is not None and task.reader.repeats
    is_spread = isinstance(task, Convolution) and (task.source.spread_y, task.source.spread_x) != (1, 1)
    registers["DPU.FEATURE_MODE_CFG"] |= {"conv_mode": conv_mode(task), "surf_len": surface_length(task)}
    registers["DPU.DATA_FORMAT"]["out_size"] = _OUT_SIZE[4 if repeats else element_bytes(config.out.precision)]
    registers["DPU.DATA_CUBE_CHANNEL"]["channel"] = config.channels
    registers["DPU.DATA_CUBE_WIDTH"]["packed_run"] = encode_stages.packed_run(task)
    registers["DPU.DATA_CUBE_NOTCH_ADDR"] = dict.fromkeys(("notch_addr_0", "notch_addr_1"), line_notch(config))
    registers["DPU.WDMA_SIZE_0"]["blocks"] = 1 if is_spread else ceil_div(config.channels, lanes)
    registers["DPU.BS_OW_CFG"]["group"] = quads
    registers["DPU.BS_CFG"]["cpend_alu_src"] = int(config.bias is not None and config.correction is not None)
    if repeats:  # each atom is four numbers of 32 bits
        registers["DPU.BS_OW_CFG"] |= {"size_e_2": write.per_pixel, "group": 1}
        registers["DPU.SURFACE_ADD"] = {"surf_add": align(write.per_pixel * write.width * write.height, 4)}
    return registers


def _readers(task: Piped, registers: Registers) -> None:
    mode = registers["DPU_RDMA.RDMA_FEATURE_MODE_CFG"]
    mode |= {"conv_mode": conv_mode(task), "copy": _COPY if mode["mrdma_fp16tofp32_en"] else 0}
    registers["DPU_RDMA.RDMA_SRC_DMA_CFG"] |= registers.pop("DPU_RDMA.RDMA_LINE_NOTCH")
    registers["DPU_RDMA.RDMA_WEIGHT"] = {"m_weight": 1, "b_weight": 1, "n_weight": 1, "e_weight": 1}


def _moves(task: Piped, registers: Registers) -> None:
    """Tasks that only move atoms: RK3588's have eight lanes of 16 bits, these four of 32."""
    regroup, word = encode_stages.regroup(task), Precision.INT32
    channels = task.dpu.channels * element_bytes(task.dpu.precision) // element_bytes(word)
    is_turn, by_atoms = regroup is not Regroup.NONE, regroup is Regroup.ATOMS
    registers["DPU.DATA_FORMAT"] |= {"proc_precision": word, "out_precision": word, "out_size": _OUT_SIZE[4]}
    registers["DPU.DATA_CUBE_CHANNEL"] = {"channel": channels, "orig_channel": channels}
    registers["DPU_RDMA.RDMA_DATA_CUBE_CHANNEL"] = {"channel": channels}
    registers["DPU.DATA_CUBE_WIDTH"] |= {"packed_run": _ATOM if is_turn else 0}
    registers["DPU.BS_OW_CFG"] |= {
        "group": 1, "tp_atoms": int(by_atoms),
        "regroup": Regroup.LANES8 if is_turn and not by_atoms else Regroup.NONE,
    }  # fmt: skip
    registers["DPU.WDMA_SIZE_0"] = {
        "group": 1, "blocks": 1 if by_atoms else ceil_div(channels, 4),
        "wide_lanes": int(by_atoms or regroup is Regroup.LANES16),
    }  # fmt: skip
    registers["DPU.OUT_CVT_SCALE"] |= {"fp32tofp16_en": 1}
    registers["DPU_RDMA.RDMA_FEATURE_MODE_CFG"] |= {
        "proc_precision": word, "in_precision": word, "mrdma_fp16tofp32_en": 1, "copy": _COPY,
    }  # fmt: skip


# -- CNA and CORE ------------------------------------------------------------------------------------------------


def _features(task: Convolution[Address]) -> Registers:
    source, buffer, packed = task.source, task.buffer, task.source.packed_channels
    if source.precision is not Precision.INT8:  # the vendor's softmax sums its fp16 numbers without the array
        raise UnsupportedError("RV1103 and RV1106 have convolutions of int8 only")
    depthwise, entries, stored = int(source.depthwise), buffer.entries, buffer.entries
    row = columns = read = source.width
    rows, surface = source.height, source.surface_bytes // _ATOM
    line = source.line_bytes // _ATOM if is_cropped(task) else 4 * source.width
    if packed:
        row = stored = 4 * entries
        entries = row * _PIXEL_BYTES // _ENTRY_BYTES
        rows, columns = 1, row * source.height * max(packed, 2) // _ATOM
        line = surface = columns
        read = row * source.height // (_ATOM // 2)
    start, converter = _start(task, entries), converter_of(source)
    return encode_convolution(task) | {
        **{f"{block}.S_POINTER": pointers(is_first=task.is_first) for block in ("CNA", "CORE")},
        "CNA.DATA_SIZE1": {"datain_channel": source.channels, "datain_channel_real": task.channels},
        "CNA.CONV_CON1": {
            "conv_mode": conv_mode(task), "in_precision": source.precision,
            "inline_zero_points": int(depthwise and not source.weight_offset),
            "proc_precision": source.weight_precision, "argb_in": PICTURES[packed],
            "group_line_off": int(packed > 0 or is_cropped(task)),
        },
        "CNA.CONV_CON2": {"scan_flags": start % _SCAN_BITS, "feature_grains": start // _SCAN_BITS},
        "CNA.CBUF_ENTRIES": {"data_entries": stored},
        "CNA.CBUF_CON0": {
            "bits_7_0": 8, "data_reuse": int(buffer.reuses_data), "weight_reuse": int(source.reuses_weights),
        },
        "CNA.CBUF_CON1": {"data_entries": entries, "datain_width": row},
        "CNA.CBUF_BANKS": {"data_bank": buffer.data_banks},
        "CNA.CVT_CON0": {
            "cvt_bypass": int(source.converter is None), **converter_fields(source), "cvt_type": 0,
            "cvt_odd": sum((offset & 1) << lane for lane, offset in enumerate(converter.offsets)),
        },
        "CNA.DW_ZERO_POINT": {"negated": source.weight_offset & 0xFF},
        **encode_stages.converter(source),
        **{
            f"CNA.CVT_OFFSET{lane}": {"cvt_offset": offset << shift}
            for lane, (offset, shift) in enumerate(zip(converter.offsets, converter.shifts, strict=True))
        },
        **({"CNA.CVT_LANES": {"cvt_lanes": 0xFF}} if packed else {}),
        "CNA.PAD_CON1": {"pad_value": signed_pad(source.pad_bits, source.precision) & 0xFFFF},
        "CNA.DMA_CON0": {
            "data_burst_len": 16, "data_bus": _GREY_BUS[0] if packed == 1 else _BUS,
            "weight_burst_len": 16, "weight_bus": _GREY_BUS[1] if packed == 1 else _BUS,
        },
        "CNA.DMA_CON1": {"line_stride": line},
        "CNA.DMA_CON2": {"surf_stride": surface},
        "CNA.FC_DATA_SIZE0": {"dma_height": rows, "dma_width": columns},
        "CNA.FC_DATA_SIZE1": {"dma_channel": source.channels},
        "CNA.READ_SIZE": {"width_0": read, "width_1": read},
        "CNA.WEIGHT_STRIDE": {"weight_stride": kernel_bytes(task) // 2},
        "CORE.MISC_CFG": {
            "qd_en": int(task.array.window_sums and not depthwise), "dw_en": depthwise, "dw_too": depthwise,
            "proc_precision": source.weight_precision,
        },
        "CORE.CLIP_TRUNCATE": {"image": int(packed > 0), "clip_truncate": task.array.shift},
    }  # fmt: skip


def _start(task: Convolution[Address], entries: int) -> int:
    """When the sequencer starts; timing only.

    Rows of a bank, and those of a window and of 16 more outputs (310 of 318 sizes are as in the vendor's files); of
    maps in several banks at least all rows, but no more banks than those rows need. In fours; pictures times four.
    """
    source = task.source
    if (source.spread_y, source.spread_x) != (1, 1):
        return _LARGEST_GRAINS
    bank, columns, stride = ceil_div(_CHIP.cbuf_bank_entries, entries), source.out_width, source.stride_y
    lines = ceil_div(_START_PIXELS, columns) if columns <= _START_PIXELS else 0
    reach = (source.kernel_height - 1) * source.dilation_y + 1 + stride * (lines + 1)
    if source.packed_channels:
        return min(4 * (bank + reach), _LARGEST_GRAINS)
    most = bank * (2 + (reach + stride) // bank)
    return min(max(source.height, align(bank + reach, 4)), most, _LARGEST_GRAINS)
