"""DPU, DPU_RDMA and PPU of the chips whose stages end in pairs of bounds: RK3562, and with other sizes its relatives.

    RK3588                                       here
    BS: add, multiply; relu bits                 the zero-point correction and BS have switches of their own; bounds
    BN: (x * m + a) >> n                         ((x + a) * m) >> n
    EW: ALU (divides too) or product             ALU, product and division, each with its own bypass
    residual: two readers by turns               one reader
    bounds: ReLU, ReLUX                          LIMIT (what is compared) and CLAMP (what comes out), two ends each

Every difference was read from files that the vendor's converter made of the same ONNX model for both chips. What a chip
has never been seen to do is refused.
"""

from __future__ import annotations

import struct
from dataclasses import replace

from openrknn.chip.rk3566.encode import pad_sums, signed_pad, single_reader
from openrknn.chip.rk3588.encode import encode_pooling
from openrknn.chip.rk3588.encode_cna import converter_of
from openrknn.chip.rk3588.encode_dpu import (
    BURST,
    Fields,
    bits16,
    bits32,
    encode_constant,
    encode_converters,
    encode_sizes,
    encode_table,
    is_converted,
    line_notch,
    operation_of,
    table_of,
)
from openrknn.chip.rk3588.encode_rdma import encode_walks, notches, repetition, widens
from openrknn.chip.target import Registers
from openrknn.errors import UnsupportedError
from openrknn.isa.enums import AluAlgorithm, EwAlgorithm, EwPart, OutputMode, Precision, Regroup
from openrknn.task import cna, dpu, out_cvt, ppu, rdma
from openrknn.task.formats import element_bytes, is_float
from openrknn.task.kinds import Convolution, Piped
from openrknn.task.place import Address
from openrknn.task.stage import Clamp, Stage

__all__ = [
    "UNWRITTEN_DDMA", "adding_first", "behind", "bounds", "converter", "ddma", "element_wise", "encode_dpu",
    "encode_readers", "joins", "moves_words", "packed_run", "pad_bits", "pooling", "regroup",
    "through_table", "zero_point",
]  # fmt: skip

_FREE = (0x8000_0000, 0x7FFF_FFFF)
"""Bounds that bound nothing."""
_PLUS = 1
"""The code of the addition in BS_CFG."""
_TABLE_BITS = 14
_OPERAND_LANES = 5
_WORD_BYTES = 4

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


def pooling(config: ppu.Config[Address]) -> Registers:
    """PPU and PPU_RDMA."""
    reader: Registers = {"PPU_RDMA.RDMA_DATA_FORMAT": {"in_precision": config.precision, "always": 1}}
    return encode_pooling(config) | pad_sums(config) | reader


# -- what a task asks for ------------------------------------------------------------------------------------------


def _divides(task: Piped) -> bool:
    operation = operation_of(task)
    return operation is not None and not operation.multiplies and operation.algorithm is EwAlgorithm.DIV


def joins(task: Piped) -> bool:
    """Whether there is a second operand."""
    return task.reader is not None and task.reader.operand is not None


def _repeats(task: Piped) -> bool:
    return task.reader is not None and task.reader.repeats


def regroup(task: Piped) -> Regroup:
    """What becomes of the atoms before they are written."""
    write = task.dpu.write
    if write.packed_run_bytes is not None:
        return Regroup.PACKED
    if write.transposed_lanes is not None:
        return Regroup.LANES16 if write.transposed_lanes == 8 else Regroup.LANES8
    return Regroup.ATOMS if write.transposes_atoms else Regroup.NONE


def moves_words(task: Piped) -> bool:
    """Whether atoms are put into another order as words of 32 bits."""
    return task.dpu.precision is Precision.INT32 and regroup(task) is not Regroup.NONE


def packed_run(task: Piped) -> int:
    """Bytes of a run of packed output, if it has runs."""
    write = task.dpu.write
    return write.spread_run_bytes or (write.atom_bytes if write.packed_run_bytes is not None else 0)


def adding_first(stage: Stage | None, precision: Precision) -> Stage | None:
    """x * m + a as (x + b) * m: b = a / m."""
    if stage is None or stage.adds_first:
        return stage
    scaling, addend = stage.scaling, stage.addend
    if not stage.adds or scaling is None or not addend:
        return replace(stage, adds_first=True)
    if scaling.operand is None:
        raise UnsupportedError("the chip adds before it multiplies, and the multipliers are one per channel")
    if is_float(precision):
        (number,), (factor,) = (struct.unpack(form, struct.pack(form, value))
                                for form, value in (("<f", addend), ("<e", scaling.operand)))  # fmt: skip
        return replace(stage, addend=number / factor, adds_first=True)
    quotient, rest = divmod(int(addend), int(scaling.operand))
    if rest:
        raise UnsupportedError("the chip adds before it multiplies, and the sum has no whole number for it")
    return replace(stage, addend=quotient, adds_first=True)


def through_table(config: dpu.Config[Address]) -> out_cvt.Config:
    """The output converter. Floats leave a table through that of whole numbers: * 2^14 >> 14."""
    out = config.out
    if table_of(config) is None or config.precision is not Precision.FP16 or out.shift:
        return out
    more = out.minus_exponent + _TABLE_BITS
    return replace(out, scale=1 << _TABLE_BITS, shift=_TABLE_BITS, offset=1, minus_exponent=more)


# -- DPU -----------------------------------------------------------------------------------------------------------


def encode_dpu(task: Piped, quads: int) -> Registers:
    """The DPU; `quads`: sets of four channels that are written together."""
    config = replace(task.dpu, out=through_table(task.dpu), norm=adding_first(task.dpu.norm, task.dpu.precision))
    write, out, norm, precision = config.write, config.out, config.norm, config.precision
    repeats, is_packed, channels = _repeats(task), write.packed_bytes is not None, config.real_channels
    form, out_form = precision, out.precision
    if _divides(task):  # fp16 all the way, which the formats call INT16
        form = out_form = Precision.INT16
    scaling = None if norm is None else norm.scaling
    registers: Registers = {
        **encode_sizes(task), **encode_converters(config), **encode_table(config), **_bs(config),
        **_bn(norm, precision), **element_wise(task), **encode_constant(task, _OPERAND_LANES),
        "DPU.FEATURE_MODE_CFG": {
            "flying_mode": int(config.flying), "output_mode": OutputMode.MEMORY, "burst_len": BURST,
            "nonalign": int(is_packed), "rgp_type": (write.packed_run_bytes or 0) % write.atom_bytes,
        },
        "DPU.DATA_FORMAT": {
            "proc_precision": form, "out_precision": out_form,
            "bn_mul_shift_value_neg": 0 if scaling is None else scaling.shift_negative,
        },
        "DPU.DATA_CUBE_CHANNEL": {"orig_channel": channels},
        "DPU.DATA_CUBE_NOTCH_ADDR": {"notch_addr_0": line_notch(config) & 0xFFFF},
        "DPU.WDMA_SIZE_0": {"group": 1 if repeats else quads},
        "DPU.OUT_CVT_SCALE": {"out_cvt_scale": out.scale, "fp32tofp16_en": int(_narrows(task))},
    }  # fmt: skip
    registers["DPU.BS_OW_CFG"] |= {
        "regroup": regroup(task), "size_e_0": write.per_pixel, "size_e_1": write.per_pixel,
        "size_e_2": 1 if repeats else write.per_pixel,
    }  # fmt: skip
    if is_float(precision):
        registers["DPU.OUT_CVT_SHIFT"]["minus_exp"] = max(0, out.minus_exponent - out.shift)
    if _divides(task):
        registers["DPU.EW_CFG"]["ew_op_cvt_bypass"] = 1
    if repeats:
        registers["DPU.SURFACE_ADD"] = {"surf_add": write.per_pixel * write.width * write.height}
    return registers


def _narrows(task: Piped) -> bool:
    """Whether the output converter makes 16 bits of 32."""
    config = task.dpu
    if _repeats(task) or element_bytes(config.precision) == _WORD_BYTES:
        return True
    if _divides(task):
        return False
    if config.reduction or (config.precision is Precision.INT8 and (config.flying or joins(task))):
        return True
    floats = Precision.FP16 in {config.precision, config.out.precision}
    return floats and is_converted(config) and not task.is_narrow


def bounds(name: str, clamp: Clamp | None, precision: Precision) -> Registers:
    """A clamp as LIMIT and CLAMP, two ends each; floats are compared as whole numbers that order as they do."""
    low = None if clamp is None else clamp.lower
    high = None if clamp is None else clamp.upper
    below = low if clamp is None or clamp.below is None else clamp.below
    results = (_FREE[0] if below is None else bits32(below, precision),
               _FREE[1] if high is None else bits32(high, precision))  # fmt: skip
    limits = (_FREE[0] if low is None else bits32(low, precision), results[1])
    if is_float(precision):
        limits = tuple(bits if bits <= _FREE[0] else 0x1_8000_0000 - bits for bits in limits)  # type: ignore[assignment]
    return {
        f"DPU.{name}_{pair}_{end}": {end.lower(): value}
        for pair, ends in (("LIMIT", limits), ("CLAMP", results))
        for end, value in zip(("MINIMUM", "MAXIMUM"), ends, strict=True)
    }


def _bs(config: dpu.Config[Address]) -> Registers:
    stage, correction = config.bias, config.correction if config.bias is not None else None
    adds, scaling = stage is not None and stage.adds, None if stage is None else stage.scaling
    addend = stage.addend if stage is not None and adds else 0
    factor = 0 if scaling is None or scaling.operand is None else bits16(scaling.operand, config.precision)
    return bounds("BS", None if stage is None else stage.clamp, config.precision) | {
        "DPU.BS_CFG": {
            "bs_bypass": int(stage is None), "cpend_alu_bypass": int(correction is None),
            "cpend_mul_bypass": int(correction is None), "bs_alu_bypass": int(not adds),
            "bs_alu_src": int(addend is None), "bs_mul_shift_value": 0 if scaling is None else scaling.shift,
            "cpend_alu_algo": AluAlgorithm.NONE if correction is None else AluAlgorithm.ADD,
            "bs_alu_algo": _PLUS if adds else 0,
        },
        "DPU.BS_ALU_CFG": {"bs_alu_operand": bits32(addend or 0, config.precision)},
        "DPU.BS_MUL_CFG": {
            "cpend_mul_src": int(correction is not None and correction.operand is None),
            "bs_mul_prelu": int(scaling is not None and scaling.negative_only), "bs_mul_operand": factor,
        },
        "DPU.BS_OW_CFG": {
            "bs_mul_src": int(scaling is not None and scaling.operand is None), "bs_mul_bypass": int(scaling is None),
        },
        "DPU.BS_OW_OP": {
            "bs_mul_shift_value_neg": 0 if scaling is None else scaling.shift_negative,
            "cpend_en": int(correction is not None), "ow_op": (correction and correction.operand) or 0,
        },
    }  # fmt: skip


def _bn(stage: Stage | None, precision: Precision) -> Registers:
    adds, scaling = stage is not None and stage.adds, None if stage is None else stage.scaling
    addend = stage.addend if stage is not None and adds else 0
    larger = stage is not None and stage.takes_larger
    factor = 0 if scaling is None or scaling.operand is None else bits16(scaling.operand, precision)
    return bounds("BN", None if stage is None else stage.clamp, precision) | {
        "DPU.BN_CFG": {
            "bn_bypass": int(stage is None), "bn_alu_bypass": int(not adds), "bn_mul_bypass": int(scaling is None),
            "bn_mul_prelu": int(scaling is not None and scaling.negative_only), "bn_alu_src": int(addend is None),
            "bn_alu_algo": AluAlgorithm.ADD if adds and not larger else AluAlgorithm.NONE,
        },
        "DPU.BN_ALU_CFG": {"bn_alu_operand": bits32(addend or 0, precision)},
        "DPU.BN_MUL_CFG": {
            "bn_mul_shift_value": 0 if scaling is None else scaling.shift,
            "bn_mul_src": int(scaling is not None and scaling.operand is None), "bn_mul_operand": factor,
        },
    }  # fmt: skip


def element_wise(task: Piped) -> Registers:
    """EW: the ALU, the product or the division, and its bounds."""
    config, operation, precision = task.dpu.element_wise, operation_of(task), task.dpu.precision
    part = None
    if operation is not None:
        part = EwPart.MUL if operation.multiplies else EwPart.DIV if _divides(task) else EwPart.ALU
    converter = None if operation is None else operation.converter
    converts = operation is not None and (converter is not None or is_float(precision)) and not task.is_narrow
    is_plain = part is EwPart.MUL and precision is Precision.FP16
    made: Fields = {
        "ew_bypass": int(config is None), "ew_op_type": part or EwPart.ALU,
        "ew_lut_bypass": int(config is None or config.table is None),
        "ew_op_cvt_bypass": int(not converts or is_plain),
        "ew_cvt_type": int(converter is not None and converter.add_first),
        "ew_alu_algo": operation.algorithm if operation is not None and part is EwPart.ALU else EwAlgorithm.MAX,
    }  # fmt: skip
    for each in EwPart:
        made[f"ew_{each.name.lower()}_bypass"] = int(each is not part)
        made[f"ew_{each.name.lower()}_src"] = int(each is part and joins(task))
    if config is not None and config.factor is not None:  # the square root of fp16 files adds and multiplies
        made["ew_mul_bypass"] = 0
        values: Registers = {"DPU.EW_OP_VALUE_0": {"ew_operand": bits16(config.factor, precision)}}
        return {"DPU.EW_CFG": made, **values, **bounds("EW", config.clamp, precision)}
    return {"DPU.EW_CFG": made, **bounds("EW", None if config is None else config.clamp, precision)}


# -- CNA -----------------------------------------------------------------------------------------------------------


def pad_bits(source: cna.Config[Address]) -> int:
    """The pad value: RK3588 repeats the byte for depthwise; here it is one number."""
    is_byte = source.precision is Precision.INT8
    return signed_pad(source.pad_bits, source.precision) & 0xFFFF_FFFF if is_byte else source.pad_bits


def converter(source: cna.Config[Address]) -> Registers:
    """Scales and offsets of the input converter; maps need a bit for each lane."""
    lanes = converter_of(source)
    scales = {f"cvt_scale{lane}": scale for lane, scale in enumerate(lanes.scales)}
    return {
        "CNA.CVT_SCALE01": {name: scales[name] for name in ("cvt_scale0", "cvt_scale1")},
        "CNA.CVT_SCALE23": {name: scales[name] for name in ("cvt_scale2", "cvt_scale3")},
        **{f"CNA.CVT_OFFSET{lane}": {"cvt_offset": offset} for lane, offset in enumerate(lanes.offsets)},
        "CNA.CVT_LANES": {"cvt_lanes": 0xFFFF_FFFF if source.converter and not source.packed_channels else 0},
    }


def zero_point(source: cna.Config[Address]) -> Registers:
    """Of all depthwise weights; those of each stand between the weights else."""
    byte = source.weight_offset & 0xFF
    return {"CNA.DW_ZERO_POINT": {"negated": byte, "negated_1": byte}}


def behind(source: cna.Config[Address]) -> Fields:
    """Pad values below and to the right: what windows reach beyond the data."""
    rows = (source.out_height - 1) * source.stride_y + (source.kernel_height - 1) * source.dilation_y
    columns = (source.out_width - 1) * source.stride_x + (source.kernel_width - 1) * source.dilation_x
    return {
        "pad_bottom": max(0, rows - source.pad_top - (source.height - 1) * source.spread_y),
        "pad_right": max(0, columns - source.pad_left - (source.width - 1) * source.spread_x),
    }


# -- DPU_RDMA ------------------------------------------------------------------------------------------------------


def encode_readers(task: Piped, given: rdma.Config[Address]) -> Registers:
    """DPU_RDMA but for its number formats; the operand of a convolution comes through one reader."""
    reader = single_reader(task, given)
    registers = encode_walks(task, reader)
    line = 0 if reader.main is None else notches(reader, reader.main)[0]
    if isinstance(task, Convolution) and reader.operand is not None:
        registers["DPU_RDMA.RDMA_SURF_NOTCH"] = {"surf_notch_addr": notches(reader, reader.operand.walk)[1]}
    if reader.repeats:
        registers["DPU_RDMA.RDMA_DATA_CUBE_CHANNEL"] = {"channel": reader.atom_bytes // _WORD_BYTES}
    precision, proc = reader.precision, reader.proc_precision
    if _divides(task):
        precision = proc = Precision.INT16
    elif reader.repeats:
        precision = Precision.INT32
    return registers | {
        "DPU_RDMA.RDMA_LINE_NOTCH": {"line_notch_addr": line},
        "DPU_RDMA.RDMA_SRC_DMA_CFG": repetition(reader),
        "DPU_RDMA.RDMA_FEATURE_MODE_CFG": {
            "flying_mode": int(task.dpu.flying), "mrdma_fp16tofp32_en": int(_widens(task, reader, precision)),
            "mrdma_disable": int(not task.dpu.flying), "proc_precision": proc, "in_precision": precision,
            "burst_len": BURST, "comb_use": 0 if isinstance(task, Convolution) else reader.combine,
        },
    }  # fmt: skip


def _widens(task: Piped, reader: rdma.Config[Address], precision: Precision) -> bool:
    """Whether the readers make 32 bits of what they fetch."""
    if _divides(task):
        return False
    if element_bytes(reader.precision) == _WORD_BYTES:
        return task.dpu.flying
    is_int8 = reader.proc_precision is Precision.INT8 and precision in {Precision.INT8, Precision.INT32}
    if is_int8 or joins(task) or task.dpu.reduction:
        return task.dpu.flying or joins(task)
    return widens(task)
