"""The DPU of a task as RK3588's registers: stages, lookup tables, output converter, write DMA.

`encode_sizes`, `encode_converters` and `encode_table` are the same on the other chips.
"""

from __future__ import annotations

import struct

from openrknn.chip.target import Registers
from openrknn.isa import Precision
from openrknn.isa.enums import (
    AluAlgorithm,
    CombineUse,
    ConvMode,
    EwOperation,
    OutputMode,
    PixelBits,
    TransposeLanes,
)
from openrknn.task import dpu, ew, lut
from openrknn.task.formats import element_bytes, is_float
from openrknn.task.kinds import Piped
from openrknn.task.place import Address
from openrknn.task.stage import Stage

__all__ = [
    "BURST", "PIXEL_BITS", "Fields", "bits16", "bits32", "conv_mode", "encode_constant", "encode_converters",
    "encode_dpu", "encode_sizes", "encode_table", "is_converted", "keeps_fp16", "line_notch", "operation_of",
    "pointers", "surface_length", "table_of",
]  # fmt: skip

Fields = dict[str, Address]
BURST = 16
PIXEL_BITS = {1: PixelBits.BITS8, 2: PixelBits.BITS16, 4: PixelBits.BITS32}
_LONGEST = 0xFFFF
_LANES16 = 8
_OPERAND_LANES = 8


def pointers(*, is_first: bool = False) -> Fields:
    """S_POINTER: two register groups take turns; behind a freshly loaded table, group 0 and no ping-pong."""
    if is_first:
        return {"pointer_pp_clear": 1, "executer_pp_clear": 1}
    return {"pointer_pp_en": 1, "executer_pp_en": 1, "pointer_pp_mode": 1}


def conv_mode(task: Piped) -> ConvMode:
    """What blocks behind the array say of it."""
    return ConvMode.DEPTHWISE if task.depthwise else ConvMode.DIRECT


def is_converted(config: dpu.Config[Address]) -> bool:
    """Whether 16-bit floats are widened and narrowed on their way: not where atoms only move or are compared."""
    return not config.reduction and config.precision is not Precision.INT16


def keeps_fp16(task: Piped) -> bool:
    """Divisions in fp16 all the way, which the formats at both ends call INT16."""
    reads_halves = task.reader is not None and task.reader.precision is Precision.FP16
    return reads_halves and task.dpu.precision is Precision.FP16 and task.dpu.in_precision is Precision.INT16


def table_of(config: dpu.Config[Address]) -> lut.Config | None:
    """The lookup table, if the task uses it."""
    return None if config.element_wise is None else config.element_wise.table


def operation_of(task: Piped) -> ew.Operation | None:
    """What EW does with a second operand, if there is one."""
    operation = None if task.dpu.element_wise is None else task.dpu.element_wise.operation
    has_tensor = task.reader is not None and task.reader.operand is not None
    return operation if operation is not None and (has_tensor or operation.operand is not None) else None


def line_notch(config: dpu.Config[Address]) -> int:
    """Atoms from the end of a line that is written to the next."""
    return config.write.line_bytes // config.write.atom_bytes - config.write.width


def bits32(value: float, precision: Precision) -> int:
    """An addend or a bound."""
    return int(struct.unpack("<I", struct.pack("<f", value))[0]) if is_float(precision) else int(value) & 0xFFFFFFFF


def bits16(value: float, precision: Precision) -> int:
    """A multiplier."""
    if precision is Precision.BF16:
        return bits32(value, precision) >> 16
    return int(struct.unpack("<H", struct.pack("<e", value))[0]) if is_float(precision) else int(value) & 0xFFFF


def encode_dpu(task: Piped) -> Registers:
    """All of it."""
    config, write = task.dpu, task.dpu.write
    notch, floats = line_notch(config), is_float(config.precision) or is_float(config.out.precision)
    registers: Registers = {
        **encode_sizes(task), **encode_converters(config), **encode_table(config),
        **encode_constant(task, _OPERAND_LANES),
        "DPU.FEATURE_MODE_CFG": {
            "flying_mode": int(config.flying), "output_mode": OutputMode.MEMORY, "conv_mode": conv_mode(task),
            "burst_len": BURST, "nonalign": int(write.packed_bytes is not None), "surf_len": surface_length(task),
            "tp_en": int(write.transposes_atoms),
            "comb_use": int(task.reader is not None and bool(task.reader.combine & CombineUse.MAIN)),
        },
        "DPU.DATA_FORMAT": {
            "proc_precision": config.precision, "in_precision": config.in_precision,
            "out_precision": Precision.INT16 if keeps_fp16(task) else config.out.precision,
        },
        "DPU.DATA_CUBE_CHANNEL": {"channel": config.channels, "orig_channel": config.real_channels},
        "DPU.DATA_CUBE_NOTCH_ADDR": {"notch_addr_0": notch, "notch_addr_1": notch},
        "DPU.BS_OW_CFG": {
            **{f"size_e_{number}": write.per_pixel for number in range(3)},
            "od_bypass": int(config.correction is None),
            "ow_src": int(config.correction is not None and config.correction.operand is None),
            "tp_org_en": int(write.transposed_lanes is not None and task.reader is not None),
        },
        "DPU.BS_OW_OP": {"ow_op": (config.correction and config.correction.operand) or 0},
        "DPU.WDMA_SIZE_0": {"channel_wdma": config.channels, **_transposition(task)},
        "DPU.OUT_CVT_SCALE": {
            "out_cvt_scale": config.out.scale,
            "fp32tofp16_en": int(floats and is_converted(config) and not task.is_narrow),
        },
        "DPU.EW_CFG": _element_wise(task),
    }  # fmt: skip
    for prefix, stage in (("bs", config.bias), ("bn", config.norm)):
        _stage(registers, prefix, stage, config.precision)
    return registers


def encode_sizes(task: Piped) -> Registers:
    """What comes in, and how the write DMA walks."""
    config, (rows, columns) = task.dpu, task.size
    write = config.write
    return {
        "DPU.S_POINTER": pointers(is_first=task.is_first),
        "DPU.OFFSET_PEND": {"offset_pend": config.pad_bits},
        "DPU.DATA_CUBE_WIDTH": {"width": columns},
        "DPU.DATA_CUBE_HEIGHT": {"height": rows, **({"minmax_ctl": config.reduction} if config.reduction else {})},
        "DPU.DST_BASE_ADDR": {"dst_base_addr": write.address},
        "DPU.DST_SURF_STRIDE": {"dst_surf_stride": write.atom_step_bytes // write.atom_bytes},
        "DPU.WDMA_SIZE_1": {"width_wdma": write.width, "height_wdma": write.height},
        "DPU.SURFACE_ADD": {"surf_add": write.group_step_bytes // write.atom_bytes},
    }


def encode_converters(config: dpu.Config[Address]) -> Registers:
    """The converters of the operand and of the result, but for the latter's scale."""
    out, operation = config.out, None if config.element_wise is None else config.element_wise.operation
    converter = None if operation is None else operation.converter
    return {
        "DPU.EW_CVT_OFFSET_VALUE": {"ew_op_cvt_offset": 0 if converter is None else converter.offset},
        "DPU.EW_CVT_SCALE_VALUE": {
            "ew_op_cvt_scale": 1 if converter is None else converter.scale,
            "ew_op_cvt_shift": 0 if converter is None else converter.shift,
        },
        "DPU.OUT_CVT_OFFSET": {"out_cvt_offset": out.offset},
        "DPU.OUT_CVT_SHIFT": {
            "out_cvt_shift": out.shift, "minus_exp": out.minus_exponent, "cvt_round": int(out.rounding),
            "cvt_type": int(out.add_first),
        },
    }  # fmt: skip


def encode_table(config: dpu.Config[Address]) -> Registers:
    """Domain and resolution of the lookup tables, if the task uses them."""
    table = table_of(config)
    if table is None:
        return {}
    return {
        "DPU.LUT_CFG": {"lut_lo_le_mux": 2, "lut_oflow_priority": 1, "lut_hybrid_priority": 1},
        "DPU.LUT_INFO": {"lut_le_index_select": table.le_select, "lut_lo_index_select": table.lo_select},
        "DPU.LUT_LE_START": {"lut_le_start": table.le_start},
        "DPU.LUT_LE_END": {"lut_le_end": table.lo_start},
        "DPU.LUT_LO_START": {"lut_lo_start": table.lo_start},
        "DPU.LUT_LO_END": {"lut_lo_end": table.lo_end},
        "DPU.LUT_LE_SLOPE_SCALE": {"lut_le_slope_uflow_scale": table.below.scale},
        "DPU.LUT_LE_SLOPE_SHIFT": {"lut_le_slope_uflow_shift": table.below.shift},
        "DPU.LUT_LO_SLOPE_SCALE": {"lut_lo_slope_oflow_scale": table.above.scale},
        "DPU.LUT_LO_SLOPE_SHIFT": {"lut_lo_slope_oflow_shift": table.above.shift},
    }


def _stage(registers: Registers, prefix: str, stage: Stage | None, precision: Precision) -> None:
    letters = prefix.upper()
    if stage is None:
        off = ("bypass", "alu_bypass", "mul_bypass", "relu_bypass")
        registers[f"DPU.{letters}_CFG"] = {
            **{f"{prefix}_{name}": 1 for name in off}, f"{prefix}_alu_algo": AluAlgorithm.NONE,
        }  # fmt: skip
        return
    scaling, clamp = stage.scaling, stage.clamp
    algorithm = AluAlgorithm.MINUS if stage.subtracts else AluAlgorithm.ADD
    config: Fields = {
        "bypass": 0, "alu_bypass": int(not stage.adds), "mul_bypass": int(scaling is None),
        "relu_bypass": int(clamp is None), "alu_algo": algorithm if stage.adds else AluAlgorithm.NONE,
    }  # fmt: skip
    if stage.adds and stage.addend is None:
        config["alu_src"] = 1
    elif stage.adds and stage.addend is not None:
        registers[f"DPU.{letters}_ALU_CFG"] = {f"{prefix}_alu_operand": bits32(stage.addend, precision)}
    if scaling is not None:
        multiply: Fields = {f"{prefix}_mul_shift_value": scaling.shift}
        if scaling.operand is None:
            multiply[f"{prefix}_mul_src"] = 1
        else:
            multiply[f"{prefix}_mul_operand"] = bits16(scaling.operand, precision)
        registers[f"DPU.{letters}_MUL_CFG"] = multiply
        registers["DPU.DATA_FORMAT"][f"{prefix}_mul_shift_value_neg"] = scaling.shift_negative
        if scaling.negative_only:
            config["mul_prelu"] = 1
    if clamp is not None and clamp.upper is not None:
        config["relux_en"] = 1
        registers[f"DPU.{letters}_RELUX_CMP_VALUE"] = {f"{prefix}_relux_cmp_dat": bits32(clamp.upper, precision)}
    registers[f"DPU.{letters}_CFG"] = {f"{prefix}_{name}": value for name, value in config.items()}


def _element_wise(task: Piped) -> Fields:
    config, operation, precision = task.dpu.element_wise, operation_of(task), task.dpu.precision
    made: Fields = {
        "ew_bypass": int(config is None), "ew_lut_bypass": int(config is None or config.table is None),
        "ew_relu_bypass": int(config is None or config.clamp is None), "ew_op_bypass": int(operation is None),
        "ew_op_cvt_bypass": 1,
    }  # fmt: skip
    if operation is None:
        return made
    made |= {
        "ew_cvt_type": int(operation.converter is not None and operation.converter.add_first),
        "ew_op_type": EwOperation.MUL if operation.multiplies else EwOperation.ALU,
    }  # fmt: skip
    if not operation.multiplies:
        made["ew_alu_algo"] = operation.algorithm
    if task.reader is not None and task.reader.operand is not None:
        made |= {
            "ew_op_src": 1,
            "ew_op_cvt_bypass": int(task.is_narrow or (operation.converter is None and not is_float(precision))),
            "edata_size": PIXEL_BITS[task.reader.operand.bytes_each], "ew_data_mode": task.reader.operand.mode,
        }  # fmt: skip
    elif is_float(precision):
        made["edata_size"] = PixelBits.BITS16
    return made


def encode_constant(task: Piped, lanes: int) -> Registers:
    """The operand of EW that is the same for all numbers, in each lane."""
    operation = operation_of(task)
    if operation is None or operation.operand is None:
        return {}
    bits = bits32(operation.operand, task.dpu.precision)
    return {f"DPU.EW_OP_VALUE_{lane}": {"ew_operand": bits} for lane in range(lanes)}


def surface_length(task: Piped) -> int:
    """Atoms of output that is packed, or whose lanes and pixels change places."""
    write, reader, atom = task.dpu.write, task.reader, task.dpu.write.atom_bytes
    if write.transposed_lanes is not None and reader is not None:
        surfaces = reader.channels * element_bytes(reader.precision) // atom
        return min(reader.width * reader.height * surfaces, _LONGEST)
    if write.packed_limit_bytes is not None:
        return write.packed_limit_bytes // atom
    if write.packed_bytes is not None:
        return -(-write.width * write.height * element_bytes(task.dpu.out.precision) // atom)
    return 0


def _transposition(task: Piped) -> Fields:
    write, reader = task.dpu.write, task.reader
    if write.transposed_lanes is not None and reader is not None:
        width = TransposeLanes.BITS16 if write.transposed_lanes == _LANES16 else TransposeLanes.BITS8
        surfaces = reader.channels * element_bytes(reader.precision) // write.atom_bytes
        return {"tp_precision": width, "size_c_wdma": surfaces - 1}
    return {"tp_precision": TransposeLanes.BITS16} if write.transposes_atoms else {}
