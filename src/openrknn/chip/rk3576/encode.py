"""From tasks to the registers of RK3576 and RV1126B: RK3562's stages, with operands of BS and BN in small tensors.

Every difference was read from files that the vendor's converter made of the same ONNX model for both chips.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from openrknn.chip.rk3562 import encode_stages
from openrknn.chip.rk3562.encode import moved
from openrknn.chip.rk3566.encode import single_reader
from openrknn.chip.rk3576.encode_operands import StageOperands
from openrknn.chip.rk3588.encode_cna import PICTURES, encode_convolution, is_cropped, kernel_bytes
from openrknn.chip.rk3588.encode_dpu import (
    Fields,
    encode_converters,
    encode_sizes,
    line_notch,
    pointers,
    surface_length,
    table_of,
)
from openrknn.chip.rk3588.encode_rdma import encode_walks, notches, repetition
from openrknn.chip.target import Encoded, Registers, align, ceil_div
from openrknn.chips import CHIPS
from openrknn.errors import UnsupportedError
from openrknn.isa.enums import (
    AluAlgorithm,
    CombineUse,
    EwAlgorithm,
    EwPart,
    OperandKinds,
    OutputMode,
    Precision,
    Regroup,
)
from openrknn.task import rdma
from openrknn.task.formats import element_bits, element_bytes, is_float
from openrknn.task.kinds import Convolution, Piped, Pooling, Work
from openrknn.task.place import Address

__all__ = ["DATA_BANKS", "ENCODERS", "LIGHT_BYTES", "SLOTS", "UNWRITTEN", "on_core"]

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
_PICTURE_CHANNELS = 4
"""Channels of a pixel in the buffer, and of a kernel that reads pictures."""
_TABLE_MODE, _TABLE_RANGES = 6, 2
UNWRITTEN = (
    *(f"CORE.UNKNOWN_{place}" for place in ("300C", "3010", "3014")),
    *("DPU.EW_OP_VALUE_2", "DPU.EW_OP_VALUE_4", "DPU.UNKNOWN_40C4"),
    *(f"DPU.LUT_{name}_{number}" for name in ("LE_END", "LO_START") for number in (1, 2, 3)),
    *(f"DPU.LUT_{name}_SCALE_{number}" for name in ("LE_OFLOW", "LO_UFLOW") for number in (0, 1)),
    *("DPU.LUT_LE_OFLOW_SHIFT", "DPU.LUT_LO_UFLOW_SHIFT"),
    *(f"PPU.UNKNOWN_{place}" for place in ("6060", "6064", "6068", "606C")),
)


def _encode(chip: str, task: Work) -> Encoded:
    """The blocks that work, and their registers."""
    if isinstance(task, Pooling):
        return ("PPU", "PPU_RDMA"), encode_stages.pooling(task.pooling) | {"PPU.MISC_CTRL": {"burst_len": 1}}
    if task.dpu.reduction or task.dpu.in_precision is Precision.FP32:
        raise UnsupportedError("this chip needs another recipe for it, and it is not written yet")
    reader = _nothing_read(task) if task.reader is None else single_reader(task, task.reader)
    bias = StageOperands("BS", task.dpu.bias, reader.bias_kinds, task)
    norm = StageOperands("BN", encode_stages.adding_first(task.dpu.norm, task.dpu.precision), reader.norm_kinds, task)
    registers = _pipe(task, bias, norm) | _table(task) | _readers(task, reader, bias, norm)
    if isinstance(task, Convolution):
        return ("CNA", "CORE", "DPU", "DPU_RDMA"), registers | _features(task, _GRAINS[chip])
    return ("DPU", "DPU_RDMA"), registers


ENCODERS = {chip: partial(_encode, chip) for chip in _GRAINS}


def _nothing_read(task: Piped) -> rdma.Config[Address]:
    """The readers of a convolution without operands per channel: those for all channels come through them."""
    (height, width), nothing = task.size, OperandKinds(0)
    return rdma.Config(
        width=width, height=height, channels=1, precision=task.dpu.in_precision, proc_precision=task.dpu.precision,
        main=None, bias_kinds=nothing, bias_address=0, norm_kinds=nothing, norm_address=0, operand=None,
        combine=CombineUse(0), repeat_x=1, repeat_y=1, repeats=False,
    )  # fmt: skip


# -- CNA and CORE ------------------------------------------------------------------------------------------------


def _features(task: Convolution[Address], grains: int) -> Registers:
    source, buffer, pad = task.source, task.buffer, encode_stages.pad_bits(task.source)
    height, width, packed, depthwise = source.height, source.width, source.packed_channels, source.depthwise
    element, entries, kept = element_bits(source.precision), buffer.entries, buffer.kept_rows
    line = source.line_bytes // _ATOM if is_cropped(task) else 4 * width
    pitch, per_kernel, row, pixels = source.surface_bytes // _ATOM, kernel_bytes(task), width, width
    surface = align((height - kept) * width, 4) if height * width > 1 else 1
    if packed:
        size = element_bytes(source.precision)
        pixels = align(source.line_bytes // (packed * size), _ATOM // size)
        entries = ceil_div(pixels * _PICTURE_CHANNELS * size, 4 * _ATOM)
        line = row = pixels * packed * size // _ATOM
        pitch = surface = line * (height - kept)
        per_kernel = source.kernel_height * source.kernel_width * _PICTURE_CHANNELS * size
    all_bytes, data = per_kernel * source.kernels, buffer.data_banks
    if data not in DATA_BANKS or entries * height > data * _BANK_ENTRIES:  # a recipe that counts RK3588's banks
        data = next((count for count in DATA_BANKS if entries * height <= count * _BANK_ENTRIES), DATA_BANKS[-1])
    fetched = (buffer.first_entry + kept * entries) % (data * _BANK_ENTRIES)
    registers = encode_convolution(task)
    registers["CNA.CONV_CON3"]["cores"] = 1
    registers["CNA.DATA_SIZE2"]["weights"] = (
        all_bytes // _ATOM if depthwise else 16 * per_kernel // element
    ) & 0xFFFF
    registers["CNA.PAD_CON0"] |= encode_stages.behind(source)
    return registers | {
        **{f"{block}.S_POINTER": pointers(is_first=task.is_first) for block in ("CNA", "CORE")},
        "CNA.CBUF_BANKS": {
            "banks_a": _BANKS, "reuse": _KEEPS_WEIGHTS * int(source.reuses_weights) + int(buffer.reuses_data),
        },
        "CNA.CONV_CON1": {
            "dw_en": int(depthwise), "image": int(packed > 0), "in_precision": source.precision,
            "proc_precision": source.arithmetic, "weight_precision": source.weight_precision,
            "argb_in": PICTURES[packed], "group_line_off": int(packed > 0 or is_cropped(task)),
        },
        "CNA.CONV_CON2": {"grains": grains},
        "CNA.DIVISION": {"data_a": data, "data_b": data, "always": 1, "data_reuse": int(kept > 0)},
        "CNA.WEIGHT_SIZE0": {"weight_bytes": all_bytes},
        "CNA.WEIGHT_SIZE1": {"weight_bytes_per_kernel": per_kernel},
        "CNA.DATA_SIZE1": {"datain_channel_real": task.channels, "datain_pixels": entries * (height - kept) & 0xFFFF},
        "CNA.CBUF_ENTRIES": {"start": buffer.first_entry, "data_entries": entries},
        "CNA.CBUF_CON0": {"start": fetched, "data": _QUARTERS * data},
        "CNA.CBUF_CON1": {"data_entries": pixels if packed else entries, "datain_width": pixels},
        **encode_stages.converter(source),
        **encode_stages.zero_point(source),
        "CNA.LANE_PAD": {"lane_pad": pad if packed else 0},
        "CNA.FC_DATA_SIZE0": {"dma_height": height - kept, "dma_width": row},
        "CNA.FC_DATA_SIZE1": {"dma_channel": task.channels},
        "CNA.PAD_CON1": {"pad_value": pad},
        "CNA.FEATURE_DATA_ADDR": {"feature_base_addr": moved(source.feature_address, kept * width * _ATOM)},
        "CNA.DMA_CON1": {"line_stride": line},
        "CNA.SURF_STRIDE": {"surf_stride": pitch},
        "CNA.SURF_SIZE": {"surf_size": surface},
        "CNA.READ_SIZE": {"width_0": entries if packed else width, "width_1": entries if packed else width},
        "CORE.MISC_CFG": {
            "qd_en": int(source.precision is Precision.INT8 and not depthwise), "dw_en": int(depthwise),
            "dw_too": int(depthwise and (source.spread_y, source.spread_x) == (1, 1)), "image": int(packed > 0),
            "proc_precision": source.arithmetic, "always": 1,
        },
        "CORE.DATAOUT_SIZE_1": {"dataout_channel": task.dpu.real_channels},
    }  # fmt: skip


# -- DPU ---------------------------------------------------------------------------------------------------------


def _pipe(task: Piped, bs: StageOperands, bn: StageOperands) -> Registers:
    config = replace(task.dpu, out=encode_stages.through_table(task.dpu))
    write, precision, depthwise, notch = config.write, config.precision, task.depthwise, line_notch(config)
    is_convolution, repeats = isinstance(task, Convolution), task.reader is not None and task.reader.repeats
    kind = "depthwise" if depthwise else "direct" if is_convolution else "repeating" if repeats else "flying"
    corrects = is_convolution and not depthwise and config.correction is not None
    is_per_channel = config.correction is not None and config.correction.operand is None
    packed, is_packed = encode_stages.regroup(task), write.packed_bytes is not None
    is_whole = precision is Precision.INT8 and is_convolution and not encode_stages.joins(task)
    registers: Registers = {
        **encode_sizes(task), **encode_converters(config), **encode_stages.element_wise(task),
        **bs.bounds, **bn.bounds,
        "DPU.FEATURE_MODE_CFG": {
            "flying_mode": int(config.flying), "output_mode": OutputMode.MEMORY, "depthwise": int(depthwise),
            "nonalign": int(is_packed), "from_core": int(is_convolution),
        },
        "DPU.DATA_FORMAT": {"proc_precision": precision, "out_precision": config.out.precision},
        "DPU.DATA_CUBE_NOTCH_ADDR": dict.fromkeys(("notch_addr_0", "notch_addr_1"), notch & 0xFFFF),
        "DPU.DATA_CUBE_CHANNEL": {"orig_channel": config.real_channels},
        "DPU.WDMA_SIZE_0": {"group": _GROUPS[kind], "orig_channel": config.real_channels},
        "DPU.BS_CFG": {
            "bs_bypass": int(not bs.is_on), "cpend_alu_bypass": int(not corrects),
            "cpend_mul_bypass": int(not corrects), "bs_alu_bypass": int(not bs.adds), "bs_alu_src": bs.alu_source,
            "cpend_alu_algo": AluAlgorithm.ADD if corrects else AluAlgorithm.NONE, "bs_alu_algo": int(bs.adds),
        },
        "DPU.BS_MUL_CFG": {
            "cpend_mul_src": int(corrects and is_per_channel), "no_shift": int(not bs.shifts), "bs_mul_prelu": bs.prelu,
        },
        "DPU.BS_OW_CFG": {
            "size_e_0": write.per_pixel, "size_e_1": write.per_pixel, "size_e_2": _last_atoms(task),
            "size_e_3": 1 if repeats else write.per_pixel, "bs_mul_src": bs.mul_source,
            "bs_mul_bypass": int(not bs.multiplies), "regroup": packed, "cpend_en": int(corrects),
        },
        "DPU.BN_CFG": {
            "bn_bypass": int(not bn.is_on), "bn_alu_bypass": int(not bn.adds), "bn_alu_src": bn.alu_source,
            "bn_alu_algo": AluAlgorithm.ADD if bn.adds else AluAlgorithm.NONE, "bn_mul_bypass": int(not bn.multiplies),
            "bn_mul_src": bn.mul_source, "bn_mul_prelu": bn.prelu, "no_shift": int(not bn.shifts),
        },
        "DPU.OUT_CVT_SCALE": {"out_cvt_scale": config.out.scale, "fp32tofp16_en": int(not is_whole)},
        "DPU.BUS": {"from_core": int(is_convolution), "high": _BUS},
        "DPU.SURF_LEN": {"surf_len": surface_length(task) if is_packed else 0},
        "DPU.PACKED_RUN": {
            "run": encode_stages.packed_run(task) or (_ATOM if packed in {Regroup.LANES8, Regroup.LANES16} else 0),
        },
        "DPU.UNKNOWN_40D0": {"low": 0xFFFF, "high": 0x40},
    }  # fmt: skip
    is_lowered = task.reader is not None and task.reader.repeats and task.reader.precision is not Precision.INT32
    if not is_lowered:  # from the end of a channel group to the next one
        gap = write.group_step_bytes - (write.height - 1) * write.line_bytes
        registers["DPU.SURFACE_ADD"] = {"surf_add": gap // _ATOM - write.width}
    if is_float(precision):
        registers["DPU.OUT_CVT_SHIFT"]["minus_exp"] = max(0, config.out.minus_exponent - config.out.shift)
    _product(registers["DPU.EW_CFG"])
    return registers


def _product(made: Fields) -> None:
    """Products leave the ALU without a code, and take floats as they are; divisions set the converter's order."""
    if made["ew_op_type"] is EwPart.MUL:
        made["ew_alu_algo"] = EwAlgorithm.NONE
        if not made["ew_cvt_type"]:
            made["ew_op_cvt_bypass"] = 1
    elif made["ew_op_type"] is EwPart.DIV:
        made["ew_cvt_type"] = 1


def _last_atoms(task: Piped) -> int:
    """Atoms of the last channel group: what its channels fill."""
    together = task.dpu.write.per_pixel
    if not isinstance(task, Convolution):
        return together
    lanes = _ATOM // (1 if task.dpu.out.precision is Precision.INT8 else 2)
    return (ceil_div(task.dpu.real_channels, lanes) - 1) % together + 1


def _table(task: Piped) -> Registers:
    """Ends and slopes, four times each: the first piece starts where the table ends, and so do the others."""
    table = table_of(task.dpu)
    if table is None:
        return {}
    registers: Registers = {
        "DPU.LUT_CFG": {"mode": _TABLE_MODE, "ranges": _TABLE_RANGES},
        "DPU.LUT_INFO": {"lut_le_index_select": table.le_select, "lut_lo_index_select": table.lo_select},
    }
    for number in range(4):
        registers[f"DPU.LUT_LE_START_{number}"] = {"x": table.le_start}
        registers[f"DPU.LUT_LO_END_{number}"] = {"x": table.lo_end}
    ends = (("LE", "UFLOW", table.below, table.entries[0, 0]), ("LO", "OFLOW", table.above, table.entries[1, -1]))
    for name, flow, slope, end in ends:
        for number in range(2):
            registers[f"DPU.LUT_{name}_{flow}_SCALE_{number}"] = {"scale_0": slope.scale, "scale_1": slope.scale}
            registers[f"DPU.LUT_{name}_VALUE_{number}"] = {"value_0": int(end) * number, "value_1": int(end)}
        registers[f"DPU.LUT_{name}_{flow}_SHIFT"] = {f"shift_{number}": slope.shift for number in range(4)}
    return registers


# -- DPU_RDMA ----------------------------------------------------------------------------------------------------


def _readers(task: Piped, reader: rdma.Config[Address], bs: StageOperands, bn: StageOperands) -> Registers:
    registers, is_convolution, operand = encode_walks(task, reader), isinstance(task, Convolution), reader.operand
    registers["DPU_RDMA.RDMA_BRDMA_CFG"] = {"config_use": bs.config, "brdma_data_use": bs.data}
    registers["DPU_RDMA.RDMA_NRDMA_CFG"] = {"config_use": bn.config, "nrdma_data_use": bn.data}
    registers |= bs.address | bn.address
    line = 0 if reader.main is None else notches(reader, reader.main)[0]
    channels, precision, joins = reader.channels, reader.precision, operand is not None
    if is_convolution:
        channels = task.dpu.real_channels if bs.data or bn.data or joins else 1
    if reader.repeats:  # an atom is four words
        channels, precision = _ATOM // 4, Precision.INT32
    if is_convolution and operand is not None:  # the notch is that of two surfaces
        twice = replace(operand.walk, surface_bytes=2 * operand.walk.surface_bytes)
        line, notch = notches(reader, twice)
        registers["DPU_RDMA.RDMA_EW_SURF_STRIDE"] = {"ew_surf_stride": operand.walk.surface_bytes // _ATOM}
        registers["DPU_RDMA.RDMA_EW_SURF_NOTCH"] = {"ew_surf_notch": notch}
        registers["DPU_RDMA.RDMA_SURF_NOTCH"] = {"surf_notch_addr": notch}
    registers["DPU_RDMA.RDMA_ERDMA_CFG"] |= {
        "unknown": int(joins or bool(bs.config or bn.config)), "after_core": int(joins and is_convolution),
    }  # fmt: skip
    return registers | {
        "DPU_RDMA.RDMA_DATA_CUBE_CHANNEL": {"channel": channels},
        "DPU_RDMA.RDMA_FEATURE_MODE_CFG": {
            "flying_mode": int(task.dpu.flying), "depthwise": int(task.depthwise),
            "mrdma_fp16tofp32_en": int(joins or not is_convolution), "mrdma_disable": int(is_convolution),
            "proc_precision": reader.proc_precision, "in_precision": precision,
            "comb_main": int(bool(reader.combine) and not is_convolution), "from_core": int(is_convolution),
        },
        "DPU_RDMA.RDMA_SRC_DMA_CFG": repetition(reader),
        "DPU_RDMA.RDMA_LINE_NOTCH": {"line_notch_addr": line},
    }  # fmt: skip


def on_core(registers: Registers, core: int) -> None:
    """Each core has its own part of the buffer: seven banks behind those of the core before."""
    if "CNA.DIVISION" not in registers or not core:
        return
    fields: dict[str, dict[str, Any]] = registers
    fields["CNA.DIVISION"]["data_a"] += core * _BANKS
    fields["CNA.CBUF_BANKS"] |= {"banks_a": (core + 1) * _BANKS, "banks_b": core}
    fields["CNA.CBUF_ENTRIES"]["start"] += core * _BANKS * _BANK_ENTRIES
    fields["CNA.CBUF_CON0"]["start"] += core * _BANKS * _BANK_ENTRIES
    fields["CNA.CBUF_CON0"]["data"] += core * _BANKS * _QUARTERS
