"""Borders between int8 and fp16: one task of the DPU that reads one format and writes the other.

    int8 -> fp16   integers: (stored - zero point) * scale, as the vendor's exDataConvert does it
    fp16 -> int8   floats: real / scale + zero point, rounded and saturated when it is written, as at the end of the
                   vendor's exNorm: an int8 atom is two of fp16, so one reader has the even ones, the other the odd ones
"""

from __future__ import annotations

import math

from openrknn.compiler.formats import align
from openrknn.compiler.ir import Op, Quantization
from openrknn.compiler.lower.context import Lowering
from openrknn.compiler.program import ELEMENTWISE, Place, Registers, Task
from openrknn.compiler.recipes.base import merge
from openrknn.compiler.recipes.elementwise import Cube, elementwise_registers
from openrknn.compiler.recipes.finish import Finish, fp16_bits, fp32_bits
from openrknn.compiler.recipes.fixed_point import factor
from openrknn.isa import Precision
from openrknn.isa.enums import AluAlgorithm, CombineUse, OperandMode, PixelBits

__all__ = ["lower_convert"]

_EXPONENT = 14
"""The vendor's power of two between the integers of the pipe and the numbers that are written."""
_STEPS = 32
"""Units of the pipe for one step of int8, at least: rounding to them must not show."""
_LARGEST_FP16_POWER = 15
_RATIO = 2
"""Bytes of fp16 for one of int8."""


def lower_convert(low: Lowering, op: Op) -> None:
    """One task; the channels of an int8 atom are two atoms in fp16.

    Every fp16 map has room for whole pairs, and windows start at one: mixed graphs are normalised for int8.
    """
    source, target = low.quantization(op.inputs[0]), low.quantization(op.output)
    step = low.step(op, "exDataConvert")
    channels, rows, columns = low.tensor(op.output).cube
    int8, fp16 = low.target.int8, low.target.fp16
    size = align(channels, int8.atom), rows, columns
    pitch = low.tensor(op.output).pitch
    if source is not None and target is None and low.target.casts_first:
        for task in _cast(low, op, source):
            low.add_rows(step, task)
        return
    if source is not None and target is None:
        form, finish = int8, _to_fp16(source)
        written = align(channels, fp16.atom)
        finish["DPU.SURFACE_ADD"] = {"surf_add": _RATIO * pitch}
        finish["DPU.BS_OW_CFG"] = {"size_e_0": _RATIO, "size_e_1": _RATIO, "size_e_2": _RATIO}
    else:
        assert target is not None
        form, finish, written = fp16, _to_int8(target), size[0]
        merge(finish, _pairs(low.cube(op.inputs[0]), rows * columns, fp16.atom_bytes))
    finish["DPU.DATA_CUBE_CHANNEL"] = {"orig_channel": written}
    registers = elementwise_registers(form, size, low.cube(op.inputs[0]), low.cube(op.output), finish)
    low.add_rows(step, Task(ELEMENTWISE, registers))


def _cast(low: Lowering, op: Op, source: Quantization) -> list[Task]:
    """The stored numbers as floats, then in place (x - zero point) * scale; the scale as two factors."""
    channels, rows, columns = low.tensor(op.output).cube
    pitch, int8, fp16 = low.tensor(op.output).pitch, low.target.int8, low.target.fp16
    target = low.cube(op.output)
    plain: Registers = {
        "DPU.DATA_FORMAT": {"out_precision": fp16.precision},
        "DPU.OUT_CVT_SCALE": {"fp32tofp16_en": 1},
        "DPU.SURFACE_ADD": {"surf_add": _RATIO * pitch},
        "DPU.BS_OW_CFG": {"size_e_0": _RATIO, "size_e_1": _RATIO, "size_e_2": _RATIO},
        "DPU.DATA_CUBE_CHANNEL": {"orig_channel": align(channels, fp16.atom)},
    }
    finish = Finish(1.0, None, flying=True)
    finish.add(-float(source.zero_point))
    finish.multiply(source.scale)
    size = align(channels, int8.atom), rows, columns
    return [
        Task(ELEMENTWISE, elementwise_registers(int8, size, low.cube(op.inputs[0]), target, plain)),
        Task(ELEMENTWISE, elementwise_registers(fp16, (channels, rows, columns), target, target, finish.registers)),
    ]


def _to_fp16(source: Quantization) -> Registers:
    exponent = max(_EXPONENT, math.ceil(math.log2(_STEPS / source.scale)))
    multiplier, shift = factor(source.scale * 2.0**exponent)
    if shift < 0:  # steps of more than one: the multiplier has room
        shift, exponent = 0, exponent + shift
    return {
        "DPU.DATA_FORMAT": {"out_precision": Precision.FP16},
        "DPU.BN_CFG": {"bn_bypass": 0, "bn_alu_bypass": 0, "bn_alu_algo": AluAlgorithm.ADD},
        "DPU.BN_ALU_CFG": {"bn_alu_operand": -source.zero_point & 0xFFFFFFFF},
        # The vendor's streams have the offset 1 wherever integers become floats; it is not added.
        "DPU.OUT_CVT_OFFSET": {"out_cvt_offset": 1},
        "DPU.OUT_CVT_SCALE": {"out_cvt_scale": multiplier, "fp32tofp16_en": 1},
        "DPU.OUT_CVT_SHIFT": {"out_cvt_shift": shift, "minus_exp": exponent},
    }


def _to_int8(target: Quantization) -> Registers:
    """The factor is fp16; what is beyond its range is left to the second multiplier, a power of two."""
    gain = 1 / target.scale
    power = max(0, math.frexp(gain)[1] - _LARGEST_FP16_POWER)
    registers: Registers = {
        "DPU.DATA_FORMAT": {"out_precision": Precision.INT8},
        "DPU.BS_CFG": {"bs_bypass": 0, "bs_mul_bypass": 0},
        "DPU.BS_MUL_CFG": {"bs_mul_operand": fp16_bits(gain / 2.0**power)},
        "DPU.BN_CFG": {"bn_bypass": 0, "bn_alu_bypass": 0, "bn_alu_algo": AluAlgorithm.ADD},
        "DPU.BN_ALU_CFG": {"bn_alu_operand": fp32_bits(float(target.zero_point))},
    }
    if power:
        registers["DPU.BN_CFG"]["bn_mul_bypass"] = 0
        registers["DPU.BN_MUL_CFG"] = {"bn_mul_operand": fp16_bits(2.0**power)}
    return registers


def _pairs(source: Cube, pixels: int, atom_bytes: int) -> Registers:
    """Even surfaces come as the main numbers, odd ones through the reader of the second operand."""
    place, pitch = source.place, source.pitch
    return {
        "DPU.FEATURE_MODE_CFG": {"comb_use": 1},
        "DPU_RDMA.RDMA_FEATURE_MODE_CFG": {"comb_use": CombineUse.ENABLE | CombineUse.MAIN},
        "DPU_RDMA.RDMA_SURF_NOTCH": {"surf_notch_addr": _RATIO * pitch - pixels},
        "DPU_RDMA.RDMA_ERDMA_CFG": {
            "erdma_disable": 0, "erdma_data_size": PixelBits.BITS16, "erdma_data_mode": OperandMode.PER_PIXEL,
        },
        "DPU_RDMA.RDMA_EW_BASE_ADDR": {"ew_base_addr": Place(place.tensor, place.offset + pitch * atom_bytes)},
        "DPU_RDMA.RDMA_EW_SURF_STRIDE": {"ew_surf_stride": _RATIO * pitch},
        "DPU_RDMA.RDMA_EW_SURF_NOTCH": {"ew_surf_notch": _RATIO * pitch - pixels},
    }  # fmt: skip
