"""From tasks to RK3562's registers: CNA at other places, half of RK3588's array and two thirds of its buffer.

Every difference was read from files that the vendor's converter made of the same ONNX model for both chips.
"""

from __future__ import annotations

from openrknn.chip.rk3562 import encode_stages
from openrknn.chip.rk3588.encode_cna import PICTURES, encode_convolution, is_cropped, kernel_bytes
from openrknn.chip.rk3588.encode_dpu import pointers, surface_length, table_of
from openrknn.chip.target import Encoded, Registers, align, ceil_div
from openrknn.chips import CHIPS
from openrknn.isa.enums import Precision
from openrknn.task.formats import element_bytes
from openrknn.task.kinds import Convolution, Piped, Pooling, Work
from openrknn.task.place import Address, Place

__all__ = ["encode", "moved"]

_CHIP = CHIPS["rk3562"]
_ENTRY_ATOMS = 4
_PIXEL = 4
"""Numbers of a picture's pixel in the buffer."""
_LARGEST_GRAINS = 1023


def encode(task: Work) -> Encoded:
    """The blocks that work, and their registers."""
    if isinstance(task, Pooling):
        return ("PPU", "PPU_RDMA", "DDMA"), encode_stages.ddma() | encode_stages.pooling(task.pooling)
    blocks: tuple[str, ...] = ("DPU",)
    registers = encode_stages.ddma() | _dpu(task)
    if task.reader is not None:
        blocks = ("DPU", "DPU_RDMA")
        registers |= encode_stages.encode_readers(task, task.reader)
        registers["DPU_RDMA.RDMA_FEATURE_MODE_CFG"]["depthwise"] = int(task.depthwise)
    if isinstance(task, Convolution):
        return ("CNA", "CORE", *blocks, "DDMA"), registers | _features(task)
    return (*blocks, "DDMA"), registers


def _dpu(task: Piped) -> Registers:
    config, is_packed = task.dpu, task.dpu.write.packed_bytes is not None
    moves, length = encode_stages.moves_words(task), surface_length(task)
    registers = encode_stages.encode_dpu(task, _channels_together(task) // 4)
    registers["DPU.FEATURE_MODE_CFG"]["depthwise"] = int(task.depthwise)
    registers["DPU.WDMA_SIZE_0"]["orig_channel"] = 1 if is_packed else config.real_channels
    if moves:
        registers["DPU.WDMA_SIZE_0"]["orig_channel"] = length // 4 or 4
    looks_up = table_of(config) is not None and config.flying
    return registers | {
        "DPU.SURF_LEN": {"surf_len": length if is_packed or moves else 0},
        "DPU.PACKED_RUN": {"run": encode_stages.packed_run(task) or (config.write.atom_bytes * (looks_up or moves))},
        "DPU.BUS": {"low": 2, "from_core": int(not config.flying), "high": 0x444},
    }


def _channels_together(task: Piped) -> int:
    """Channels that are written together."""
    element = 1 if task.dpu.out.precision is Precision.INT8 else element_bytes(task.dpu.precision)
    return task.dpu.write.atom_bytes // element * (2 if task.depthwise else 1)


def _features(task: Convolution[Address]) -> Registers:
    """CNA and CORE."""
    source, buffer, pad = task.source, task.buffer, encode_stages.pad_bits(task.source)
    atom = source.atom_bytes
    packed, depthwise, element = source.packed_channels, source.depthwise, element_bytes(source.precision)
    is_int8, is_spread = source.precision is Precision.INT8, (source.spread_y, source.spread_x) != (1, 1)
    row = read = columns = source.width
    line = source.line_bytes // atom if is_cropped(task) else 4 * source.width
    surface, rows = source.surface_bytes // atom, source.height - buffer.kept_rows
    entries = stored = buffer.entries
    address = source.feature_address
    if packed:
        stored = row = 4 * entries
        entries = ceil_div(row * _PIXEL * element, _ENTRY_ATOMS * atom)
        rows, columns = 1, ceil_div(row * source.height * packed * element, atom)
        line = surface = columns
        read = max(1, columns // packed)
    elif buffer.kept_rows:  # the DMA begins behind the rows that are there
        address = moved(address, buffer.kept_rows * source.line_bytes)
    registers = encode_convolution(task)
    registers["CNA.PAD_CON0"] |= encode_stages.behind(source)
    return registers | {
        **{f"{block}.S_POINTER": pointers(is_first=task.is_first) for block in ("CNA", "CORE")},
        "CNA.CONV_CON1": {
            "dw_en": int(depthwise), "image": int(packed > 0),
            "inline_zero_points": int(depthwise and is_int8 and not source.weight_offset),
            "in_precision": source.precision, "proc_precision": source.weight_precision,
            "weight_precision": source.weight_precision, "argb_in": PICTURES[packed],
            "ragged": int(packed > 0 and row != source.width), "not_deconv": int(not is_spread),
            "group_line_off": int(packed > 0 or is_cropped(task)),
        },
        "CNA.CONV_CON2": {"grains": _grains(task, entries)},
        "CNA.DIVISION": {
            "data_a": buffer.data_banks, "data_b": buffer.data_banks, "not_deconv": 0 if is_spread else 24,
            "data_reuse": int(buffer.kept_rows > 0),
        },
        "CNA.WEIGHT_SIZE1": {"weight_bytes_per_kernel": kernel_bytes(task), "always": 2},
        "CNA.DATA_SIZE1": {"datain_channel_real": task.channels},
        "CNA.CBUF_WEIGHTS": {"always": 8, "weight_reuse": int(source.reuses_weights)},
        "CNA.CBUF_ENTRIES": {"data_entries": entries, "start": buffer.first_entry},
        "CNA.CBUF_CON0": {
            "data": 2 * buffer.data_banks,
            "start": (buffer.first_entry + buffer.kept_rows * entries)
            % (buffer.data_banks * _CHIP.cbuf_bank_entries),
        },
        "CNA.CBUF_CON1": {"data_entries": stored, "datain_width": row},
        **encode_stages.converter(source),
        **encode_stages.zero_point(source),
        "CNA.UNKNOWN_106C": {"bits": 32},
        "CNA.FC_DATA_SIZE0": {"dma_height": rows, "dma_width": columns},
        "CNA.FC_DATA_SIZE1": {"dma_channel": task.channels},
        "CNA.PAD_CON1": {"pad_value": pad},
        "CNA.LANE_PAD": {"lane_pad": pad if packed and is_int8 else 0},
        "CNA.FEATURE_DATA_ADDR": {"feature_base_addr": address},
        "CNA.DMA_CON0": {
            "data_burst_len": 16, "data_bus": 4, "weight_burst_len": 16, "weight_bus": 8 if packed == 1 else 0,
        },
        "CNA.DMA_CON1": {"line_stride": line},
        "CNA.SURF_STRIDE": {"surf_stride": surface},
        "CNA.SURF_SIZE": {"surf_size": surface},
        "CNA.READ_SIZE": {"width_0": read, "width_1": read},
        "CORE.MISC_CFG": {
            "qd_en": int(task.array.window_sums and not depthwise), "dw_en": int(depthwise),
            "dw_too": int(depthwise and is_int8), "proc_precision": source.weight_precision,
        },
        "CORE.DATAOUT_SIZE_1": {"dataout_channel": align(task.dpu.real_channels, _channels_together(task))},
        "CORE.CLIP_TRUNCATE": {
            "clip_truncate": task.array.shift, "clip_again": int(packed > 0 and is_int8) or task.array.shift,
        },
    }  # fmt: skip


def moved(address: Address, count: int) -> Address:
    """So many bytes further on."""
    return address._replace(offset=address.offset + count) if isinstance(address, Place) else address + count


def _grains(task: Convolution[Address], entries: int) -> int:
    """When the sequencer starts; timing only.

    window + stride * (51 + 7 div output width) + 4 * (128 / entries of a row, rounded up); times four for pictures.
    """
    source = task.source
    if (source.spread_y, source.spread_x) != (1, 1):
        return _LARGEST_GRAINS
    window = (source.kernel_height - 1) * source.dilation_y + 1
    start = window + source.stride_y * (51 + 7 // source.out_width) + 4 * ceil_div(128, entries)
    return min(4 * start if source.packed_channels else align(start, 4), _LARGEST_GRAINS)
