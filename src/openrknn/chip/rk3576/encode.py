"""RK3576 and RV1126B: RK3588's registers moved, operands of BS and BN in small tensors, bounds in place of ReLU bits.

Every difference was read from files that the vendor's converter made of the same ONNX model for both chips.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from openrknn.chip.rk3562 import encode_stages
from openrknn.chip.rk3562.encode_stages import Fields
from openrknn.chip.target import Registers, Translation, align, ceil_div
from openrknn.chips import CHIPS
from openrknn.errors import UnsupportedError
from openrknn.isa.enums import (
    AluAlgorithm,
    ArgbInput,
    ConvMode,
    EwAlgorithm,
    EwPart,
    OperandKinds,
    OutputMode,
    Precision,
    Regroup,
)
from openrknn.task.place import Place

__all__ = ["DATA_BANKS", "LIGHT_BYTES", "SLOTS", "UNWRITTEN", "on_core", "translator"]

_CHIP = CHIPS["rk3576"]
_ATOM = _CHIP.atom_bytes
_BANKS = _CHIP.known_cbuf.banks
_BANK_ENTRIES = _CHIP.cbuf_bank_entries
DATA_BANKS = (4, 5)
"""Banks of data: the first that holds all rows, else the last."""
LIGHT_BYTES = 73728
"""32 kernels of 3x3x256 leave five banks to the data; 32 of 3200 bytes (5x5x128) do not."""
_QUARTERS = 4
"""CBUF_CON0 counts quarters of a bank."""
_KEEPS_WEIGHTS = 2
"""CBUF_BANKS.reuse of later bands; tasks that only stand between others have 1 too."""
_GRAINS = {"rk3576": 0xFFF, "rv1126b": 0x3FFF}
SLOTS = {"rk3576": 3, "rv1126b": 5}
_GROUPS = {"flying": 0xF00, "direct": 0x710, "depthwise": 0x310, "repeating": 0x700}
"""WDMA_SIZE_0, as every stream has it."""
_BUS = 0x444
_MAXIMUM = 0x25
_PICTURE_CHANNELS = 4
"""Channels of a pixel in the buffer, and of a kernel that reads pictures."""
_LOW_CHANNELS = 64
"""RK3588 has the real number of channels modulo this."""
_TABLE_MODE, _TABLE_RANGES = 6, 2
_TABLE_SHIFT = 14
UNWRITTEN = (
    *(f"CORE.UNKNOWN_{place}" for place in ("300C", "3010", "3014")),
    *("DPU.EW_OP_VALUE_2", "DPU.EW_OP_VALUE_4", "DPU.UNKNOWN_40C4"),
    *(f"DPU.LUT_{name}_{number}" for name in ("LE_END", "LO_START") for number in (1, 2, 3)),
    *(f"DPU.LUT_{name}_SCALE_{number}" for name in ("LE_OFLOW", "LO_UFLOW") for number in (0, 1)),
    *("DPU.LUT_LE_OFLOW_SHIFT", "DPU.LUT_LO_UFLOW_SHIFT"),
    *(f"PPU.UNKNOWN_{place}" for place in ("6060", "6064", "6068", "606C")),
)


def translator(chip: str) -> Callable[[tuple[str, ...], Registers], Translation]:
    """What makes the blocks and registers of a task those of one of the chips."""

    def translate(blocks: tuple[str, ...], registers: Registers) -> Translation:
        old: Mapping[str, Fields] = registers
        if "PPU" in blocks:
            new: Registers = {}
            encode_stages.pooling(old, new)
            new["PPU.MISC_CTRL"] = {"burst_len": 1}
            return blocks, new
        new = {name: dict(old["DPU.S_POINTER"]) for name in ("DPU.S_POINTER", "DPU_RDMA.RDMA_S_POINTER")}
        if "DPU_RDMA" not in blocks:  # operands for all channels come through it
            old = {**_nothing_read(old), **old}
        _pipe(old, new, is_convolution="CNA" in blocks)
        _table(old, new)
        _readers(old, new, is_convolution="CNA" in blocks)
        if "CNA" in blocks:
            new |= {f"{block}.S_POINTER": dict(old["DPU.S_POINTER"]) for block in ("CNA", "CORE")}
            _features(old, new, _GRAINS[chip])
            return ("CNA", "CORE", "DPU", "DPU_RDMA"), new
        return blocks, new

    return translate


def _nothing_read(old: Mapping[str, Fields]) -> dict[str, Fields]:
    """DPU_RDMA of a convolution that reads no operands per channel."""
    mode, form = old["DPU.FEATURE_MODE_CFG"], old["DPU.DATA_FORMAT"]
    one = {"kernel_width": 1, "kernel_height": 1, "kernel_stride_width": 1, "kernel_stride_height": 1}
    return {
        "DPU_RDMA.RDMA_ERDMA_CFG": {"erdma_disable": 1},
        "DPU_RDMA.RDMA_FEATURE_MODE_CFG": {
            "flying_mode": 0, "conv_mode": mode["conv_mode"], "proc_precision": form["proc_precision"],
            "in_precision": form["in_precision"],
        },
        "DPU_RDMA.RDMA_SRC_DMA_CFG": one,
        "DPU_RDMA.RDMA_DATA_CUBE_WIDTH": dict(old["DPU.DATA_CUBE_WIDTH"]),
        "DPU_RDMA.RDMA_DATA_CUBE_HEIGHT": {"height": old["DPU.DATA_CUBE_HEIGHT"]["height"]},
        "DPU_RDMA.RDMA_DATA_CUBE_CHANNEL": {"channel": 1},
    }  # fmt: skip


# -- CNA and CORE ------------------------------------------------------------------------------------------------


def _features(old: Mapping[str, Fields], new: Registers, grains: int) -> None:
    con1, size, weights = old["CNA.CONV_CON1"], old["CNA.DATA_SIZE0"], old["CNA.WEIGHT_SIZE2"]
    height, width = size["datain_height"], size["datain_width"]
    precision, depthwise = con1["in_precision"], _is_depthwise(old)
    element = 1 if precision is Precision.INT8 else 2
    sizes = old["CNA.DATA_SIZE1"]
    channels = sizes["datain_channel"] - (sizes["datain_channel"] - sizes["datain_channel_real"]) % _LOW_CHANNELS
    picture = con1.get("argb_in", ArgbInput.OFF).channels
    line, pitch = old["CNA.DMA_CON1"]["line_stride"], old["CNA.DMA_CON2"]["surf_stride"]
    entries, row = old["CNA.CBUF_CON1"]["data_entries"], width
    kept = old["CNA.CBUF_CON0"].get("kept_rows", 0)
    if picture:
        pixels = align(line, _ATOM // element)
        entries = ceil_div(pixels * _PICTURE_CHANNELS * element, 4 * _ATOM)
        line = row = pixels * picture * element // _ATOM
        pitch = surface = line * (height - kept)
    else:
        pitch += width if con1["group_line_off"] else line
        surface = align((height - kept) * width, 4) if height * width > 1 else 1
    taps = weights["weight_height"] * weights["weight_width"]
    per_kernel = old["CNA.WEIGHT_SIZE1"]["weight_bytes_per_kernel"]
    if picture:
        per_kernel = taps * _PICTURE_CHANNELS * element
    all_bytes = per_kernel * weights["weight_kernels"]
    data = old["CNA.CBUF_CON0"]["data_bank"]
    if data not in DATA_BANKS or entries * height > data * _BANK_ENTRIES:  # a recipe that counts RK3588's banks
        data = next((count for count in DATA_BANKS if entries * height <= count * _BANK_ENTRIES), DATA_BANKS[-1])
    start = old["CNA.CBUF_CON0"].get("first_entry", 0)
    fetched = (start + kept * entries) % (data * _BANK_ENTRIES)
    pad = encode_stages.pad_bits(old, is_int8=element == 1)
    new |= {
        "CNA.CBUF_BANKS": {
            "banks_a": _BANKS,
            "reuse": _KEEPS_WEIGHTS * old["CNA.CBUF_CON0"]["weight_reuse"] + old["CNA.CBUF_CON0"]["data_reuse"],
        },
        "CNA.CONV_CON1": {
            "dw_en": int(depthwise), "image": int(picture > 0), "in_precision": precision,
            "proc_precision": con1["proc_precision"], "weight_precision": con1["proc_precision"],
            "argb_in": con1.get("argb_in", ArgbInput.OFF), "group_line_off": con1["group_line_off"],
        },
        "CNA.CONV_CON2": {"grains": grains},
        "CNA.CONV_CON3": {**old["CNA.CONV_CON3"], "cores": 1},
        "CNA.DIVISION": {"data_a": data, "data_b": data, "always": 1, "data_reuse": int(kept > 0)},
        "CNA.WEIGHT_SIZE0": {"weight_bytes": all_bytes},
        "CNA.WEIGHT_SIZE1": {"weight_bytes_per_kernel": per_kernel},
        "CNA.WEIGHT_SIZE2": dict(weights),
        "CNA.DATA_SIZE1": {"datain_channel_real": channels, "datain_pixels": entries * (height - kept) & 0xFFFF},
        "CNA.DATA_SIZE0": dict(size),
        "CNA.DATA_SIZE2": {
            **old["CNA.DATA_SIZE2"],
            "weights": (all_bytes // _ATOM if depthwise else 2 * per_kernel // element) & 0xFFFF,
        },
        "CNA.DATA_SIZE3": dict(old["CNA.DATA_SIZE3"]),
        "CNA.CBUF_ENTRIES": {"start": start, "data_entries": entries},
        "CNA.CBUF_CON0": {"start": fetched, "data": _QUARTERS * data},
        "CNA.CBUF_CON1": {
            "data_entries": pixels if picture else entries, "datain_width": pixels if picture else width,
        },
        "CNA.CVT_CON0": dict(old["CNA.CVT_CON0"]),
        "CNA.CVT_SCALE01": {"cvt_scale0": 1, "cvt_scale1": 1},
        "CNA.CVT_SCALE23": {"cvt_scale2": 1, "cvt_scale3": 1},
        "CNA.LANE_PAD": {"lane_pad": pad if picture else 0},
        "CNA.FC_DATA_SIZE0": {"dma_height": height - kept, "dma_width": row},
        "CNA.FC_DATA_SIZE1": {"dma_channel": channels},
        "CNA.PAD_CON0": {
            **old["CNA.PAD_CON0"], "pad_bottom": encode_stages.behind(old, "y", height),
            "pad_right": encode_stages.behind(old, "x", width),
        },
        "CNA.PAD_CON1": {"pad_value": pad},
        "CNA.FEATURE_DATA_ADDR": {"feature_base_addr": _moved(old, kept * width)},
        "CNA.DMA_CON0": dict(old["CNA.DMA_CON0"]),
        "CNA.DMA_CON1": {"line_stride": line},
        "CNA.SURF_STRIDE": {"surf_stride": pitch},
        "CNA.SURF_SIZE": {"surf_size": surface},
        "CNA.READ_SIZE": {"width_0": entries if picture else width, "width_1": entries if picture else width},
        "CNA.DCOMP_ADDR0": dict(old["CNA.DCOMP_ADDR0"]),
        "CORE.MISC_CFG": {
            "qd_en": int(precision is Precision.INT8 and not depthwise), "dw_en": int(depthwise),
            "dw_too": int(depthwise and not con1["deconv"]), "image": int(picture > 0),
            "proc_precision": con1["proc_precision"], "always": 1,
        },
        "CORE.DATAOUT_SIZE_0": dict(old["CORE.DATAOUT_SIZE_0"]),
        "CORE.DATAOUT_SIZE_1": {"dataout_channel": old["DPU.DATA_CUBE_CHANNEL"]["orig_channel"]},
    }  # fmt: skip


def _moved(old: Mapping[str, Fields], atoms: int) -> Place:
    place = old["CNA.FEATURE_DATA_ADDR"]["feature_base_addr"]
    return Place(place.tensor, place.offset + atoms * _ATOM)


# -- DPU ---------------------------------------------------------------------------------------------------------


def _pipe(old: Mapping[str, Fields], new: Registers, *, is_convolution: bool) -> None:
    mode, form, cube = old["DPU.FEATURE_MODE_CFG"], old["DPU.DATA_FORMAT"], old["DPU.DATA_CUBE_CHANNEL"]
    depthwise = _is_depthwise(old)
    repeats = bool(old["DPU_RDMA.RDMA_SRC_DMA_CFG"].get("unpooling_en"))
    kind = "depthwise" if depthwise else "direct" if is_convolution else "repeating" if repeats else "flying"
    reduces = old["DPU.DATA_CUBE_HEIGHT"].get("minmax_ctl", 0)
    if reduces or form["in_precision"] is Precision.FP32:
        raise UnsupportedError("this chip needs another recipe for it, and it is not written yet")
    proc = form["proc_precision"]
    bs, bn = _Stage(old, "bs", depthwise), _Stage(old, "bn", depthwise)
    ow, together = old["DPU.BS_OW_CFG"], old["DPU.BS_OW_CFG"]["size_e_0"]
    corrects = is_convolution and not depthwise and bool(ow.get("ow_src"))
    packed = encode_stages.regroup(old)
    new |= encode_stages.bounds_of(old, "BS") | encode_stages.bounds_of(old, "BN")
    encode_stages.element_wise(old, new)
    _product(old, new)
    new |= {
        "DPU.FEATURE_MODE_CFG": {
            "flying_mode": mode["flying_mode"], "output_mode": OutputMode.MEMORY, "depthwise": int(depthwise),
            "nonalign": mode.get("nonalign", 0), "from_core": int(is_convolution),
        },
        "DPU.DATA_FORMAT": {"proc_precision": proc, "out_precision": form["out_precision"]},
        "DPU.OFFSET_PEND": dict(old.get("DPU.OFFSET_PEND", {})),
        "DPU.DST_BASE_ADDR": dict(old["DPU.DST_BASE_ADDR"]),
        "DPU.DST_SURF_STRIDE": dict(old["DPU.DST_SURF_STRIDE"]),
        "DPU.DATA_CUBE_WIDTH": dict(old["DPU.DATA_CUBE_WIDTH"]),
        "DPU.DATA_CUBE_HEIGHT": {"height": old["DPU.DATA_CUBE_HEIGHT"]["height"]},
        "DPU.DATA_CUBE_NOTCH_ADDR": {
            name: value & 0xFFFF for name, value in old.get("DPU.DATA_CUBE_NOTCH_ADDR", {}).items()
        },
        "DPU.DATA_CUBE_CHANNEL": {"orig_channel": cube["orig_channel"]},
        "DPU.WDMA_SIZE_0": {"group": _GROUPS[kind], "orig_channel": cube["orig_channel"]},
        "DPU.WDMA_SIZE_1": dict(old["DPU.WDMA_SIZE_1"]),
        "DPU.BS_CFG": {
            "bs_bypass": old["DPU.BS_CFG"]["bs_bypass"], "cpend_alu_bypass": int(not corrects),
            "cpend_mul_bypass": int(not corrects), "bs_alu_bypass": int(not bs.adds), "bs_alu_src": bs.alu_source,
            "cpend_alu_algo": AluAlgorithm.ADD if corrects else AluAlgorithm.NONE, "bs_alu_algo": int(bs.adds),
        },
        "DPU.BS_MUL_CFG": {"cpend_mul_src": int(corrects), "no_shift": int(not bs.shifts), "bs_mul_prelu": bs.prelu},
        "DPU.BS_OW_CFG": {
            "size_e_0": together, "size_e_1": together, "size_e_2": _last_atoms(old, together, is_convolution),
            "size_e_3": 1 if repeats else together, "bs_mul_src": bs.mul_source,
            "bs_mul_bypass": int(not bs.multiplies), "regroup": packed, "cpend_en": int(corrects),
        },
        "DPU.BN_CFG": {
            "bn_bypass": old["DPU.BN_CFG"]["bn_bypass"], "bn_alu_bypass": int(not bn.adds), "bn_alu_src": bn.alu_source,
            "bn_alu_algo": AluAlgorithm.ADD if bn.adds else AluAlgorithm.NONE, "bn_mul_bypass": int(not bn.multiplies),
            "bn_mul_src": bn.mul_source, "bn_mul_prelu": bn.prelu, "no_shift": int(not bn.shifts),
        },
        "DPU.EW_CVT_OFFSET_VALUE": dict(old.get("DPU.EW_CVT_OFFSET_VALUE", {})),
        "DPU.EW_CVT_SCALE_VALUE": dict(old["DPU.EW_CVT_SCALE_VALUE"]),
        "DPU.OUT_CVT_OFFSET": dict(old.get("DPU.OUT_CVT_OFFSET", {})),
        "DPU.OUT_CVT_SCALE": {
            "out_cvt_scale": old["DPU.OUT_CVT_SCALE"]["out_cvt_scale"],
            "fp32tofp16_en": int(proc is not Precision.INT8 or not is_convolution or _joins(old)),
        },
        "DPU.OUT_CVT_SHIFT": dict(old.get("DPU.OUT_CVT_SHIFT", {})),
        "DPU.SURFACE_ADD": {"surf_add": old["DPU.SURFACE_ADD"]["surf_add"] if repeats else _surface_gap(old)},
        "DPU.BUS": {"from_core": int(is_convolution), "high": _BUS},
        "DPU.SURF_LEN": {"surf_len": mode.get("surf_len", 0) if mode.get("nonalign") else 0},
        "DPU.PACKED_RUN": {"run": _ATOM if packed in {Regroup.LANES8, Regroup.LANES16} else 0},
        "DPU.UNKNOWN_40D0": {"low": 0xFFFF, "high": 0x40},
        "DPU_RDMA.RDMA_BRDMA_CFG": {"config_use": bs.config, "brdma_data_use": bs.data},
        "DPU_RDMA.RDMA_NRDMA_CFG": {"config_use": bn.config, "nrdma_data_use": bn.data},
    }  # fmt: skip
    for letter, stage in (("BS", bs), ("BN", bn)):
        if stage.config:
            new[f"DPU_RDMA.RDMA_{letter}_CONFIG_ADDR"] = {f"{letter.lower()}_config_addr": stage.place}


def _is_depthwise(old: Mapping[str, Fields]) -> bool:
    return old["DPU.FEATURE_MODE_CFG"]["conv_mode"] is ConvMode.DEPTHWISE


def _surface_gap(old: Mapping[str, Fields]) -> int:
    """Atoms from the end of a channel group to the next one."""
    size = old["DPU.WDMA_SIZE_1"]
    notch = old.get("DPU.DATA_CUBE_NOTCH_ADDR", {}).get("notch_addr_0", 0)
    height, width = size["height_wdma"], size["width_wdma"]
    return int(old["DPU.SURFACE_ADD"]["surf_add"] - (height - 1) * (width + notch) - width)


def _product(old: Mapping[str, Fields], new: Registers) -> None:
    """Products leave the ALU without a code, and take floats as they are; divisions set the converter's order."""
    made = new["DPU.EW_CFG"]
    if made["ew_op_type"] is EwPart.MUL:
        made["ew_alu_algo"] = EwAlgorithm.NONE
        if not made["ew_cvt_type"]:
            made["ew_op_cvt_bypass"] = 1
    elif made["ew_op_type"] is EwPart.DIV:
        made["ew_cvt_type"] = 1


def _last_atoms(old: Mapping[str, Fields], together: int, is_convolution: bool) -> int:
    """Atoms of the last channel group: what its channels fill."""
    if not is_convolution:
        return together
    lanes = _ATOM // (1 if old["DPU.DATA_FORMAT"]["out_precision"] is Precision.INT8 else 2)
    return (ceil_div(old["DPU.DATA_CUBE_CHANNEL"]["orig_channel"], lanes) - 1) % together + 1


def _joins(old: Mapping[str, Fields]) -> bool:
    """Whether a second operand joins the result of a convolution."""
    return not old["DPU_RDMA.RDMA_ERDMA_CFG"].get("erdma_disable")


class _Stage:
    """BS or BN: what is added and multiplied, from where; numbers for all channels go into a tensor."""

    def __init__(self, old: Mapping[str, Fields], letters: str, depthwise: bool) -> None:
        upper = letters.upper()
        config, mul = old[f"DPU.{upper}_CFG"], old.get(f"DPU.{upper}_MUL_CFG", {})
        form = old["DPU.DATA_FORMAT"]
        is_on = not config[f"{letters}_bypass"]
        reader = f"DPU_RDMA.RDMA_{'B' if letters == 'bs' else 'N'}RDMA_CFG"
        uses = old.get(reader, {}).get(f"{reader[-9].lower()}rdma_data_use", OperandKinds(0))
        self.adds = is_on and not config[f"{letters}_alu_bypass"]
        self.multiplies = is_on and not config[f"{letters}_mul_bypass"]
        self.alu_source = int(bool(uses & OperandKinds.ALU))
        self.mul_source = int(bool(uses & OperandKinds.MUL))
        self.prelu = int(config.get(f"{letters}_mul_prelu", 0))
        self.data = uses & ~OperandKinds.CPEND if depthwise else uses
        is_whole = form["proc_precision"] is not Precision.FP16
        self.shifts = is_on and ((self.multiplies and is_whole) or (letters == "bs" and depthwise))
        self.config = OperandKinds(0)
        self._addend, self._factor = 0, int(mul.get(f"{letters}_mul_operand", 0))
        if self.adds and not self.alu_source:
            self.config |= OperandKinds.ALU
            own = old.get(f"DPU.{upper}_ALU_CFG", {}).get(f"{letters}_alu_operand", 0)
            is_scaled = letters == "bn" and self.multiplies and own
            self._addend = encode_stages.before(own, mul, form["proc_precision"]) if is_scaled else own
        if self.multiplies and not self.mul_source:
            self.config |= OperandKinds.MUL
        if self.shifts:
            self.config |= OperandKinds.TRT
        shift = int(mul.get(f"{letters}_mul_shift_value", 0))
        negative = int(form.get(f"{letters}_mul_shift_value_neg", 0))
        self._shifts = bytes((shift, negative)) if self.multiplies else bytes(2)
        self._letters = upper

    @property
    def place(self) -> Place:
        """The kinds that are there, one after the other; each at the start of 16 bytes, the addend twice."""
        parts = {
            OperandKinds.ALU: 2 * (self._addend & 0xFFFF_FFFF).to_bytes(4, "little").ljust(16, b"\0"),
            OperandKinds.MUL: (self._factor & 0xFFFF).to_bytes(2, "little").ljust(16, b"\0"),
            OperandKinds.TRT: self._shifts.ljust(16, b"\0"),
        }
        data = b"".join(part for kind, part in parts.items() if kind & self.config)
        return Place(f"{self._letters}cfgTensor", 0, data.ljust(64, b"\0"))


def _table(old: Mapping[str, Fields], new: Registers) -> None:
    """RK3588's ends and slopes, four times each: the first piece starts where the table ends, and so do the others."""
    if old["DPU.EW_CFG"]["ew_bypass"] or old["DPU.EW_CFG"]["ew_lut_bypass"]:
        return
    start, end = old["DPU.LUT_LE_START"]["lut_le_start"], old["DPU.LUT_LO_END"]["lut_lo_end"]
    below = (old["DPU.LUT_LE_SLOPE_SCALE"]["lut_le_slope_uflow_scale"],
             old["DPU.LUT_LE_SLOPE_SHIFT"]["lut_le_slope_uflow_shift"])  # fmt: skip
    above = (old["DPU.LUT_LO_SLOPE_SCALE"]["lut_lo_slope_oflow_scale"],
             old["DPU.LUT_LO_SLOPE_SHIFT"]["lut_lo_slope_oflow_shift"])  # fmt: skip
    if old["DPU.DATA_FORMAT"]["proc_precision"] is Precision.FP16:  # the integer half of the converter divides too
        new["DPU.OUT_CVT_SCALE"]["out_cvt_scale"] = 1 << _TABLE_SHIFT
        new["DPU.OUT_CVT_SHIFT"]["out_cvt_shift"] = _TABLE_SHIFT
        new["DPU.OUT_CVT_OFFSET"] = {"out_cvt_offset": 1}
    new["DPU.LUT_CFG"] = {"mode": _TABLE_MODE, "ranges": _TABLE_RANGES}
    new["DPU.LUT_INFO"] = dict(old["DPU.LUT_INFO"])
    for number in range(4):
        new[f"DPU.LUT_LE_START_{number}"] = {"x": start}
        new[f"DPU.LUT_LO_END_{number}"] = {"x": end}
    for name, (scale, shift) in (("LE_UFLOW", below), ("LO_OFLOW", above)):
        for number in range(2):
            new[f"DPU.LUT_{name}_SCALE_{number}"] = {"scale_0": scale, "scale_1": scale}
        new[f"DPU.LUT_{name}_SHIFT"] = {f"shift_{number}": shift for number in range(4)}
    first, last = old.get("DPU.LUT_ENDS", {}).get("first", 0), old.get("DPU.LUT_ENDS", {}).get("last", 0)
    for name, value in (("LE", first), ("LO", last)):
        new[f"DPU.LUT_{name}_VALUE_0"] = {"value_0": 0, "value_1": value}
        new[f"DPU.LUT_{name}_VALUE_1"] = {"value_0": value, "value_1": value}


# -- DPU_RDMA ----------------------------------------------------------------------------------------------------


def _readers(old: Mapping[str, Fields], new: Registers, *, is_convolution: bool) -> None:
    mode, operand = old["DPU_RDMA.RDMA_FEATURE_MODE_CFG"], old["DPU_RDMA.RDMA_ERDMA_CFG"]
    cube, joins = old["DPU.DATA_CUBE_CHANNEL"], _joins(old)
    source = old["DPU_RDMA.RDMA_SRC_DMA_CFG"]
    has_config = "DPU_RDMA.RDMA_BS_CONFIG_ADDR" in new or "DPU_RDMA.RDMA_BN_CONFIG_ADDR" in new
    reader: Fields = {key: operand[key] for key in ("erdma_disable", "erdma_data_size", "erdma_data_mode",
                                                    "ov4k_bypass") if key in operand}  # fmt: skip
    channels, precision = old["DPU_RDMA.RDMA_DATA_CUBE_CHANNEL"]["channel"], mode["in_precision"]
    if is_convolution:
        reads = any(new[f"DPU_RDMA.RDMA_{letter}RDMA_CFG"][f"{letter.lower()}rdma_data_use"] for letter in "BN")
        channels = cube["orig_channel"] if reads or joins else 1
    if source.get("unpooling_en"):  # an atom is four words
        channels, precision = _ATOM // 4, Precision.INT32
    new |= {
        "DPU_RDMA.RDMA_DATA_CUBE_WIDTH": dict(old["DPU_RDMA.RDMA_DATA_CUBE_WIDTH"]),
        "DPU_RDMA.RDMA_DATA_CUBE_HEIGHT": dict(old["DPU_RDMA.RDMA_DATA_CUBE_HEIGHT"]),
        "DPU_RDMA.RDMA_DATA_CUBE_CHANNEL": {"channel": channels},
        "DPU_RDMA.RDMA_ERDMA_CFG": {
            **reader, "unknown": int(joins or has_config), "after_core": int(joins and is_convolution),
        },
        "DPU_RDMA.RDMA_FEATURE_MODE_CFG": {
            "flying_mode": mode["flying_mode"], "depthwise": int(_is_depthwise(old)),
            "mrdma_fp16tofp32_en": int(joins or not is_convolution), "mrdma_disable": int(is_convolution),
            "proc_precision": mode["proc_precision"], "in_precision": precision,
            "comb_main": int(bool(mode.get("comb_use")) and not is_convolution), "from_core": int(is_convolution),
        },
        "DPU_RDMA.RDMA_SRC_DMA_CFG": {key: value for key, value in source.items() if key != "line_notch_addr"},
        "DPU_RDMA.RDMA_LINE_NOTCH": {"line_notch_addr": source.get("line_notch_addr", 0)},
        "DPU_RDMA.RDMA_SURF_NOTCH": dict(old.get("DPU_RDMA.RDMA_SURF_NOTCH", {})),
    }  # fmt: skip
    for name in ("RDMA_SRC_BASE_ADDR", "RDMA_BS_BASE_ADDR", "RDMA_BN_BASE_ADDR"):
        if f"DPU_RDMA.{name}" in old:
            new[f"DPU_RDMA.{name}"] = dict(old[f"DPU_RDMA.{name}"])
    if joins:
        for name in ("RDMA_EW_BASE_ADDR", "RDMA_EW_SURF_STRIDE", "RDMA_EW_SURF_NOTCH"):
            new[f"DPU_RDMA.{name}"] = dict(old[f"DPU_RDMA.{name}"])
        if is_convolution:
            # One reader is enough here; its surfaces are as far apart as the first of RK3588's two says.
            new["DPU_RDMA.RDMA_EW_BASE_ADDR"] = {"ew_base_addr": old["DPU_RDMA.RDMA_SRC_BASE_ADDR"]["src_base_addr"]}
            del new["DPU_RDMA.RDMA_SRC_BASE_ADDR"]


def on_core(registers: Registers, core: int) -> None:
    """Each core has its own part of the buffer: seven banks behind those of the core before."""
    if "CNA.DIVISION" not in registers or not core:
        return
    fields: dict[str, Fields] = registers
    fields["CNA.DIVISION"]["data_a"] += core * _BANKS
    fields["CNA.CBUF_BANKS"] |= {"banks_a": (core + 1) * _BANKS, "banks_b": core}
    fields["CNA.CBUF_ENTRIES"]["start"] += core * _BANKS * _BANK_ENTRIES
    fields["CNA.CBUF_CON0"]["start"] += core * _BANKS * _BANK_ENTRIES
    fields["CNA.CBUF_CON0"]["data"] += core * _BANKS * _QUARTERS
