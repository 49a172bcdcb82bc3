"""The DPU of RK3562, RK3576 and RV1103/06: RK3588's stages with other switches, read into RK3588's configurations.

Clamps are pairs of registers that always work: limits, and what values beyond them become. BN adds before it
multiplies. The zero-point correction
and the stage BS have switches of their own, and EW has a part for divisions. Registers are found by name, so that one
reader serves all these chips.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from openrknn import numerics
from openrknn.chip.task_registers import NamedRegisters, constant, multiplier
from openrknn.errors import UnknownModeError
from openrknn.isa import BitPattern, Precision
from openrknn.isa.enums import AluAlgorithm, EwAlgorithm, OutputMode, Regroup
from openrknn.task import ew, lut, out_cvt, rdma, write
from openrknn.task.dpu import Correction
from openrknn.task.formats import is_float
from openrknn.task.stage import Clamp, Scaling, Stage

__all__ = [
    "Operands", "arithmetic", "configure_bn", "configure_bs", "configure_correction", "configure_ew", "configure_out",
    "configure_write", "read_clamp", "read_stage", "stage_fields", "with_arithmetic",
]  # fmt: skip

_NO_MINIMUM, _NO_MAXIMUM = 0x8000_0000, 0x7FFF_FFFF


def _divides(dpu: NamedRegisters) -> bool:
    config = dpu.fields("EW_CFG")
    return not config["ew_bypass"] and not config["ew_div_bypass"]


def arithmetic(dpu: NamedRegisters) -> Precision:
    """The number format of the stages. Divisions are in fp16, and their tasks say INT16: no conversion on the way."""
    precision = dpu.precision("DATA_FORMAT", "proc_precision")
    return Precision.FP16 if precision is Precision.INT16 and _divides(dpu) else precision


def with_arithmetic(readers: rdma.Config, dpu: NamedRegisters) -> rdma.Config:
    """The readers of such a task."""
    if readers.proc_precision is Precision.INT16 and _divides(dpu):
        return replace(readers, precision=Precision.FP16, proc_precision=Precision.FP16)
    return readers


def read_clamp(dpu: NamedRegisters, stage: str, precision: Precision) -> Clamp | None:
    """The clamp of a stage; None where it leaves all values alone.

    The comparison is one of whole numbers: of a float, LIMIT holds what orders as the float does, CLAMP its bits.
    """
    limits, results = (
        (dpu(f"{stage}_{pair}_MINIMUM", "minimum"), dpu(f"{stage}_{pair}_MAXIMUM", "maximum"))
        for pair in ("LIMIT", "CLAMP")
    )
    if limits == (_NO_MINIMUM, _NO_MAXIMUM):
        return None
    if is_float(precision):
        limits = _float_bits(limits[0]), _float_bits(limits[1])
    if results[1] != limits[1]:
        raise UnknownModeError("a clamp whose upper limit is not its result", register=f"{stage}_CLAMP_MAXIMUM")
    lower, below = (
        None if bits == _NO_MINIMUM else constant(BitPattern(bits), precision) for bits in (limits[0], results[0])
    )
    upper = None if limits[1] == _NO_MAXIMUM else constant(BitPattern(limits[1]), precision)
    # Nothing is under a limit that is not there.
    return Clamp(upper, lower, None if lower is None or below == lower else below)


def _float_bits(ordered: int) -> int:
    """-bits(|x|) in two's complement -> the bits of a negative x. -0.5: 0xc1000000 -> 0xbf000000."""
    return ordered if ordered <= _NO_MINIMUM else 0x1_8000_0000 - ordered


def configure_correction(dpu: NamedRegisters, operand: int) -> Correction | None:
    """The zero-point correction by `operand`, or by one per channel; None where it is off."""
    config, per_channel = dpu.fields("BS_CFG"), dpu("BS_MUL_CFG", "cpend_mul_src")
    if config["bs_bypass"] or (config["cpend_alu_bypass"] and config["cpend_mul_bypass"]):
        return None
    if config["cpend_alu_bypass"] or config["cpend_mul_bypass"] or config["cpend_alu_algo"] != AluAlgorithm.ADD:
        raise UnknownModeError("half a zero-point correction is not implemented", register="BS_CFG")
    return Correction(None if per_channel else operand)


class Operands(NamedTuple):
    """What is the same for all channels of BS or BN; 0 for a kind that is not there."""

    addend: BitPattern = BitPattern(0)
    correction: int = 0
    multiplier: BitPattern = BitPattern(0)
    shift: int = 0
    shift_negative: int = 0


def configure_bs(dpu: NamedRegisters, precision: Precision) -> Stage | None:
    """BS without the correction; None if it is bypassed."""
    fields, negative = stage_fields(dpu, "bs", "BS_CFG", "BS_OW_CFG", "BS_MUL_CFG"), dpu.fields("BS_OW_OP")
    operands = Operands(
        BitPattern(dpu("BS_ALU_CFG", "bs_alu_operand")), 0, BitPattern(fields["mul_operand"]),
        fields["mul_shift_value"], negative["bs_mul_shift_value_neg"],
    )  # fmt: skip
    return read_stage(dpu, precision, operands, fields)


def configure_bn(dpu: NamedRegisters, precision: Precision) -> Stage | None:
    """BN; None if it is bypassed."""
    fields, negative = stage_fields(dpu, "bn", "BN_CFG", "BN_MUL_CFG"), dpu.fields("DATA_FORMAT")
    operands = Operands(
        BitPattern(dpu("BN_ALU_CFG", "bn_alu_operand")), 0, BitPattern(fields["mul_operand"]),
        fields["mul_shift_value"], negative["bn_mul_shift_value_neg"],
    )  # fmt: skip
    if fields["truncate_src"] and not fields["bypass"]:
        raise UnknownModeError("this form of BN is not implemented", register="BN_CFG")
    larger = not fields["alu_bypass"] and fields["alu_algo"] == AluAlgorithm.NONE
    return read_stage(dpu, precision, operands, fields, is_norm=True, takes_larger=larger)


def stage_fields(dpu: NamedRegisters, prefix: str, *names: str) -> dict[str, int]:
    """The fields of a stage, whichever registers they are in, without the stage's name."""
    return {field.removeprefix(f"{prefix}_"): value for name in names for field, value in dpu.fields(name).items()}


def read_stage(
    dpu: NamedRegisters, precision: Precision, operands: Operands, fields: Mapping[str, int], *, is_norm: bool = False,
    takes_larger: bool = False,
) -> Stage | None:  # fmt: skip
    """BS, or BN if `is_norm`; None if it is bypassed."""
    name = "BN" if is_norm else "BS"
    clamp = read_clamp(dpu, name, precision)
    if fields["bypass"]:
        return None
    is_known = takes_larger or fields["alu_algo"] == (AluAlgorithm.ADD if is_norm else 1)
    if not fields["alu_bypass"] and not is_known:
        raise UnknownModeError("the adder is on, but its algorithm is unknown", register=f"{name}_CFG")
    scaling = Scaling(
        operand=None if fields["mul_src"] else multiplier(operands.multiplier, precision),
        shift=0 if fields.get("no_shift") else operands.shift,
        shift_negative=0 if fields.get("no_shift") else operands.shift_negative,
        negative_only=bool(fields["mul_prelu"]),
    )
    return Stage(
        adds=not fields["alu_bypass"],
        addend=None if fields["alu_src"] else constant(operands.addend, precision),
        subtracts=False,
        scaling=None if fields["mul_bypass"] else scaling,
        clamp=clamp,
        is_float=is_float(precision),
        adds_first=is_norm,
        takes_larger=takes_larger,
    )


def configure_ew(dpu: NamedRegisters, precision: Precision, table: lut.Config | None) -> ew.Config | None:
    """EW with the lookup table that was read already; None if the stage is bypassed."""
    config, scale = dpu.fields("EW_CFG"), dpu.fields("EW_CVT_SCALE_VALUE")
    offset = dpu("EW_CVT_OFFSET_VALUE", "ew_op_cvt_offset")
    clamp = read_clamp(dpu, "EW", precision)
    values = [dpu(f"EW_OP_VALUE_{number}", "ew_operand") for number in range(5)]
    if config["ew_bypass"]:
        return None
    if any(value not in {0, values[0]} for value in values):  # the first is the operand; Clip leaves 0 in the others
        raise UnknownModeError("different operands per lane are not implemented", register="EW_OP_VALUE_1")
    converter = None
    if not config["ew_op_cvt_bypass"] and not is_float(precision):
        add_first = bool(config["ew_cvt_type"])
        converter = ew.Converter(
            add_first, offset, scale["ew_op_cvt_scale"], scale["ew_op_cvt_shift"], numerics.Rounding.EVEN
        )
    parts = [part for part in ("mul", "div", "alu") if not config[f"ew_{part}_bypass"]]
    factor = None
    if _scales_a_sum(config, parts) and is_float(precision):
        factor, parts = multiplier(BitPattern(values[0]), precision), ["alu"]
    if len(parts) > 1:
        raise UnknownModeError(f"{' and '.join(parts)} at once are not implemented", register="EW_CFG")
    operation = None
    if parts:
        part = parts[0]
        operation = ew.Operation(
            multiplies=part == "mul",
            algorithm=EwAlgorithm.DIV if part == "div" else EwAlgorithm(config["ew_alu_algo"]),
            operand=None if config[f"ew_{part}_src"] else constant(BitPattern(values[0]), precision),
            converter=converter,
            negative_only=False,
            shift=scale["ew_truncate"],
            shift_negative=scale["ew_truncate"],
        )
    return ew.Config(table=table, operation=operation, clamp=clamp, factor=factor)


def _scales_a_sum(config: Mapping[str, int], parts: list[str]) -> bool:
    """Whether EW adds a tensor and then multiplies by its constant, as the square root of fp16 files does.

    The constant is fp16 (0x3800, a half), as those of the other multipliers; constants of the ALU are fp32.
    """
    adds_tensor = bool(config["ew_alu_src"]) and config["ew_alu_algo"] == EwAlgorithm.ADD
    return parts == ["mul", "alu"] and adds_tensor and not config["ew_mul_src"]


def configure_out(dpu: NamedRegisters) -> out_cvt.Config:
    """The output converter."""
    shift = dpu.fields("OUT_CVT_SHIFT")
    precision = dpu.precision("DATA_FORMAT", "out_precision")
    return out_cvt.Config(
        precision=arithmetic(dpu) if _divides(dpu) and precision is Precision.INT16 else precision,
        scale=dpu("OUT_CVT_SCALE", "out_cvt_scale"),
        shift=shift["out_cvt_shift"],
        offset=dpu("OUT_CVT_OFFSET", "out_cvt_offset"),
        add_first=bool(shift["cvt_type"]),
        rounding=numerics.Rounding(shift["cvt_round"]),
        minus_exponent=shift["minus_exp"] + (shift["out_cvt_shift"] if is_float(arithmetic(dpu)) else 0),
    )


def configure_write(
    dpu: NamedRegisters, regroup: Regroup, surf_len: int, run_atoms: int, spread: int, *, notch_bits: int = 16
) -> write.Config:
    """The write DMA. Packed output has a length of `surf_len` atoms; its last atom in every `run_atoms` is cut.

    Uncut, its runs of `spread` bytes begin at whole atoms: the length is that of the runs with their gaps.
    """
    mode, size, atom = dpu.fields("FEATURE_MODE_CFG"), dpu.fields("WDMA_SIZE_1"), dpu.chip.atom_bytes
    if mode["output_mode"] != OutputMode.MEMORY:
        raise UnknownModeError("a result that does not go to memory is not implemented", register="FEATURE_MODE_CFG")
    packed = bool(mode["nonalign"])
    if not packed and mode["rgp_type"]:
        raise UnknownModeError("packed rows without packed output", register="BS_OW_CFG")
    kept, notch = mode["rgp_type"] or None, dpu("DATA_CUBE_NOTCH_ADDR", "notch_addr_0")
    return write.Config(
        address=dpu("DST_BASE_ADDR", "dst_base_addr"),
        per_pixel=dpu("BS_OW_CFG", "size_e_0"),
        width=size["width_wdma"],
        height=size["height_wdma"],
        line_bytes=write.pitch(size["width_wdma"], notch, notch_bits) * atom,
        atom_step_bytes=dpu("DST_SURF_STRIDE", "dst_surf_stride") * atom,
        group_step_bytes=dpu("SURFACE_ADD", "surf_add") * atom,
        packed_bytes=atom if packed else None,
        transposes_atoms=regroup is Regroup.ATOMS,
        transposed_lanes={Regroup.LANES8: 16, Regroup.LANES16: 8}.get(regroup),
        atom_bytes=atom,
        packed_run_bytes=(run_atoms - 1) * atom + kept if kept else None,
        spread_run_bytes=spread if packed and not kept and spread % atom else None,
        packed_limit_bytes=surf_len * atom if packed else None,
    )
