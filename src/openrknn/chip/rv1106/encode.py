"""RV1103 and RV1106: RK3588's places, the stages of RK3562, half of RK3588's array, int8 only, mini files.

Every difference was read from files that the vendor's converter made of the same ONNX model for both chips.
"""

from __future__ import annotations

from collections.abc import Mapping

from openrknn.chip.rk3562 import encode_stages
from openrknn.chip.rk3562.encode_stages import Fields
from openrknn.chip.target import Registers, Translation, align, ceil_div
from openrknn.chips import CHIPS
from openrknn.errors import UnsupportedError
from openrknn.isa.enums import ArgbInput, ConvMode, Precision, Regroup

__all__ = ["BANK_ENTRIES", "translate"]

_CHIP = CHIPS["rv1106"]
_ATOM = _CHIP.atom_bytes
_ENTRY_BYTES = 32
_PIXEL_BYTES = 4
"""Of a picture in the buffer, whatever its channels."""
BANK_ENTRIES = 1024
_START_PIXELS = 16
_LARGEST_GRAINS = 1023
_SCAN_BITS = 16
_BUS, _GREY_BUS = 4, (3, 12)
"""Of data and weights; pictures of one channel have others."""
_OUT_SIZE = {Precision.INT8: 2, Precision.INT16: 3, Precision.FP16: 3, Precision.INT32: 4}
_COPY = 9
"""What the readers of maps have set beside the conversion to fp32."""
_COPIED = ("CNA.DCOMP_REGNUM", "CNA.DCOMP_CTRL", "CNA.CONV_CON3", "CNA.DATA_SIZE0", "CNA.DATA_SIZE2",
           "CNA.DATA_SIZE3", "CNA.WEIGHT_SIZE0", "CNA.WEIGHT_SIZE1", "CNA.WEIGHT_SIZE2", "CNA.PAD_CON0",
           "CNA.FEATURE_DATA_ADDR", "CNA.FC_DATA_SIZE1", "CNA.DCOMP_ADDR0", "CORE.DATAOUT_SIZE_0",
           "CORE.DATAOUT_SIZE_1")  # fmt: skip


def translate(blocks: tuple[str, ...], registers: Registers) -> Translation:
    """The blocks and registers of a task as this chip has them."""
    old: Mapping[str, Fields] = registers
    new = encode_stages.ddma()
    if "PPU" in blocks:
        encode_stages.pooling(old, new)
        return (*blocks, "DDMA"), new
    is_convolution = "CNA" in blocks
    _stages(old, new)
    if "DPU_RDMA" in blocks:
        encode_stages.readers(old, new, is_convolution=is_convolution)
        _readers(old, new)
    if old["DPU.DATA_FORMAT"]["proc_precision"] is Precision.INT16:
        _moves(old, new)
    if is_convolution:
        _features(old, new)
        _core(old, new)
    return (*blocks, "DDMA"), new


# -- DPU ---------------------------------------------------------------------------------------------------------


def _stages(old: Mapping[str, Fields], new: Registers) -> None:
    mode, form, channel = old["DPU.FEATURE_MODE_CFG"], old["DPU.DATA_FORMAT"], old["DPU.DATA_CUBE_CHANNEL"]
    quads = (2 if mode["conv_mode"] == ConvMode.DEPTHWISE else 1) * _ATOM // 4
    encode_stages.dpu(old, new, quads)
    for name in ("SURF_LEN", "BUS", "PACKED_RUN"):
        new.pop(f"DPU.{name}", None)
    new["DPU.FEATURE_MODE_CFG"] = {
        name: mode.get(name, 0)
        for name in ("flying_mode", "output_mode", "conv_mode", "burst_len", "surf_len", "nonalign")
    }
    new["DPU.DATA_FORMAT"]["out_size"] = _OUT_SIZE[form["out_precision"]]
    new["DPU.DATA_CUBE_CHANNEL"] = dict(channel)
    new["DPU.DATA_CUBE_NOTCH_ADDR"] = dict(old.get("DPU.DATA_CUBE_NOTCH_ADDR", {}))
    blocks = 1 if old.get("CNA.CONV_CON1", {}).get("deconv") else ceil_div(channel["channel"], _ATOM)
    new["DPU.WDMA_SIZE_0"] = {"group": quads, "blocks": blocks}
    new["DPU.BS_OW_CFG"]["group"] = quads
    new["DPU.BS_CFG"]["cpend_alu_src"] = int(not new["DPU.BS_CFG"]["cpend_alu_bypass"])


def _readers(old: Mapping[str, Fields], new: Registers) -> None:
    mode = new["DPU_RDMA.RDMA_FEATURE_MODE_CFG"]
    del mode["depthwise"]
    mode["conv_mode"] = old["DPU_RDMA.RDMA_FEATURE_MODE_CFG"]["conv_mode"]
    mode["copy"] = _COPY if mode["mrdma_fp16tofp32_en"] else 0
    notch = new.pop("DPU_RDMA.RDMA_LINE_NOTCH")
    new["DPU_RDMA.RDMA_SRC_DMA_CFG"] |= notch
    new["DPU_RDMA.RDMA_WEIGHT"] = dict(old["DPU_RDMA.RDMA_WEIGHT"])
    if old["DPU_RDMA.RDMA_SRC_DMA_CFG"].get("unpooling_en"):  # each atom is four numbers of 32 bits
        new["DPU.BS_OW_CFG"] |= {"size_e_2": old["DPU.BS_OW_CFG"]["size_e_2"], "group": 1}
        new["DPU.DATA_FORMAT"]["out_size"] = _OUT_SIZE[Precision.INT32]
        sizes = old["DPU.WDMA_SIZE_1"]
        extent = old["DPU.BS_OW_CFG"]["size_e_0"] * sizes["width_wdma"] * sizes["height_wdma"]
        new["DPU.SURFACE_ADD"] = {"surf_add": align(extent, 4)}


def _moves(old: Mapping[str, Fields], new: Registers) -> None:
    """Tasks that only move atoms: RK3588's have eight lanes of 16 bits, these four of 32."""
    wide = {"proc_precision": Precision.INT32, "in_precision": Precision.INT32}
    channels = old["DPU.DATA_CUBE_CHANNEL"]["channel"] // 2
    regroup = new["DPU.BS_OW_CFG"]["regroup"]
    is_turn = regroup is not Regroup.NONE
    new["DPU.DATA_FORMAT"] |= {
        "proc_precision": Precision.INT32, "out_precision": Precision.INT32, "out_size": _OUT_SIZE[Precision.INT32],
    }  # fmt: skip
    new["DPU.DATA_CUBE_CHANNEL"] = {"channel": channels, "orig_channel": channels}
    new["DPU_RDMA.RDMA_DATA_CUBE_CHANNEL"] = {"channel": channels}
    new["DPU.DATA_CUBE_WIDTH"] |= {"packed_run": _ATOM if is_turn else 0}
    new["DPU.BS_OW_CFG"] |= {
        "group": 1, "tp_atoms": int(regroup is Regroup.ATOMS),
        "regroup": Regroup.NONE if regroup is Regroup.ATOMS else Regroup.LANES8 if is_turn else Regroup.NONE,
    }  # fmt: skip
    new["DPU.WDMA_SIZE_0"] = {
        "group": 1, "blocks": 1 if regroup is Regroup.ATOMS else ceil_div(channels, 4),
        "wide_lanes": int(regroup in {Regroup.ATOMS, Regroup.LANES16}),
    }  # fmt: skip
    new["DPU.OUT_CVT_SCALE"] |= {"fp32tofp16_en": 1}
    new["DPU_RDMA.RDMA_FEATURE_MODE_CFG"] |= {**wide, "mrdma_fp16tofp32_en": 1, "copy": _COPY}


# -- CNA and CORE ------------------------------------------------------------------------------------------------


def _features(old: Mapping[str, Fields], new: Registers) -> None:
    con1, banks, size = old["CNA.CONV_CON1"], old["CNA.CBUF_CON0"], old["CNA.DATA_SIZE0"]
    if con1["in_precision"] is not Precision.INT8:  # the vendor's softmax sums its fp16 numbers without the array
        raise UnsupportedError("RV1103 and RV1106 have convolutions of int8 only")
    height, width = size["datain_height"], size["datain_width"]
    picture = con1.get("argb_in", ArgbInput.OFF).channels
    depthwise = con1["conv_mode"] == ConvMode.DEPTHWISE
    line = old["CNA.DMA_CON1"]["line_stride"]
    surface = old["CNA.DMA_CON2"]["surf_stride"] + (width if con1["group_line_off"] else line)
    entries = stored = old["CNA.CBUF_CON1"]["data_entries"]
    row, rows, columns, read = width, height, width, width
    if picture:
        row = stored = 4 * entries
        entries = row * _PIXEL_BYTES // _ENTRY_BYTES
        rows, columns = 1, row * height * max(picture, 2) // _ATOM
        line = surface = columns
        read = row * height // (_ATOM // 2)
    new |= {name: dict(old[name]) for name in _COPIED if name in old}
    channels, low = old["CNA.DATA_SIZE1"]["datain_channel"], old["CNA.DATA_SIZE1"]["datain_channel_real"]
    real = low if picture else channels - (channels - low) % 64
    new["CNA.DATA_SIZE1"] = {"datain_channel": channels, "datain_channel_real": real}
    new |= {f"{block}.S_POINTER": dict(old["DPU.S_POINTER"]) for block in ("CNA", "CORE")}
    start = _start(old, entries, picture=picture > 0)
    new |= {
        "CNA.CONV_CON1": {
            "conv_mode": con1["conv_mode"], "inline_zero_points": int(depthwise),
            "in_precision": con1["in_precision"], "proc_precision": con1["proc_precision"],
            "argb_in": con1.get("argb_in", ArgbInput.OFF), "group_line_off": con1["group_line_off"],
        },
        "CNA.CONV_CON2": {"scan_flags": start % _SCAN_BITS, "feature_grains": start // _SCAN_BITS},
        "CNA.CBUF_ENTRIES": {"data_entries": stored},
        "CNA.CBUF_CON0": {
            "bits_7_0": 8, "data_reuse": banks.get("data_reuse", 0), "weight_reuse": banks.get("weight_reuse", 0),
        },
        "CNA.CBUF_CON1": {"data_entries": entries, "datain_width": row},
        "CNA.CBUF_BANKS": {"data_bank": banks["data_bank"]},
        "CNA.CVT_CON0": {"cvt_bypass": 1, "data_sign": 1},
        "CNA.CVT_SCALE01": {"cvt_scale0": 1, "cvt_scale1": 1},
        "CNA.CVT_SCALE23": {"cvt_scale2": 1, "cvt_scale3": 1},
        "CNA.CVT_LANES": {"cvt_lanes": 0xFF if picture else 0},
        "CNA.PAD_CON1": {"pad_value": ((old["CNA.PAD_CON1"]["pad_value"] & 0xFF ^ 0x80) - 0x80) & 0xFFFF},
        "CNA.DMA_CON0": {
            "data_burst_len": 16, "data_bus": _GREY_BUS[0] if picture == 1 else _BUS,
            "weight_burst_len": 16, "weight_bus": _GREY_BUS[1] if picture == 1 else _BUS,
        },
        "CNA.DMA_CON1": {"line_stride": line},
        "CNA.DMA_CON2": {"surf_stride": surface},
        "CNA.FC_DATA_SIZE0": {"dma_height": rows, "dma_width": columns},
        "CNA.READ_SIZE": {"width_0": read, "width_1": read},
        "CNA.WEIGHT_STRIDE": {"weight_stride": old["CNA.WEIGHT_SIZE1"]["weight_bytes_per_kernel"] // 2},
    }  # fmt: skip


def _core(old: Mapping[str, Fields], new: Registers) -> None:
    core, depthwise = old["CORE.MISC_CFG"], int(old["CORE.MISC_CFG"]["dw_en"])
    new["CORE.MISC_CFG"] = {
        "qd_en": int(core["qd_en"] and not depthwise), "dw_en": depthwise, "dw_too": depthwise,
        "proc_precision": core["proc_precision"],
    }  # fmt: skip
    is_picture = old["CNA.CONV_CON1"].get("argb_in", ArgbInput.OFF) is not ArgbInput.OFF
    new["CORE.CLIP_TRUNCATE"] = {"image": int(is_picture)}


def _start(old: Mapping[str, Fields], entries: int, *, picture: bool) -> int:
    """When the sequencer starts; timing only.

    Rows of a bank, and those of a window and of 16 more outputs (310 of 318 sizes are as in the vendor's files); of
    maps in several banks at least all rows, but no more banks than those rows need. In fours; pictures times four.
    """
    con3, height = old["CNA.CONV_CON3"], old["CNA.DATA_SIZE0"]["datain_height"]
    if old["CNA.CONV_CON1"]["deconv"]:
        return _LARGEST_GRAINS
    bank = ceil_div(BANK_ENTRIES, entries)
    window = (old["CNA.WEIGHT_SIZE2"]["weight_height"] - 1) * con3["atrous_y_dilation"] + 1
    columns, stride = old["CNA.DATA_SIZE2"]["dataout_width"], con3["conv_y_stride"]
    lines = ceil_div(_START_PIXELS, columns) if columns <= _START_PIXELS else 0
    reach = window + stride * (lines + 1)
    if picture:
        return int(min(4 * (bank + reach), _LARGEST_GRAINS))
    most = bank * (2 + (reach + stride) // bank)
    return int(min(max(height, align(bank + reach, 4)), most, _LARGEST_GRAINS))
