"""RK3562: the stages of RK3562, CNA at other places, half of RK3588's array and two thirds of its buffer.

Every difference was read from files that the vendor's converter made of the same ONNX model for both chips.
"""

from __future__ import annotations

from collections.abc import Mapping

from openrknn.chip.rk3562 import encode_stages
from openrknn.chip.rk3562.encode_stages import Fields
from openrknn.chip.target import Registers, Translation, align, ceil_div
from openrknn.chips import CHIPS
from openrknn.isa.enums import ArgbInput, ConvMode, Precision
from openrknn.task.place import Place

__all__ = ["translate"]

_CHIP = CHIPS["rk3562"]
_ATOM = _CHIP.atom_bytes
_ENTRY = 64
_PIXEL = 4
"""Numbers of a picture's pixel in the buffer."""
_COPIED = ("CNA.CONV_CON3", "CNA.WEIGHT_SIZE0", "CNA.WEIGHT_SIZE2", "CNA.DATA_SIZE0", "CNA.DATA_SIZE2",
           "CNA.DATA_SIZE3", "CNA.CVT_CON0", "CNA.FEATURE_DATA_ADDR", "CNA.DCOMP_ADDR0", "CORE.DATAOUT_SIZE_0",
           "CORE.DATAOUT_SIZE_1")  # fmt: skip


def translate(blocks: tuple[str, ...], registers: Registers) -> Translation:
    """The blocks and registers of a task as this chip has them."""
    old: Mapping[str, Fields] = registers
    new = encode_stages.ddma()
    if "PPU" in blocks:
        encode_stages.pooling(old, new)
        return (*blocks, "DDMA"), new
    is_convolution = "CNA" in blocks
    mode, form = old["DPU.FEATURE_MODE_CFG"], old["DPU.DATA_FORMAT"]
    has_bytes = Precision.INT8 in {form["proc_precision"], form["out_precision"]}
    group = _ATOM // (1 if has_bytes else 2)
    encode_stages.dpu(old, new, group * (2 if mode["conv_mode"] == ConvMode.DEPTHWISE else 1) // 4)
    if "DPU_RDMA" in blocks:
        encode_stages.readers(old, new, is_convolution=is_convolution)
    if is_convolution:
        _features(old, new)
    return (*blocks, "DDMA"), new


def _features(old: Mapping[str, Fields], new: Registers) -> None:
    """CNA and CORE."""
    con1, core = old["CNA.CONV_CON1"], old["CORE.MISC_CFG"]
    size, pads, banks = old["CNA.DATA_SIZE0"], old["CNA.PAD_CON0"], old["CNA.CBUF_CON0"]
    height, width = size["datain_height"], size["datain_width"]
    channels, low = old["CNA.DATA_SIZE1"]["datain_channel"], old["CNA.DATA_SIZE1"]["datain_channel_real"]
    channels -= (channels - low) % 64
    picture, precision = con1.get("argb_in", ArgbInput.OFF).channels, con1["in_precision"]
    is_int8, is_spread = precision is Precision.INT8, bool(con1["deconv"])
    depthwise = con1["conv_mode"] == ConvMode.DEPTHWISE
    entries, line = old["CNA.CBUF_CON1"]["data_entries"], old["CNA.DMA_CON1"]["line_stride"]
    surface = old["CNA.DMA_CON2"]["surf_stride"] + (width if con1["group_line_off"] else line)
    kept, first = banks.get("kept_rows", 0), banks.get("first_entry", 0)
    row, rows, columns, read = width, height - kept, width, width
    stored = entries
    if picture:
        stored = row = 4 * entries
        entries = ceil_div(row * _PIXEL * (1 if is_int8 else 2), _ENTRY)
        rows, columns = 1, ceil_div(row * height * picture * (1 if is_int8 else 2), _ATOM)
        line = surface = columns
        read = max(1, columns // picture)
    new |= {name: dict(old[name]) for name in _COPIED}
    new |= {f"{block}.S_POINTER": dict(old["DPU.S_POINTER"]) for block in ("CNA", "CORE")}
    new |= {
        "CNA.CONV_CON1": {
            "dw_en": int(depthwise), "image": int(picture > 0), "inline_zero_points": int(depthwise and is_int8),
            "in_precision": precision, "proc_precision": con1["proc_precision"],
            "weight_precision": con1["proc_precision"], "argb_in": con1.get("argb_in", ArgbInput.OFF),
            "ragged": int(picture > 0 and row != width), "not_deconv": int(not is_spread),
            "group_line_off": con1["group_line_off"],
        },
        "CNA.CONV_CON2": {"grains": _grains(old, entries, is_picture=picture > 0)},
        "CNA.DIVISION": {
            "data_a": banks["data_bank"], "data_b": banks["data_bank"], "not_deconv": 0 if is_spread else 24,
            "data_reuse": int(kept > 0),
        },
        "CNA.WEIGHT_SIZE1": {**old["CNA.WEIGHT_SIZE1"], "always": 2},
        "CNA.DATA_SIZE1": {"datain_channel_real": channels},
        "CNA.CBUF_WEIGHTS": {"always": 8, "weight_reuse": banks["weight_reuse"]},
        "CNA.CBUF_ENTRIES": {"data_entries": entries, "start": first},
        "CNA.CBUF_CON0": {
            "data": 2 * banks["data_bank"],
            "start": (first + kept * entries) % (banks["data_bank"] * _CHIP.cbuf_bank_entries),
        },
        "CNA.CBUF_CON1": {"data_entries": stored, "datain_width": row},
        "CNA.CVT_SCALE01": {"cvt_scale0": 1, "cvt_scale1": 1},
        "CNA.CVT_SCALE23": {"cvt_scale2": 1, "cvt_scale3": 1},
        "CNA.UNKNOWN_106C": {"bits": 32},
        "CNA.FC_DATA_SIZE0": {"dma_height": rows, "dma_width": columns},
        "CNA.FC_DATA_SIZE1": {"dma_channel": channels},
        "CNA.PAD_CON0": {
            **pads, "pad_bottom": encode_stages.behind(old, "y", height),
            "pad_right": encode_stages.behind(old, "x", width),
        },
        "CNA.PAD_CON1": {"pad_value": encode_stages.pad_bits(old, is_int8=is_int8)},
        "CNA.LANE_PAD": {"lane_pad": encode_stages.pad_bits(old, is_int8=is_int8) if picture and is_int8 else 0},
        "CNA.DMA_CON0": {
            "data_burst_len": 16, "data_bus": 4, "weight_burst_len": 16, "weight_bus": 8 if picture == 1 else 0,
        },
        "CNA.DMA_CON1": {"line_stride": line},
        "CNA.SURF_STRIDE": {"surf_stride": surface},
        "CNA.SURF_SIZE": {"surf_size": surface},
        "CNA.READ_SIZE": {"width_0": read, "width_1": read},
        "CORE.MISC_CFG": {
            "qd_en": int(core["qd_en"] and not depthwise), "dw_en": core["dw_en"], "dw_too": int(depthwise and is_int8),
            "proc_precision": core["proc_precision"],
        },
        "CORE.CLIP_TRUNCATE": {"clip_again": int(picture > 0 and is_int8)},
    }  # fmt: skip
    if kept:  # the DMA begins behind the rows that are there
        place, pitch = old["CNA.FEATURE_DATA_ADDR"]["feature_base_addr"], line if con1["group_line_off"] else line // 4
        new["CNA.FEATURE_DATA_ADDR"] = {"feature_base_addr": Place(place.tensor, place.offset + kept * pitch * _ATOM)}


def _grains(old: Mapping[str, Fields], entries: int, *, is_picture: bool) -> int:
    """When the sequencer starts; timing only.

    window + stride * (51 + 7 div output width) + 4 * (128 / entries of a row, rounded up); times four for pictures.
    """
    con3 = old["CNA.CONV_CON3"]
    if old["CNA.CONV_CON1"]["deconv"]:
        return 1023
    window = (old["CNA.WEIGHT_SIZE2"]["weight_height"] - 1) * con3["atrous_y_dilation"] + 1
    start = window + con3["conv_y_stride"] * (51 + 7 // old["CNA.DATA_SIZE2"]["dataout_width"])
    start += 4 * ceil_div(128, entries)
    return int(min(4 * start if is_picture else align(start, 4), 1023))
