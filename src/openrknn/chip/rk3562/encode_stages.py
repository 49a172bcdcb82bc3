"""DPU, DPU_RDMA and PPU of the chips whose stages end in pairs of bounds: RK3562, and with other sizes its relatives.

    RK3588                                       here
    BS: add, multiply; relu bits                 the zero-point correction and BS have switches of their own; bounds
    BN: (x * m + a) >> n                         ((x + a) * m) >> n
    EW: ALU (divides too) or product             ALU, product and division, each with its own bypass
    residual: two readers by turns               one reader
    bounds: ReLU, ReLUX                          LIMIT (what is compared) and CLAMP (what comes out), two ends each

Every difference was read from files that the vendor's converter made of the same ONNX model for both chips. Registers
are RK3588's in natural values; what a chip has never been seen to do is refused.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from openrknn.chip.target import Registers
from openrknn.errors import UnsupportedError
from openrknn.isa.enums import (
    AluAlgorithm,
    ConvMode,
    EwAlgorithm,
    EwOperation,
    EwPart,
    PoolingMethod,
    Precision,
    Regroup,
    TransposeLanes,
)
from openrknn.task.place import Place

__all__ = ["UNWRITTEN_DDMA", "Fields", "before", "behind", "bounds_of", "ddma", "dpu", "element_wise", "pad_bits",
           "pooling", "readers", "regroup"]  # fmt: skip

Fields = dict[str, Any]
_FREE = (0x8000_0000, 0x7FFF_FFFF)
"""Bounds that bound nothing."""
_PLUS = 1
"""The code of the addition in BS_CFG."""
_TABLE_BITS = 14
_PADS = 4
_SIGNED19 = 0x7FFFF
_LOWEST = {Precision.INT8: -128 & _SIGNED19, Precision.FP16: 0xFBFF}
"""What loses against every number."""
_COPIED = (
    "DPU.OFFSET_PEND", "DPU.DST_BASE_ADDR", "DPU.DST_SURF_STRIDE", "DPU.DATA_CUBE_WIDTH", "DPU.WDMA_SIZE_1",
    "DPU.BS_ALU_CFG", "DPU.BN_MUL_CFG", "DPU.EW_CVT_OFFSET_VALUE", "DPU.EW_CVT_SCALE_VALUE", "DPU.OUT_CVT_OFFSET",
    "DPU.OUT_CVT_SHIFT", "DPU.SURFACE_ADD", "DPU.LUT_CFG", "DPU.LUT_INFO", "DPU.LUT_LE_START", "DPU.LUT_LE_END",
    "DPU.LUT_LO_START", "DPU.LUT_LO_END", "DPU.LUT_LE_SLOPE_SCALE", "DPU.LUT_LE_SLOPE_SHIFT",
    "DPU.LUT_LO_SLOPE_SCALE", "DPU.LUT_LO_SLOPE_SHIFT",
)  # fmt: skip
_READ = (
    "DPU_RDMA.RDMA_DATA_CUBE_WIDTH", "DPU_RDMA.RDMA_DATA_CUBE_HEIGHT", "DPU_RDMA.RDMA_DATA_CUBE_CHANNEL",
    "DPU_RDMA.RDMA_SRC_BASE_ADDR", "DPU_RDMA.RDMA_BRDMA_CFG", "DPU_RDMA.RDMA_BS_BASE_ADDR", "DPU_RDMA.RDMA_NRDMA_CFG",
    "DPU_RDMA.RDMA_BN_BASE_ADDR", "DPU_RDMA.RDMA_ERDMA_CFG", "DPU_RDMA.RDMA_EW_BASE_ADDR",
    "DPU_RDMA.RDMA_EW_SURF_STRIDE", "DPU_RDMA.RDMA_SURF_NOTCH", "DPU_RDMA.RDMA_EW_SURF_NOTCH",
)  # fmt: skip


UNWRITTEN_DDMA = frozenset(
    f"DDMA.{name}" for name in (
        "CFG_OUTSTANDING", "RD_WEIGHT_0", "WR_WEIGHT_0", "CFG_ID_ERROR", "RD_WEIGHT_1", "CFG_DMA_FIFO_CLR",
        "CFG_DMA_ARB", "CFG_DMA_RD_QOS", "CFG_DMA_RD_CFG", "CFG_STATUS",
    )
)  # fmt: skip
"""What no stream writes of the block that every task of these chips ends with."""


def ddma() -> Registers:
    """What every task writes of it."""
    return {"DDMA.CFG_DMA_WR_CFG": {"wr_awsize": 4, "wr_awburst": 1},
            "DDMA.CFG_DMA_WSTRB": {"wr_wstrb": 0xFFFF_FFFF}}  # fmt: skip


def dpu(old: Mapping[str, Fields], new: Registers, quads: int) -> None:
    """The DPU; `quads`: sets of four channels that are written together."""
    mode, form = old["DPU.FEATURE_MODE_CFG"], old["DPU.DATA_FORMAT"]
    pointer = old["DPU.S_POINTER"]
    new["DPU.S_POINTER"] = dict(pointer)
    new |= {name: dict(old[name]) for name in _COPIED if name in old}
    is_packed = bool(mode.get("nonalign"))
    new["DPU.FEATURE_MODE_CFG"] = {
        "flying_mode": mode["flying_mode"], "output_mode": mode["output_mode"],
        "depthwise": int(mode["conv_mode"] == ConvMode.DEPTHWISE), "burst_len": mode["burst_len"],
        "nonalign": int(is_packed),
    }  # fmt: skip
    new["DPU.DATA_FORMAT"] = {
        "proc_precision": form["proc_precision"], "out_precision": form["out_precision"],
        "bn_mul_shift_value_neg": form.get("bn_mul_shift_value_neg", 0),
    }  # fmt: skip
    new["DPU.DATA_CUBE_HEIGHT"] = dict(old["DPU.DATA_CUBE_HEIGHT"])
    notch = old.get("DPU.DATA_CUBE_NOTCH_ADDR", {}).get("notch_addr_0", 0)
    new["DPU.DATA_CUBE_NOTCH_ADDR"] = {"notch_addr_0": notch & 0xFFFF}
    channels = old["DPU.DATA_CUBE_CHANNEL"]["orig_channel"]
    new["DPU.DATA_CUBE_CHANNEL"] = {"orig_channel": channels}
    new["DPU.WDMA_SIZE_0"] = {"group": quads, "orig_channel": 1 if is_packed else channels}
    new["DPU.SURF_LEN"] = {"surf_len": mode.get("surf_len", 0) if is_packed else 0}
    uses_table = old["DPU.EW_CFG"].get("ew_bypass") == 0 and old["DPU.EW_CFG"].get("ew_lut_bypass") == 0
    new["DPU.PACKED_RUN"] = {"run": 16 if uses_table and mode["flying_mode"] else 0}
    new["DPU.BUS"] = {"low": 2, "from_core": int(not mode["flying_mode"]), "high": 0x444}
    _bs(old, new)
    _bn(old, new)
    element_wise(old, new)
    scale = dict(old["DPU.OUT_CVT_SCALE"])
    is_reduced = old["DPU.DATA_CUBE_HEIGHT"].get("minmax_ctl")
    if (_reads_features(old) and form["proc_precision"] is Precision.INT8) or is_reduced:
        scale["fp32tofp16_en"] = 1
    if _divides(old):  # fp16 all the way, which the formats call INT16
        scale["fp32tofp16_en"] = 0
        new["DPU.DATA_FORMAT"] |= {"proc_precision": Precision.INT16, "out_precision": Precision.INT16}
        new["DPU.EW_CFG"]["ew_op_cvt_bypass"] = 1
    new["DPU.OUT_CVT_SCALE"] = scale
    shift = old.get("DPU.OUT_CVT_SHIFT", {})
    if uses_table and shift.get("minus_exp"):  # floats leave a table through the converter of whole numbers
        new["DPU.OUT_CVT_OFFSET"] = {"out_cvt_offset": 1}
        new["DPU.OUT_CVT_SCALE"] = {**scale, "out_cvt_scale": 1 << _TABLE_BITS}
        new["DPU.OUT_CVT_SHIFT"] = {**shift, "out_cvt_shift": _TABLE_BITS}


def _divides(old: Mapping[str, Fields]) -> bool:
    config = old["DPU.EW_CFG"]
    works = not config.get("ew_bypass") and not config.get("ew_op_bypass")
    is_sum = config.get("ew_op_type", EwOperation.ALU) == EwOperation.ALU
    return bool(works and is_sum and config.get("ew_alu_algo") == EwAlgorithm.DIV)


def _reads_features(old: Mapping[str, Fields]) -> bool:
    """Whether a map comes from memory: the main data, or an operand."""
    return bool(old["DPU.FEATURE_MODE_CFG"]["flying_mode"]) or not old.get(
        "DPU_RDMA.RDMA_ERDMA_CFG", {"erdma_disable": 1}
    ).get("erdma_disable")


def _bounds(stage: str, low: int | None, high: int | None) -> Registers:
    ends = (_FREE[0] if low is None else low, _FREE[1] if high is None else high)
    return {f"DPU.{stage}_{pair}_{end}": {end.lower(): value} for pair in ("LIMIT", "CLAMP")
            for end, value in zip(("MINIMUM", "MAXIMUM"), ends, strict=True)}  # fmt: skip


def bounds_of(old: Mapping[str, Fields], stage: str) -> Registers:
    """ReLU and ReLUX of BS or BN as bounds."""
    letters = stage.lower()
    config = old[f"DPU.{stage}_CFG"]
    works = not config.get(f"{letters}_bypass") and not config.get(f"{letters}_relu_bypass")
    ends = works and config.get(f"{letters}_relux_en")
    upper = old.get(f"DPU.{stage}_RELUX_CMP_VALUE", {}).get(f"{letters}_relux_cmp_dat") if ends else None
    return _bounds(stage, 0 if works else None, upper)


def _bs(old: Mapping[str, Fields], new: Registers) -> None:
    config, multiply, out = old["DPU.BS_CFG"], old.get("DPU.BS_MUL_CFG", {}), old["DPU.BS_OW_CFG"]
    negative = old["DPU.DATA_FORMAT"].get("bs_mul_shift_value_neg", 0)
    corrects = not config.get("bs_bypass") and not out.get("od_bypass")
    adds, multiplies = not config.get("bs_alu_bypass"), not config.get("bs_mul_bypass")
    new["DPU.BS_CFG"] = {
        "bs_bypass": config.get("bs_bypass", 0), "cpend_alu_bypass": int(not corrects),
        "cpend_mul_bypass": int(not corrects), "bs_alu_bypass": int(not adds),
        "bs_alu_src": config.get("bs_alu_src", 0), "bs_mul_shift_value": multiply.get("bs_mul_shift_value", 0),
        "cpend_alu_algo": AluAlgorithm.ADD if corrects else AluAlgorithm.NONE, "bs_alu_algo": _PLUS if adds else 0,
    }  # fmt: skip
    new["DPU.BS_MUL_CFG"] = {
        "cpend_mul_src": out.get("ow_src", 0) if corrects else 0, "bs_mul_prelu": config.get("bs_mul_prelu", 0),
        "bs_mul_operand": multiply.get("bs_mul_operand", 0),
    }  # fmt: skip
    sizes = {name: out[name] for name in ("size_e_0", "size_e_1", "size_e_2")}
    new["DPU.BS_OW_CFG"] = {
        "bs_mul_src": multiply.get("bs_mul_src", 0), "bs_mul_bypass": int(not multiplies), "regroup": regroup(old),
        **sizes,
    }  # fmt: skip
    new["DPU.BS_OW_OP"] = {"bs_mul_shift_value_neg": negative, "cpend_en": int(corrects)}
    new |= bounds_of(old, "BS")


def regroup(old: Mapping[str, Fields]) -> Regroup:
    """What becomes of the atoms before they are written."""
    width = old.get("DPU.WDMA_SIZE_0", {}).get("tp_precision", TransposeLanes.BITS8)
    if old["DPU.BS_OW_CFG"].get("tp_org_en"):
        return Regroup.LANES16 if width == TransposeLanes.BITS16 else Regroup.LANES8
    return Regroup.ATOMS if old["DPU.FEATURE_MODE_CFG"].get("tp_en") else Regroup.NONE


def _bn(old: Mapping[str, Fields], new: Registers) -> None:
    config, multiply = old["DPU.BN_CFG"], old.get("DPU.BN_MUL_CFG", {})
    adds, multiplies = not config.get("bn_alu_bypass"), not config.get("bn_mul_bypass")
    addend = old.get("DPU.BN_ALU_CFG", {}).get("bn_alu_operand", 0)
    if adds and multiplies and addend and not config.get("bn_bypass"):
        addend = before(addend, multiply, old["DPU.DATA_FORMAT"]["proc_precision"])
    new["DPU.BN_CFG"] = {
        "bn_bypass": config.get("bn_bypass", 0), "bn_alu_bypass": int(not adds), "bn_mul_bypass": int(not multiplies),
        "bn_mul_prelu": config.get("bn_mul_prelu", 0), "bn_alu_src": config.get("bn_alu_src", 0),
        "bn_alu_algo": AluAlgorithm.ADD if adds else AluAlgorithm.NONE,
    }  # fmt: skip
    new["DPU.BN_ALU_CFG"] = {"bn_alu_operand": addend}
    new |= bounds_of(old, "BN")


def before(addend: int, multiply: Fields, precision: Precision) -> int:
    """x * m + a as (x + b) * m: b = a / m."""
    if multiply.get("bn_mul_src"):
        raise UnsupportedError("the chip adds before it multiplies, and the multipliers are one per channel")
    if precision is Precision.INT8:
        signed = (addend ^ 0x8000_0000) - 0x8000_0000
        factor = (multiply["bn_mul_operand"] ^ 0x8000) - 0x8000
        quotient, rest = divmod(signed, factor)
        if rest:
            raise UnsupportedError("the chip adds before it multiplies, and the sum has no whole number for it")
        return int(quotient & 0xFFFF_FFFF)
    number = struct.unpack("<f", struct.pack("<I", addend))[0]
    value = float(np.uint16(multiply["bn_mul_operand"]).view(np.float16))
    return int(struct.unpack("<I", struct.pack("<f", number / value))[0])


def element_wise(old: Mapping[str, Fields], new: Registers) -> None:
    """EW: the ALU, the product or the division, and its bounds."""
    config = old["DPU.EW_CFG"]
    works = not config.get("ew_bypass") and not config.get("ew_op_bypass")
    algorithm = EwAlgorithm(config.get("ew_alu_algo", EwAlgorithm.MAX))
    part = None
    if works:
        divides = algorithm is EwAlgorithm.DIV
        is_product = config.get("ew_op_type") == EwOperation.MUL
        part = EwPart.MUL if is_product else EwPart.DIV if divides else EwPart.ALU
    source = config.get("ew_op_src", 0)
    is_float_product = part is EwPart.MUL and old["DPU.DATA_FORMAT"]["proc_precision"] is Precision.FP16
    made: Fields = {
        "ew_bypass": config.get("ew_bypass", 0), "ew_op_type": part or EwPart.ALU,
        "ew_lut_bypass": config.get("ew_lut_bypass", 0),
        "ew_op_cvt_bypass": int(config.get("ew_op_cvt_bypass", 0) or is_float_product),
        "ew_cvt_type": config.get("ew_cvt_type", 0),
        "ew_alu_algo": algorithm if part is EwPart.ALU else EwAlgorithm.MAX,
    }  # fmt: skip
    for each in EwPart:
        made[f"ew_{each.name.lower()}_bypass"] = int(each is not part)
        made[f"ew_{each.name.lower()}_src"] = source if each is part else 0
    new["DPU.EW_CFG"] = made
    new |= {name: dict(fields) for name, fields in old.items() if name.startswith("DPU.EW_OP_VALUE")}
    works = not config.get("ew_bypass") and not config.get("ew_relu_bypass")
    new |= _bounds("EW", 0 if works else None, None)


def pad_bits(old: Mapping[str, Fields], *, is_int8: bool) -> int:
    """The pad value: RK3588 repeats the byte for depthwise; here it is one number."""
    bits = old["CNA.PAD_CON1"]["pad_value"]
    return ((bits & 0xFF ^ 0x80) - 0x80) & 0xFFFF_FFFF if is_int8 else int(bits)


def behind(old: Mapping[str, Fields], axis: str, size: int) -> int:
    """Pad values below or to the right: what windows reach beyond the data."""
    con3, kernel, pads = old["CNA.CONV_CON3"], old["CNA.WEIGHT_SIZE2"], old["CNA.PAD_CON0"]
    width = old["CNA.DATA_SIZE2"]["dataout_width"]
    made = width if axis == "x" else old["CNA.DATA_SIZE3"]["dataout_atomics"] // width
    side, first = ("weight_width", "pad_left") if axis == "x" else ("weight_height", "pad_top")
    needed = (made - 1) * con3[f"conv_{axis}_stride"] + (kernel[side] - 1) * con3[f"atrous_{axis}_dilation"] + 1
    return int(max(0, needed - pads[first] - (size - 1) * con3[f"deconv_{axis}_stride"] - 1))


def readers(old: Mapping[str, Fields], new: Registers, *, is_convolution: bool) -> None:
    """DPU_RDMA; the operand of a convolution comes through one reader, as far from surface to surface as it is."""
    mode = old["DPU_RDMA.RDMA_FEATURE_MODE_CFG"]
    new["DPU_RDMA.RDMA_S_POINTER"] = dict(old["DPU_RDMA.RDMA_S_POINTER"])
    new |= {name: dict(old[name]) for name in _READ if name in old}
    source = dict(old["DPU_RDMA.RDMA_SRC_DMA_CFG"])
    new["DPU_RDMA.RDMA_LINE_NOTCH"] = {"line_notch_addr": source.pop("line_notch_addr", 0)}
    new["DPU_RDMA.RDMA_SRC_DMA_CFG"] = source
    has_operand = not old["DPU_RDMA.RDMA_ERDMA_CFG"].get("erdma_disable")
    if is_convolution and has_operand:
        pitch = old["DPU_RDMA.RDMA_EW_SURF_STRIDE"]["ew_surf_stride"]
        place = old["DPU_RDMA.RDMA_SRC_BASE_ADDR"]["src_base_addr"]
        assert isinstance(place, Place)
        new["DPU_RDMA.RDMA_EW_BASE_ADDR"] = {"ew_base_addr": place}
        del new["DPU_RDMA.RDMA_SRC_BASE_ADDR"]
        notch = old["DPU_RDMA.RDMA_EW_SURF_NOTCH"]["ew_surf_notch"] - pitch
        new["DPU_RDMA.RDMA_EW_SURF_NOTCH"] = {"ew_surf_notch": notch}
        new["DPU_RDMA.RDMA_SURF_NOTCH"] = {"surf_notch_addr": notch}
    in_precision = mode["in_precision"]
    if source.get("unpooling_en"):  # atoms are repeated as four numbers of 32 bits
        in_precision = Precision.INT32
        new["DPU_RDMA.RDMA_DATA_CUBE_CHANNEL"] = {"channel": 4}
        new["DPU.WDMA_SIZE_0"] = {**new["DPU.WDMA_SIZE_0"], "group": 1}
        high = old["DPU.BS_OW_CFG"]["size_e_0"]
        new["DPU.BS_OW_CFG"] = {**new["DPU.BS_OW_CFG"], "size_e_2": 1}
        new["DPU.OUT_CVT_SCALE"] = {**new["DPU.OUT_CVT_SCALE"], "fp32tofp16_en": 1}
        line, rows = old["DPU.WDMA_SIZE_1"]["width_wdma"], old["DPU.WDMA_SIZE_1"]["height_wdma"]
        new["DPU.SURFACE_ADD"] = {"surf_add": high * line * rows}
    operand = new["DPU_RDMA.RDMA_ERDMA_CFG"]
    operand.pop("ov4k_bypass", None)
    proc, pair = mode["proc_precision"], 0 if is_convolution else mode.get("comb_use", 0)
    if _divides(old):
        proc = in_precision = Precision.INT16
    is_int8 = mode["proc_precision"] is Precision.INT8 and in_precision in {Precision.INT8, Precision.INT32}
    is_reduced = old["DPU.DATA_CUBE_HEIGHT"].get("minmax_ctl")
    widens = _reads_features(old) if is_int8 or has_operand or is_reduced else mode.get("mrdma_fp16tofp32_en", 0)
    new["DPU_RDMA.RDMA_FEATURE_MODE_CFG"] = {
        "flying_mode": mode["flying_mode"], "depthwise": int(mode["conv_mode"] == ConvMode.DEPTHWISE),
        "mrdma_fp16tofp32_en": int(widens and not _divides(old)), "mrdma_disable": int(not mode["flying_mode"]),
        "proc_precision": proc, "in_precision": in_precision, "burst_len": mode["burst_len"], "comb_use": pair,
    }  # fmt: skip


def pooling(old: Mapping[str, Fields], new: Registers) -> None:
    """PPU and PPU_RDMA: pad values times one to four, the lowest number for maxima."""
    form = old["PPU.DATA_FORMAT"]
    precision = Precision(form["proc_precision"])
    average = old["PPU.OPERATION_MODE_CFG"]["pooling_method"] is PoolingMethod.AVERAGE
    pad = (old["PPU.PADDING_VALUE_1_CFG"]["pad_value_0"] & 0xFF ^ 0x80) - 0x80
    new |= {name: dict(fields) for name, fields in old.items() if not name.startswith("PPU.PADDING_VALUE")}
    for number in range(1, _PADS + 1):
        value = _LOWEST[precision]
        if average:
            value = number * pad & _SIGNED19 if precision is Precision.INT8 else 0
        new[f"PPU.PADDING_VALUE_{number}"] = {"pad_value": value}
    new["PPU_RDMA.RDMA_DATA_FORMAT"] = {"in_precision": precision, "always": 1}
