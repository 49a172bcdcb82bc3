"""The DPU of RK3588: registers of its stages, its lookup tables and its write DMA. RK3566/68 and RV1103/06 share most.

Stages that were not configured or are bypassed are None.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from openrknn import numerics
from openrknn.chip.rk3588 import dpu, dpu_lut, dpu_stages
from openrknn.chip.task_registers import Registers, constant, multiplier
from openrknn.errors import UnknownModeError
from openrknn.isa import BitPattern, Precision, Register
from openrknn.isa.enums import (
    AluAlgorithm,
    EwAlgorithm,
    EwOperation,
    LutTable,
    OutputMode,
    RegroupCount,
    ShortAlgorithm,
    TransposeLanes,
)
from openrknn.isa.ignored import Kind
from openrknn.task import ew, lut, out_cvt, write
from openrknn.task.formats import ATOM_BYTES, is_float
from openrknn.task.stage import Clamp, Scaling, Stage

__all__ = [
    "BN", "BS", "configure_bn", "configure_bs", "configure_ew", "configure_out", "configure_table", "configure_write",
    "keeps_fp16",
]  # fmt: skip


class StageRegisters(NamedTuple):
    """The four registers of a stage; BS and BN have the same fields under two prefixes."""

    prefix: str
    config: type[Register]
    multiply: type[Register]
    addend: type[Register]
    upper: type[Register]


def _read_stage(registers: Registers, stage: StageRegisters, shift_negative: int, precision: Precision) -> Stage | None:
    """Read the registers of BS or BN; None if the stage is bypassed."""

    def fields(register: type[Register]) -> dict[str, int]:
        values = registers.read(register).values()
        return {name.removeprefix(f"{stage.prefix}_"): value for name, value in values.items()}

    config, mul = fields(stage.config), fields(stage.multiply)
    addend = constant(BitPattern(fields(stage.addend)["alu_operand"]), precision)
    upper = constant(BitPattern(fields(stage.upper)["relux_cmp_dat"]), precision)
    if config["bypass"] or _is_untouched(registers, stage.config):
        return None
    if mul["truncate_src"]:
        raise UnknownModeError("shifts per channel are not implemented", register=stage.multiply.name)
    adds = not config["alu_bypass"]
    larger = adds and isinstance(config["alu_algo"], ShortAlgorithm) and config["alu_algo"] is ShortAlgorithm.MAX
    factor = multiplier(BitPattern(mul["mul_operand"]), precision)
    scaling = Scaling(
        operand=None if mul["mul_src"] else factor,
        shift=mul["mul_shift_value"],
        shift_negative=shift_negative,
        negative_only=bool(config["mul_prelu"]),
    )
    return Stage(
        adds=adds,
        addend=None if config["alu_src"] else addend,
        subtracts=adds and not larger and _subtracts(config["alu_algo"], stage.config.name),
        scaling=None if config["mul_bypass"] else scaling,
        clamp=None if config["relu_bypass"] else Clamp(upper if config["relux_en"] else None),
        is_float=is_float(precision),
        takes_larger=larger,
    )


def _is_untouched(registers: Registers, config: type[Register]) -> bool:
    """The stage was not configured since the reset: on a board it passes everything, though its reset value is 0."""
    if registers.is_written(config):
        return False
    said = UnknownModeError("it was never written, and 0 would be a stage that multiplies by 0", register=config.name)
    registers.tolerate(said, Kind.UNWRITTEN, f"DPU.{config.name}")
    return True


def _subtracts(algorithm: int, register: str) -> bool:
    if algorithm not in {AluAlgorithm.ADD, AluAlgorithm.MINUS}:
        raise UnknownModeError(f"the adder is on, but its algorithm is {algorithm!r}", register=register)
    return algorithm == AluAlgorithm.MINUS


BS = StageRegisters(
    "bs", dpu_stages.BsCfg, dpu_stages.BsMulCfg, dpu_stages.BsAluCfg, dpu_stages.BsReluxCmpValue
)


def configure_bs(registers: Registers, precision: Precision, stage: StageRegisters = BS) -> Stage | None:
    """Read BS's registers; None if the stage is bypassed."""
    negative = registers.read(dpu.DataFormat).bs_mul_shift_value_neg
    return _read_stage(registers, stage, negative, precision)


BN = StageRegisters(
    "bn", dpu_stages.BnCfg, dpu_stages.BnMulCfg, dpu_stages.BnAluCfg, dpu_stages.BnReluxCmpValue
)


def configure_bn(registers: Registers, precision: Precision, stage: StageRegisters = BN) -> Stage | None:
    """Read BN's registers; None if the stage is bypassed."""
    negative = registers.read(dpu.DataFormat).bn_mul_shift_value_neg
    return _read_stage(registers, stage, negative, precision)


def configure_ew(
    registers: Registers,
    precision: Precision,
    tables: lut.Tables,
    config_register: type[Register] = dpu_stages.EwCfg,
) -> ew.Config | None:
    """Read EW's registers; None if the stage is bypassed.

    Chips differ in EW_CFG, which is therefore read by field names; a field that a chip lacks is 0.
    """
    config = _Fields(registers.read(config_register).values())
    table = configure_table(registers, tables, used=not config["ew_bypass"] and not config["ew_lut_bypass"])
    rest = registers.part(_read_ew, precision, config_register)
    if rest is None or table is None:
        return rest
    return ew.Config(table=table, operation=rest.operation, clamp=rest.clamp)


def _read_ew(registers: Registers, precision: Precision, config_register: type[Register]) -> ew.Config | None:
    """EW without its table."""
    config = _Fields(registers.read(config_register).values())
    scale = registers.read(dpu_stages.EwCvtScaleValue)
    offset = registers.read(dpu_stages.EwCvtOffsetValue).ew_op_cvt_offset
    upper = constant(registers.read(dpu_stages.EwReluxCmpValue).ew_relux_cmp_dat, precision)
    values = [registers.read(value).ew_operand for value in dpu_stages.EwOpValues]
    if config["ew_bypass"]:
        return None
    if config["ew_binary_en"] or config["ew_equal_en"]:
        raise UnknownModeError("comparing results are not implemented", register="EW_CFG")
    if any(value != values[0] for value in values):  # one per lane; streams write the same number eight times
        raise UnknownModeError("different operands per lane are not implemented", register="EW_OP_VALUE_1")
    converter = None
    if not config["ew_op_cvt_bypass"] and not is_float(precision):
        converter = ew.Converter(
            bool(config["ew_cvt_type"]),
            offset,
            scale.ew_op_cvt_scale,
            scale.ew_op_cvt_shift,
            numerics.Rounding(config["ew_cvt_round"]),
        )
    operation = ew.Operation(
        multiplies=config["ew_op_type"] == EwOperation.MUL,
        algorithm=EwAlgorithm(config["ew_alu_algo"]),
        operand=None if config["ew_op_src"] else constant(values[0], precision),
        converter=converter,
        negative_only=bool(config["ew_mul_prelu"]),
        shift=scale.ew_truncate,
        shift_negative=registers.read(dpu.DataFormat).ew_truncate_neg,
    )
    return ew.Config(
        table=None,
        operation=None if config["ew_op_bypass"] else operation,
        clamp=None if config["ew_relu_bypass"] else Clamp(upper if config["ew_relux_en"] else None),
    )


class _Fields(dict[str, int]):
    """Fields by name; missing ones are 0."""

    def __missing__(self, name: str) -> int:
        return 0


def configure_table(
    registers: Registers, tables: lut.Tables, *, used: bool, config_register: type[Register] = dpu_lut.LutCfg
) -> lut.Config | None:
    """Read the LUT registers; None if the lookup is bypassed. LUT_CFG is another one on RK3562."""
    places = registers.part(_read_table, used, config_register)
    return None if places is None else lut.Config(entries=tables.snapshot(), **places)


def _read_table(registers: Registers, used: bool, config_register: type[Register]) -> dict[str, Any] | None:
    """Where numbers are looked up, if they are."""
    config = registers.read(config_register).values()
    info = registers.read(dpu_lut.LutInfo)
    below_scale, below_shift = registers.read(dpu_lut.LutLeSlopeScale), registers.read(dpu_lut.LutLeSlopeShift)
    above_scale, above_shift = registers.read(dpu_lut.LutLoSlopeScale), registers.read(dpu_lut.LutLoSlopeShift)
    starts = registers.read(dpu_lut.LutLeStart), registers.read(dpu_lut.LutLoStart)
    ends = registers.read(dpu_lut.LutLeEnd), registers.read(dpu_lut.LutLoEnd)
    registers.waive(dpu_lut.LutAccessCfg, dpu_lut.LutAccessData)
    if not used:
        return None
    if config["lut_road_sel"] or config["lut_expand_en"] or config["lut_cal_sel"] or config["lut_lo_le_mux"] != 2:
        raise UnknownModeError(f"this division of the tables is not implemented: {config}", register="LUT_CFG")
    if config["lut_uflow_priority"] != LutTable.LE or config["lut_oflow_priority"] != LutTable.LO:
        raise UnknownModeError("values outside the tables are served the other way round", register="LUT_CFG")
    if ends[0].lut_le_end != starts[1].lut_lo_start:
        raise UnknownModeError("the tables overlap or leave a gap", register="LUT_LE_END")
    return {
        "le_start": starts[0].lut_le_start,
        "lo_start": starts[1].lut_lo_start,
        "lo_end": ends[1].lut_lo_end,
        "le_select": info.lut_le_index_select,
        "lo_select": info.lut_lo_index_select,
        "below": lut.Slope(below_scale.lut_le_slope_uflow_scale, below_shift.lut_le_slope_uflow_shift),
        "above": lut.Slope(above_scale.lut_lo_slope_oflow_scale, above_shift.lut_lo_slope_oflow_shift),
    }


def configure_out(registers: Registers) -> out_cvt.Config:
    """Read the output converter's registers."""
    scale, shift = registers.read(dpu_stages.OutCvtScale), registers.read(dpu_stages.OutCvtShift)
    form = registers.read(dpu.DataFormat)
    precision = Precision.FP16 if keeps_fp16(form) else form.out_precision
    return out_cvt.Config(
        precision=precision,
        scale=_applied(scale.out_cvt_scale, is_float(form.proc_precision) and is_float(precision)),
        shift=shift.out_cvt_shift,
        offset=registers.read(dpu_stages.OutCvtOffset).out_cvt_offset,
        add_first=shift.cvt_type,
        rounding=numerics.Rounding(int(shift.cvt_round)),
        minus_exponent=shift.minus_exp,
    )


def _applied(scale: int, is_unscaled: bool) -> int:
    if not is_unscaled:
        return scale
    if scale not in {0, 1}:
        raise UnknownModeError(f"a scale of {scale} for floats is not implemented", register="OUT_CVT_SCALE")
    return 1


_PACKED_BYTES = {0: 16, 2: 1, 3: 2, 4: 4, 5: 8}


def configure_write(registers: Registers) -> write.Config:
    """Read the write DMA's registers."""
    return write.Config(address=registers.read(dpu.DstBaseAddr).dst_base_addr, **registers.part(_read_counters))


def _read_counters(registers: Registers) -> dict[str, Any]:
    """What the write DMA counts."""
    mode = registers.read(dpu.FeatureModeCfg)
    sizes = registers.read(dpu_stages.BsOwCfg)
    wdma0, width, height = registers.read(dpu.WdmaSize0), *_sizes(registers)
    notch = registers.read(dpu.DataCubeNotchAddr)
    if mode.output_mode & OutputMode.PPU or not mode.output_mode & OutputMode.MEMORY:
        raise UnknownModeError("a result that does not go to memory is not implemented", register="FEATURE_MODE_CFG")
    if sizes.rgp_cnter is not RegroupCount.ALL:
        raise UnknownModeError("leaving out atoms is not implemented", register="BS_OW_CFG")
    if registers.read(dpu.DataFormat).mc_surf_out:
        raise UnknownModeError("writing several surfaces in a series is not implemented", register="DATA_FORMAT")
    if mode.nonalign and mode.rgp_type not in _PACKED_BYTES:
        raise UnknownModeError(f"packed output of type {mode.rgp_type} is not implemented", register="FEATURE_MODE_CFG")
    lanes = None
    if sizes.tp_org_en:
        lanes = 8 if wdma0.tp_precision is TransposeLanes.BITS16 else 16
    return {
        "per_pixel": sizes.size_e_0,
        "width": width,
        "height": height,
        "line_bytes": write.pitch(width, notch.notch_addr_0) * ATOM_BYTES,
        "atom_step_bytes": registers.read(dpu.DstSurfStride).dst_surf_stride * ATOM_BYTES,
        "group_step_bytes": registers.read(dpu.SurfaceAdd).surf_add * ATOM_BYTES,
        "packed_bytes": _PACKED_BYTES[mode.rgp_type] if mode.nonalign else None,
        "transposes_atoms": mode.tp_en,
        "transposed_lanes": lanes,
    }


def _sizes(registers: Registers) -> tuple[int, int]:
    """Width and height of the counters; of the whole cube, if the counters were not configured since the reset."""
    sizes = registers.read(dpu.WdmaSize1)
    if registers.is_written(dpu.WdmaSize1):
        return sizes.width_wdma, sizes.height_wdma
    cube = registers.read(dpu.DataCubeWidth).width, registers.read(dpu.DataCubeHeight).height
    if cube != (sizes.width_wdma, sizes.height_wdma):
        said = UnknownModeError("it was never written, and the cube is not one pixel", register=dpu.WdmaSize1.name)
        registers.tolerate(said, Kind.UNWRITTEN, f"DPU.{dpu.WdmaSize1.name}")
    return cube


def keeps_fp16(form: dpu.DataFormat) -> bool:
    """Divisions in fp16 can say INT16 on both sides: 16 bits that are not converted, and are fp16.

    Square roots are compiled so (Newton's method, begun with 0x3C00). INT16 on one side alone is a conversion.
    """
    return form.proc_precision is Precision.FP16 and form.in_precision is form.out_precision is Precision.INT16
