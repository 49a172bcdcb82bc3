"""The DPU of a task as RK3588's registers: stages, lookup tables, output converter, write DMA."""

from __future__ import annotations

import struct

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
from openrknn.task import dpu, ew, lut, rdma
from openrknn.task.formats import element_bytes, is_float
from openrknn.task.place import Address
from openrknn.task.stage import Stage

__all__ = ["BURST", "PIXEL_BITS", "Fields", "encode_dpu", "is_converted", "pointers"]

Fields = dict[str, Address]
BURST = 16
PIXEL_BITS = {1: PixelBits.BITS8, 2: PixelBits.BITS16, 4: PixelBits.BITS32}
_LONGEST = 0xFFFF
_LANES16 = 8


def pointers() -> Fields:
    """S_POINTER: two register groups take turns."""
    return {"pointer_pp_en": 1, "executer_pp_en": 1, "pointer_pp_mode": 1}


def is_converted(config: dpu.Config[Address]) -> bool:
    """Whether 16-bit floats are widened and narrowed on their way: not where atoms only move or are compared."""
    return not config.reduction and config.in_precision is not Precision.INT16


def encode_dpu(
    config: dpu.Config[Address], reader: rdma.Config[Address] | None, size: tuple[int, int], *, depthwise: bool,
    is_narrow: bool,
) -> dict[str, Fields]:  # fmt: skip
    """`size` is (rows, columns) of what goes through the stages."""
    registers: dict[str, Fields] = {
        "DPU.S_POINTER": pointers(),
        "DPU.FEATURE_MODE_CFG": {
            "flying_mode": int(config.flying), "output_mode": OutputMode.MEMORY,
            "conv_mode": ConvMode.DEPTHWISE if depthwise else ConvMode.DIRECT, "burst_len": BURST,
        },
        "DPU.DATA_FORMAT": {
            "proc_precision": config.precision, "in_precision": config.in_precision,
            "out_precision": config.out.precision,
        },
        "DPU.DATA_CUBE_WIDTH": {"width": size[1]},
        "DPU.DATA_CUBE_HEIGHT": {"height": size[0]},
        "DPU.DATA_CUBE_CHANNEL": {"channel": config.channels, "orig_channel": config.real_channels},
        "DPU.OFFSET_PEND": {"offset_pend": config.pad_bits},
    }  # fmt: skip
    if config.reduction:
        registers["DPU.DATA_CUBE_HEIGHT"]["minmax_ctl"] = config.reduction
    for prefix, stage in (("bs", config.bias), ("bn", config.norm)):
        _stage(registers, prefix, stage, config.precision)
    _element_wise(registers, config.element_wise, reader, config.precision, is_narrow=is_narrow)
    _out(registers, config, is_narrow=is_narrow)
    _write(registers, config, reader)
    return registers


def _stage(registers: dict[str, Fields], prefix: str, stage: Stage | None, precision: Precision) -> None:
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
        registers[f"DPU.{letters}_ALU_CFG"] = {f"{prefix}_alu_operand": _bits32(stage.addend, precision)}
    if scaling is not None:
        multiply: Fields = {f"{prefix}_mul_shift_value": scaling.shift}
        if scaling.operand is None:
            multiply[f"{prefix}_mul_src"] = 1
        else:
            multiply[f"{prefix}_mul_operand"] = _bits16(scaling.operand, precision)
        registers[f"DPU.{letters}_MUL_CFG"] = multiply
        registers["DPU.DATA_FORMAT"][f"{prefix}_mul_shift_value_neg"] = scaling.shift_negative
        if scaling.negative_only:
            config["mul_prelu"] = 1
    if clamp is not None and clamp.upper is not None:
        config["relux_en"] = 1
        registers[f"DPU.{letters}_RELUX_CMP_VALUE"] = {f"{prefix}_relux_cmp_dat": _bits32(clamp.upper, precision)}
    registers[f"DPU.{letters}_CFG"] = {f"{prefix}_{name}": value for name, value in config.items()}


def _bits32(value: float, precision: Precision) -> int:
    return struct.unpack("<I", struct.pack("<f", value))[0] if is_float(precision) else int(value) & 0xFFFFFFFF


def _bits16(value: float, precision: Precision) -> int:
    return struct.unpack("<H", struct.pack("<e", value))[0] if is_float(precision) else int(value) & 0xFFFF


def _element_wise(
    registers: dict[str, Fields], config: ew.Config | None, reader: rdma.Config[Address] | None, precision: Precision,
    *, is_narrow: bool,
) -> None:  # fmt: skip
    off = ("ew_bypass", "ew_op_bypass", "ew_lut_bypass", "ew_op_cvt_bypass", "ew_relu_bypass")
    made: Fields = dict.fromkeys(off, 1)
    registers["DPU.EW_CFG"] = made
    registers["DPU.EW_CVT_SCALE_VALUE"] = {"ew_op_cvt_scale": 1}
    if config is None:
        return
    made["ew_bypass"] = 0
    if config.table is not None:
        made["ew_lut_bypass"] = 0
        _table(registers, config.table)
    made["ew_relu_bypass"] = int(config.clamp is None)
    operation = config.operation
    if operation is None or reader is None or reader.operand is None:
        return
    made |= {
        "ew_op_bypass": 0, "ew_op_src": 1,
        "ew_op_cvt_bypass": int(is_narrow or (operation.converter is None and not is_float(precision))),
        "edata_size": PIXEL_BITS[reader.operand.bytes_each], "ew_data_mode": reader.operand.mode,
        "ew_op_type": EwOperation.MUL if operation.multiplies else EwOperation.ALU,
    }  # fmt: skip
    if not operation.multiplies:
        made["ew_alu_algo"] = operation.algorithm
    if operation.converter is not None:
        made["ew_cvt_type"] = int(operation.converter.add_first)
        registers["DPU.EW_CVT_OFFSET_VALUE"] = {"ew_op_cvt_offset": operation.converter.offset}
        registers["DPU.EW_CVT_SCALE_VALUE"] = {
            "ew_op_cvt_scale": operation.converter.scale, "ew_op_cvt_shift": operation.converter.shift,
        }  # fmt: skip


def _table(registers: dict[str, Fields], table: lut.Config) -> None:
    registers |= {
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


def _out(registers: dict[str, Fields], config: dpu.Config[Address], *, is_narrow: bool) -> None:
    out = config.out
    floats = config.precision is Precision.FP16 or out.precision is Precision.FP16
    registers["DPU.OUT_CVT_SCALE"] = {
        "out_cvt_scale": out.scale, "fp32tofp16_en": int(floats and is_converted(config) and not is_narrow),
    }  # fmt: skip
    shift: Fields = {"out_cvt_shift": out.shift, "minus_exp": out.minus_exponent, "cvt_round": int(out.rounding)}
    if any(shift.values()):
        registers["DPU.OUT_CVT_SHIFT"] = {name: value for name, value in shift.items() if value}
    if out.offset:
        registers["DPU.OUT_CVT_OFFSET"] = {"out_cvt_offset": out.offset}


def _write(
    registers: dict[str, Fields], config: dpu.Config[Address], reader: rdma.Config[Address] | None
) -> None:
    write, mode = config.write, registers["DPU.FEATURE_MODE_CFG"]
    atom = write.atom_bytes
    sizes: Fields = {f"size_e_{number}": write.per_pixel for number in range(3)}
    sizes["od_bypass"] = int(config.correction is None)
    if config.correction is not None:
        sizes |= {"ow_src": 1} if config.correction.operand is None else {}
        if config.correction.operand is not None:
            registers["DPU.BS_OW_OP"] = {"ow_op": config.correction.operand}
    group: Fields = {"channel_wdma": config.channels}
    if write.packed_bytes is not None:
        mode["nonalign"] = 1
        size = write.width * write.height * element_bytes(config.out.precision)
        mode["surf_len"] = -(-size // atom)
    if write.transposes_atoms:
        mode["tp_en"] = 1
        group["tp_precision"] = TransposeLanes.BITS16
    if write.transposed_lanes is not None and reader is not None:
        surfaces = reader.channels * element_bytes(reader.precision) // atom
        mode["surf_len"] = min(reader.width * reader.height * surfaces, _LONGEST)
        group["tp_precision"] = TransposeLanes.BITS16 if write.transposed_lanes == _LANES16 else TransposeLanes.BITS8
        group["size_c_wdma"] = surfaces - 1
        sizes["tp_org_en"] = 1
    if reader is not None and reader.combine & CombineUse.MAIN:
        mode["comb_use"] = 1
    notch = write.line_bytes // atom - write.width
    registers |= {
        "DPU.DST_BASE_ADDR": {"dst_base_addr": write.address},
        "DPU.DST_SURF_STRIDE": {"dst_surf_stride": write.atom_step_bytes // atom},
        "DPU.DATA_CUBE_NOTCH_ADDR": {"notch_addr_0": notch, "notch_addr_1": notch},
        "DPU.BS_OW_CFG": sizes,
        "DPU.WDMA_SIZE_0": group,
        "DPU.WDMA_SIZE_1": {"width_wdma": write.width, "height_wdma": write.height},
        "DPU.SURFACE_ADD": {"surf_add": write.group_step_bytes // atom},
    }
