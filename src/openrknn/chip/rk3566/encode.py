"""RK3566 and RK3568: the registers of RK3588 with other places, atoms of 8 bytes and an array of half the size.

Every difference was read from files that the vendor's converter made of the same ONNX model for both chips.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from openrknn.chip.target import Registers, Translation, ceil_div
from openrknn.chips import CHIPS
from openrknn.errors import UnsupportedError
from openrknn.isa.enums import (
    ArgbInput,
    EwAlgorithm,
    OperandKinds,
    OperandMode,
    PoolingMethod,
    Precision,
    ShortAlgorithm,
)
from openrknn.task.place import Place

__all__ = ["PADS", "translate"]

_CHIP = CHIPS["rk3566"]
_ATOM = _CHIP.atom_bytes
_BUS = 0x171C07
_BURST = {"DPU": 4, "DPU_RDMA": 8}
_START_PIXELS = 16
"""The sequencer starts when the rows of more than so many outputs are there."""
_KIND_BYTES = {OperandKinds.ALU: 4, OperandKinds.CPEND: 2, OperandKinds.MUL: 2}
_DROPPED = ("CNA.CVT_CON5", "CNA.PAD_CON1", "DPU.WDMA_SIZE_0", "DPU.WDMA_SIZE_1", "DPU_RDMA.RDMA_EW_SURF_NOTCH",
            "PPU.PADDING_VALUE_1_CFG", "PPU.PADDING_VALUE_2_CFG")  # fmt: skip
PADS = 4
"""Pad values of the PPU that streams write; there are seven."""
_LOWEST = {Precision.INT8: -128 & 0x7FFFF, Precision.FP16: 0xFBFF}
"""What loses against every number."""

_STAGE = {"bypass", "alu_bypass", "alu_algo", "alu_src", "mul_bypass", "mul_prelu", "relu_bypass", "relux_en"}
_KNOWN: Mapping[str, frozenset[str]] = MappingProxyType({
    "DPU.FEATURE_MODE_CFG": frozenset({"flying_mode", "output_mode", "conv_mode", "burst_len", "comb_use", "tp_en"}),
    "DPU.BS_CFG": frozenset(f"bs_{name}" for name in _STAGE),
    "DPU.BN_CFG": frozenset(f"bn_{name}" for name in _STAGE),
    "DPU.BS_OW_CFG": frozenset({"od_bypass", "ow_src", "size_e_0", "size_e_1", "size_e_2"}),
    "DPU.OUT_CVT_SHIFT": frozenset({"out_cvt_shift"}),
    "DPU_RDMA.RDMA_SRC_DMA_CFG": frozenset({
        "line_notch_addr", "kernel_width", "kernel_height", "kernel_stride_width", "kernel_stride_height",
        "unpooling_en",
    }),
})  # fmt: skip
"""Fields that streams of these chips use; what else RK3588's recipes ask for is refused."""
Fields = dict[str, Any]


def translate(blocks: tuple[str, ...], registers: Registers) -> Translation:
    """The blocks and registers of a task as this chip has them."""
    old: Mapping[str, Fields] = registers
    for name, known in _KNOWN.items():
        more = [field for field, value in old.get(name, {}).items() if value and field not in known]
        if more:
            raise UnsupportedError(f"RK3566 and RK3568 have no {more[0]} ({name}), or nobody has seen it used")
    new: Registers = {name: dict(fields) for name, fields in registers.items() if name not in _DROPPED}
    if "PPU" in blocks:
        _pooling(old, new)
        return blocks, new
    _stages(old, new)
    if "DPU_RDMA" in blocks:
        _readers(old, new, is_convolution="CNA" in blocks)
    if "CNA" not in blocks:
        return blocks, new
    _features(old, new)
    pointer = dict(old["DPU.S_POINTER"])
    new |= {f"{block}.S_POINTER": dict(pointer) for block in ("CNA", "CMAC", "CORE")}
    kind = {key: old["CORE.MISC_CFG"][key] for key in ("dw_en", "proc_precision")}
    new["CORE.MISC_CFG"], new["CMAC.MISC_CFG"] = dict(kind), {"always": 1, **kind}
    return ("CNA", "CMAC", *blocks[1:]), new


# -- CNA ---------------------------------------------------------------------------------------------------------


def _features(old: Mapping[str, Fields], new: Registers) -> None:
    con1, con3 = old["CNA.CONV_CON1"], old["CNA.CONV_CON3"]
    size, pads = old["CNA.DATA_SIZE0"], old["CNA.PAD_CON0"]
    height, width = size["datain_height"], size["datain_width"]
    channels, low = old["CNA.DATA_SIZE1"]["datain_channel"], old["CNA.DATA_SIZE1"]["datain_channel_real"]
    line, surface = old["CNA.DMA_CON1"]["line_stride"], old["CNA.DMA_CON2"]["surf_stride"]
    picture = con1.get("argb_in", ArgbInput.OFF).channels
    element = 1 if con1["in_precision"] is Precision.INT8 else 2
    entries, row = old["CNA.CBUF_CON1"]["data_entries"], width
    if picture:
        row = entries * 4
        new["CNA.IMAGE_SIZE"] = {"image_size": 9 * width * height if picture == 3 else 0}
        line, surface = ceil_div(line * picture * element, _ATOM), surface + width
        is_atom = picture * element == _ATOM
    elif con1["group_line_off"]:
        surface += width
    else:
        line, surface = line // 4, surface + line
    kept = {key: con1[key] for key in ("conv_mode", "in_precision", "proc_precision", "deconv")}
    if picture and not is_atom:
        kept["argb_in"] = con1["argb_in"]
    new["CNA.CONV_CON1"] = kept
    new["CNA.CONV_CON2"] = {"feature_grains": _grains(old, height, con3)}
    new["CNA.DATA_SIZE1"] = {"datain_channel": channels, "datain_channel_real": channels - (channels - low) % 64}
    new["CNA.CBUF_CON1"] = {"data_entries": entries, "datain_width": row}
    new["CNA.CVT_CON0"] = {"cvt_type": 1, "data_sign": 1}
    new["CNA.PAD_CON0"] = {**pads, "pad_value": _signed(old["CNA.PAD_CON1"]["pad_value"], con1["in_precision"])}
    new["CNA.DMA_CON0"] = {"bus_settings": _BUS}
    new["CNA.DMA_CON1"] = {"line_stride": line}
    new["CNA.DMA_CON2"] = {"surf_stride": surface}
    new["CNA.FC_DATA_SIZE0"] = {"dma_height": height, "dma_width": row}


def _grains(old: Mapping[str, Fields], height: int, con3: Fields) -> int:
    """Rows that are fetched before the sequencer starts: what more than 16 outputs need (282 of 282 operators)."""
    kernel = old["CNA.WEIGHT_SIZE2"]["weight_height"]
    reach = (kernel - 1) * con3["atrous_y_dilation"] + 1
    more = _START_PIXELS // old["CNA.DATA_SIZE2"]["dataout_width"] + 1
    return int(min(height, reach + con3["conv_y_stride"] * con3["deconv_y_stride"] * more))


def _signed(bits: int, precision: Precision) -> int:
    """A sign-extended byte, or an fp16 number, as a signed number of 16 bits."""
    value = bits & (0xFF if precision is Precision.INT8 else 0xFFFF)
    half = 0x80 if precision is Precision.INT8 else 0x8000
    return (value ^ half) - half


# -- DPU ---------------------------------------------------------------------------------------------------------


def _stages(old: Mapping[str, Fields], new: Registers) -> None:
    mode = old["DPU.FEATURE_MODE_CFG"]
    new["DPU.FEATURE_MODE_CFG"] = {
        "flying_mode": mode["flying_mode"], "to_memory": 1, "conv_mode": mode["conv_mode"], "burst_len": _BURST["DPU"],
        "tp_en": mode.get("tp_en", 0),
    }  # fmt: skip
    for stage in ("BS", "BN"):
        fields = dict(old[f"DPU.{stage}_CFG"])
        name = f"{stage.lower()}_alu_algo"
        fields[name] = ShortAlgorithm.ADD if fields.get(name) else ShortAlgorithm.MAX
        new[f"DPU.{stage}_CFG"] = fields
    element_wise = dict(old["DPU.EW_CFG"])
    element_wise.pop("edata_size", None)
    if "ew_alu_algo" in element_wise:
        algorithm = EwAlgorithm(element_wise["ew_alu_algo"])
        if algorithm.name not in ShortAlgorithm.__members__:
            raise UnsupportedError(f"RK3566 and RK3568 have no element-wise {algorithm.name.lower()}")
        element_wise["ew_alu_algo"] = ShortAlgorithm[algorithm.name]
        if algorithm is EwAlgorithm.DIV:  # in fp16 all the way, which the formats at both ends call INT16
            element_wise["ew_op_cvt_bypass"] = 1
            ends = {"in_precision": Precision.INT16, "out_precision": Precision.INT16}
            new["DPU.DATA_FORMAT"] = {**old["DPU.DATA_FORMAT"], **ends}
    new["DPU.EW_CFG"] = element_wise
    scale = dict(old["DPU.OUT_CVT_SCALE"])
    scale.pop("fp32tofp16_en", None)
    new["DPU.OUT_CVT_SCALE"] = scale


def _readers(old: Mapping[str, Fields], new: Registers, *, is_convolution: bool) -> None:
    mode = old["DPU_RDMA.RDMA_FEATURE_MODE_CFG"]
    channels = old["DPU_RDMA.RDMA_DATA_CUBE_CHANNEL"]["channel"]
    pixels = old["DPU.DATA_CUBE_HEIGHT"]["height"] * old["DPU.DATA_CUBE_WIDTH"]["width"]
    for letter in "bn":
        kinds = old.get(f"DPU_RDMA.RDMA_{letter.upper()}RDMA_CFG", {}).get(f"{letter}rdma_data_use", OperandKinds(0))
        start = f"DPU_RDMA.RDMA_{letter.upper()}RDMA_"
        new[f"{start}CFG"] = {f"{letter}rdma_data_use": kinds, f"{letter}rdma_disable": int(not kinds)}
        size = sum(count for kind, count in _KIND_BYTES.items() if kinds & kind)
        new[f"{start}CHANNEL"] = {f"{letter}rdma_channel": max(1, size * channels // _ATOM)}
    operand = dict(old["DPU_RDMA.RDMA_ERDMA_CFG"])
    is_float = mode["proc_precision"] is not Precision.INT8
    precision = mode["in_precision"]
    uses_table = old["DPU.EW_CFG"].get("ew_lut_bypass") == 0
    if old["DPU.EW_CFG"].get("ew_alu_algo") == EwAlgorithm.DIV:
        precision = Precision.INT16
    to_bytes = not is_convolution and bool(mode.get("comb_use"))
    if is_convolution and is_float and operand.get("erdma_disable") and not uses_table:
        precision = Precision.FP32  # the bias
    if not operand.get("erdma_disable"):
        pitch = old["DPU_RDMA.RDMA_EW_SURF_STRIDE"]["ew_surf_stride"]
        notch = old["DPU_RDMA.RDMA_SURF_NOTCH"]["surf_notch_addr"]
        if to_bytes:  # both readers have the same tensor, as far from surface to surface as it is
            pitch //= 2
            notch -= pitch
            new["DPU_RDMA.RDMA_EW_BASE_ADDR"] = {"ew_base_addr": old["DPU_RDMA.RDMA_SRC_BASE_ADDR"]["src_base_addr"]}
            new["DPU_RDMA.RDMA_SURF_NOTCH"] = {"surf_notch_addr": notch}
        has_several = channels * (2 if is_float else 1) > _ATOM  # one surface has no next one to be apart from
        if not is_convolution and has_several and pitch > 1 and pitch - pixels != notch:
            raise UnsupportedError("RK3566 and RK3568 read two operands only if their surfaces are alike")
        operand["erdma_data_size"] = int(is_float)
        if pitch == 1:
            operand["erdma_data_mode"] = OperandMode.PER_CHANNEL
            new["DPU.EW_CFG"]["ew_data_mode"] = OperandMode.PER_CHANNEL
        new["DPU_RDMA.RDMA_EW_SURF_STRIDE"] = {"ew_surf_stride": pitch}
        new["DPU_RDMA.RDMA_EW_SURF_LAST"] = {"ew_surf_last": pitch - 1}
        if is_convolution:
            # One reader is enough here; its surfaces are as far apart as the first of RK3588's two says.
            place = old["DPU_RDMA.RDMA_SRC_BASE_ADDR"]["src_base_addr"]
            assert isinstance(place, Place)
            new["DPU_RDMA.RDMA_EW_BASE_ADDR"] = {"ew_base_addr": place}
            del new["DPU_RDMA.RDMA_SRC_BASE_ADDR"]
            new["DPU_RDMA.RDMA_SURF_NOTCH"] = {"surf_notch_addr": pitch - pixels}
    new["DPU_RDMA.RDMA_ERDMA_CFG"] = operand
    new["DPU_RDMA.RDMA_FEATURE_MODE_CFG"] = {
        "flying_mode": mode["flying_mode"], "conv_mode": mode["conv_mode"], "proc_precision": mode["proc_precision"],
        "in_precision": precision, "burst_len": _BURST["DPU_RDMA"], "to_bytes": int(to_bytes),
    }  # fmt: skip


# -- PPU ---------------------------------------------------------------------------------------------------------


def _pooling(old: Mapping[str, Fields], new: Registers) -> None:
    form = old["PPU.DATA_FORMAT"]
    precision = Precision(form["proc_precision"])
    average = old["PPU.OPERATION_MODE_CFG"]["pooling_method"] is PoolingMethod.AVERAGE
    pad = old["PPU.PADDING_VALUE_1_CFG"]["pad_value_0"]
    for number in range(1, PADS + 1):
        if average:  # so many padding pixels add up to this
            value = number * _signed(pad, Precision.INT8) & 0x7FFFF if precision is Precision.INT8 else 0
        else:
            value = _LOWEST[precision]
        new[f"PPU.PADDING_VALUE_{number}"] = {"pad_value": value}
    new["PPU.DATA_FORMAT"] = {**form, "proc_precision": int(precision)}
    new["PPU_RDMA.UNKNOWN_7018"] = {"bits": 1}
    new["PPU_RDMA.RDMA_DATA_FORMAT"] = {"in_precision": precision}
