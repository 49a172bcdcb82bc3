"""What the battery asks: each case is a task on data that make one rule visible.

Compressed weights are not among them: their form is known from files alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from openrknn.chip.rk3588 import cna, core, dpu, dpu_lut, dpu_rdma, dpu_stages
from openrknn.isa import Register
from openrknn.isa.enums import (
    AluAlgorithm,
    EwAlgorithm,
    EwOperation,
    OperandMode,
    PixelBits,
    PoolingMethod,
    Rounding,
)
from openrknn.verify import streams

Bytes: TypeAlias = npt.NDArray[np.uint8]
_PIXELS = 64
_ATOM = 16
_HALVES = 8
"""fp16 channels of an atom."""


@dataclass(frozen=True)
class Case:
    """One task; `words` gets the addresses of source, weights and target."""

    name: str
    question: str
    source: Bytes
    weights: Bytes
    target_bytes: int
    enable: int
    words: Callable[[int, int, int], list[int]]
    int_mask: int = 0x300
    fill: int = 0
    """What is in every byte of the target before."""
    first: Callable[[int, int, int], list[int]] | None = None
    """A task that runs before it, in the same job and without ping-pong."""


def _ramp() -> Bytes:
    """Every int8 value four times, spread over channels and pixels."""
    return np.resize(np.arange(-128, 128, dtype=np.int8), _PIXELS * _ATOM).view(np.uint8)


def _noise(count: int, seed: int) -> Bytes:
    return np.random.default_rng(seed).integers(0, 256, count, np.uint8)


def _scaled_bias(multiplier: int, shift: int, shift_negative: int) -> tuple[Register, ...]:
    return (
        dpu_stages.BsCfg.of(bs_alu_bypass=True, bs_relu_bypass=True),
        dpu_stages.BsMulCfg.of(bs_mul_operand=multiplier, bs_mul_shift_value=shift),
        dpu.DataFormat.of(bs_mul_shift_value_neg=shift_negative),
    )


def _element(name: str, question: str, *changes: Register) -> Case:
    return Case(
        name,
        question,
        _ramp(),
        np.zeros(_ATOM, np.uint8),
        _PIXELS * _ATOM,
        streams.ELEMENT_WISE,
        lambda source, _, target: streams.element_wise(source, target, _PIXELS, *changes),
    )


def _convolution(name: str, question: str, *changes: Register) -> Case:
    return Case(
        name,
        question,
        _noise(_PIXELS * _ATOM, 1),
        _noise(32 * _ATOM, 2),
        2 * _PIXELS * _ATOM,
        streams.CONVOLUTION,
        lambda source, weights, target: streams.convolution(source, weights, target, _PIXELS, *changes),
    )


AVERAGED = {kernel: streams.reciprocal(kernel) for kernel in (2, 3)}
"""What an average is multiplied with along each axis, times 2^16."""


def _pooling(name: str, question: str, method: PoolingMethod, kernel: int) -> Case:
    width = _PIXELS // kernel * kernel
    return Case(
        name,
        question,
        _noise(width * kernel * _ATOM, 3),
        np.zeros(_ATOM, np.uint8),
        width // kernel * _ATOM,
        streams.POOLING,
        lambda source, _, target: streams.pooling(source, target, width, method, kernel),
        int_mask=0xC00,
    )


def _halves() -> Bytes:
    """All exponents of fp16 with a few fractions and both signs: zeros, denormals, infinities and NaN among them."""
    bits = np.arange(0, 1 << 16, 1 << 6, dtype=np.uint32) + np.arange(1024) % 7
    return np.resize(bits.astype("<u2"), _PIXELS * _HALVES).view(np.uint8)


def _half(name: str, question: str, *changes: Register) -> Case:
    return Case(
        name,
        question,
        _halves(),
        np.zeros(_ATOM, np.uint8),
        _PIXELS * _ATOM,
        streams.ELEMENT_WISE,
        lambda source, _, target: streams.element_wise(source, target, _PIXELS, *streams.HALVES, *changes),
    )


def _half_product(factor: int) -> tuple[Register, ...]:
    return (
        dpu_stages.BsCfg.of(bs_alu_bypass=True, bs_relu_bypass=True),
        dpu_stages.BsMulCfg.of(bs_mul_operand=factor),
    )


def _half_convolution(name: str, question: str) -> Case:
    """Numbers of very different size, whose sums lose bits wherever they are rounded."""
    dice = np.random.default_rng(4)
    size = np.exp2(dice.integers(-10, 8, (_PIXELS, _HALVES)))
    source = (dice.standard_normal((_PIXELS, _HALVES)) * size).astype("<f2")
    weights = dice.standard_normal(16 * _HALVES).astype("<f2")
    return Case(
        name,
        question,
        source.view(np.uint8).reshape(-1),
        weights.view(np.uint8),
        2 * _PIXELS * _ATOM,
        streams.CONVOLUTION,
        lambda source, weights, target: streams.convolution(
            source, weights, target, _PIXELS, *streams.HALF_CONVOLUTION
        ),
    )


TABLES = np.random.default_rng(5).integers(-100, 101, (2, 513))
BEYOND_BELOW, BEYOND_ABOVE = (-13, 9), (11, 8)
"""Scale and shift of the slopes: odd ones, so that results end between two numbers."""


LOOKUP_FACTOR = {"lookup": 97, "lookup_beyond": 201}
"""What int8 numbers are multiplied with: inside the tables, and beyond their ends."""
HALF_TABLE_FACTOR = 96.5


def _lookup(name: str, question: str) -> Case:
    """int8 times a number is looked up in tables of noise that needs no scaling afterwards."""
    below, above = BEYOND_BELOW, BEYOND_ABOVE
    changes = (
        *streams.LOOKUP,
        *_scaled_bias(LOOKUP_FACTOR[name], 0, 0),
        dpu_lut.LutLeSlopeScale.of(lut_le_slope_uflow_scale=below[0]),
        dpu_lut.LutLeSlopeShift.of(lut_le_slope_uflow_shift=below[1]),
        dpu_lut.LutLoSlopeScale.of(lut_lo_slope_oflow_scale=above[0]),
        dpu_lut.LutLoSlopeShift.of(lut_lo_slope_oflow_shift=above[1]),
    )
    return replace(
        _element(name, question, *changes),
        first=lambda source, weights, target: streams.table_load(weights, TABLES.tolist()),
    )


def _half_lookup(name: str, question: str) -> Case:
    """fp16 numbers times a number, with fractions, are looked up in the same tables."""
    factor = int(np.float16(HALF_TABLE_FACTOR).view(np.uint16))
    numbers = np.linspace(-160, 160, _PIXELS * _HALVES).astype("<f2")
    return replace(
        _half(name, question, *streams.LOOKUP, *_half_product(factor)),
        source=numbers.view(np.uint8),
        first=lambda source, weights, target: streams.table_load(weights, TABLES.tolist()),
    )


def _operated(name: str, question: str, *changes: Register) -> Case:
    """The ramp and an operand of noise through EW."""

    def words(source: int, weights: int, target: int) -> list[int]:
        operand = dpu_rdma.EwBaseAddr.of(ew_base_addr=weights)
        return streams.element_wise(source, target, _PIXELS, *streams.OPERAND, operand, *changes)

    return replace(_element(name, question), weights=_noise(_PIXELS * _ATOM, 6), words=words)


def _converted_operand(name: str, question: str, rounding: Rounding) -> Case:
    """0 + (e * 3 >> 2)."""
    case = _operated(
        name,
        question,
        dpu_stages.EwCfg.of(ew_op_src=True, ew_lut_bypass=True, ew_relu_bypass=True, ew_alu_algo=EwAlgorithm.ADD,
                            edata_size=PixelBits.BITS8, ew_data_mode=OperandMode.PER_PIXEL, ew_cvt_round=rounding),
        dpu_stages.EwCvtScaleValue.of(ew_op_cvt_scale=3, ew_op_cvt_shift=2),
    )  # fmt: skip
    return replace(case, source=np.zeros(_PIXELS * _ATOM, np.uint8), weights=_ramp())


def _identity(name: str, question: str, *changes: Register) -> Case:
    """The ramp through a convolution with ones on the diagonal: 16 channels to themselves, 16 kernels more with 0."""
    weights = np.zeros((32, _ATOM), np.uint8)
    weights[:_ATOM] = np.eye(_ATOM, dtype=np.uint8)
    case = _convolution(name, question, *changes)
    return replace(case, source=_ramp(), weights=weights.reshape(-1), target_bytes=_PIXELS * _ATOM)


def _converted_input(rounding: Rounding) -> tuple[Register, ...]:
    """x * 3 >> 2 in every channel."""
    shifts = {f"cvt_truncate_{lane}": 2 for lane in range(4)}
    scales = (cna.CvtCon1, cna.CvtCon2, cna.CvtCon3, cna.CvtCon4)
    return (
        cna.CvtCon0.of(cvt_type=True, round_type=rounding, data_sign=True, **shifts),
        *(register.of(**{f"cvt_scale{lane}": 3}) for lane, register in enumerate(scales)),
        cna.CvtCon5.of(per_channel_cvt_en=0xFFFF),
    )


def _half_to_int8() -> Case:
    """Multiples of 1/8 in fp16, written as int8: halves and others, of both signs."""
    numbers = (np.resize(np.arange(-512, 512), _PIXELS * _HALVES) / 8).astype("<f2")
    case = _half("half_to_int8", "fp16 to int8: how is it rounded?", *streams.HALF_TO_INT8)
    return replace(case, source=numbers.view(np.uint8))


def _kept_registers() -> Case:
    """The first task writes everything, and its result beside; the second one only what is different."""

    def first(source: int, weights: int, target: int) -> list[int]:
        return streams.element_wise(source, weights, _PIXELS, dpu_stages.OutCvtScale.of(out_cvt_scale=3))

    def second(source: int, weights: int, target: int) -> list[int]:
        changes = dpu.DstBaseAddr.of(dst_base_addr=target), dpu_stages.OutCvtOffset.of(out_cvt_offset=5)
        return streams.rest_of_element_wise(*changes)

    question = "without ping-pong: does the next task find the registers of the one before?"
    case = _element("kept_registers", question)
    return replace(case, weights=np.zeros(case.target_bytes, np.uint8), words=second, first=first)


PICTURE = (32, 64)
"""Rows and columns: 16 bytes to a pixel fill one bank of the buffer, 32 bytes two of them."""


def _picture_room() -> Case:
    """The vendor's converter would give it two banks; where it needs them, rows overwrite each other."""
    pixels = PICTURE[0] * PICTURE[1]
    dice = np.random.default_rng(7)
    return Case(
        "picture_room",
        "fp16 picture: is one bank enough for 2048 pixels?",
        dice.integers(-8, 9, 3 * pixels).astype("<f2").view(np.uint8),
        dice.integers(-8, 9, 32 * _HALVES).astype("<f2").view(np.uint8),
        4 * pixels * _ATOM,
        streams.CONVOLUTION,
        lambda source, weights, target: streams.half_picture(source, weights, target, *PICTURE),
    )


CASES: tuple[Case, ...] = (
    _element("copy", "does an idle DPU hand int8 data through?"),
    _element("bs_ties", "BS shift: do halves go to even?", *_scaled_bias(1, 1, 1)),
    _element("bs_ties_2", "BS shift by two: quarters and halves", *_scaled_bias(3, 2, 2)),
    _element("bs_negative_shift", "BS: is the shift of negative products its own?", *_scaled_bias(4, 0, 4)),
    _element(
        "bs_relu",
        "BS clamp: max(x, 0)",
        dpu_stages.BsCfg.of(bs_alu_bypass=True, bs_mul_bypass=True),
    ),
    _element(
        "bn_ties",
        "BN: is the addend in unshifted units, and do halves go to even?",
        dpu_stages.BnCfg.of(bn_relu_bypass=True, bn_alu_algo=AluAlgorithm.ADD),
        dpu_stages.BnAluCfg.of(bn_alu_operand=5),
        dpu_stages.BnMulCfg.of(bn_mul_operand=3, bn_mul_shift_value=3),
        dpu.DataFormat.of(bn_mul_shift_value_neg=3),
    ),
    _element(
        "bn_leaky",
        "BN on negative numbers only: are positive numbers shifted as well?",
        dpu_stages.BnCfg.of(bn_alu_bypass=True, bn_relu_bypass=True, bn_mul_prelu=True),
        dpu_stages.BnMulCfg.of(bn_mul_operand=3, bn_mul_shift_value=2),
        dpu.DataFormat.of(bn_mul_shift_value_neg=2),
    ),
    _element(
        "out_ties",
        "output converter: do halves go to even?",
        dpu_stages.OutCvtScale.of(out_cvt_scale=1),
        dpu_stages.OutCvtShift.of(out_cvt_shift=1),
        dpu_stages.OutCvtOffset.of(out_cvt_offset=3),
    ),
    _element(
        "out_ties_bit",
        "output converter with its round bit: do halves go up, or away from zero?",
        dpu_stages.OutCvtShift.of(out_cvt_shift=2, cvt_round=1),
    ),
    _element(
        "out_add_first",
        "output converter type 1: is the offset added before the scale?",
        dpu_stages.OutCvtScale.of(out_cvt_scale=5),
        dpu_stages.OutCvtShift.of(out_cvt_shift=2, cvt_type=True),
        dpu_stages.OutCvtOffset.of(out_cvt_offset=1),
    ),
    _element(
        "out_saturation",
        "output converter: saturation, not wrap",
        dpu_stages.OutCvtScale.of(out_cvt_scale=3),
    ),
    _convolution(
        "accumulator",
        "a 1 x 1 convolution, scaled down",
        dpu_stages.OutCvtShift.of(out_cvt_shift=9),
    ),
    _convolution(
        "lines_of_four",
        "do lines come four at a time, so that the pitch of four does not matter for two?",
        *streams.TWO_LINES,
        dpu_stages.OutCvtShift.of(out_cvt_shift=9),
    ),
    _converted_operand("ew_converter", "EW operand: how is its conversion rounded?", Rounding.TIES_TO_EVEN),
    _converted_operand("ew_converter_bit", "EW operand: what does the round bit do?", Rounding.TIES_AWAY),
    _operated(
        "ew_product",
        "EW product: how is its shift rounded?",
        dpu_stages.EwCfg.of(ew_op_type=EwOperation.MUL, ew_op_src=True, ew_lut_bypass=True, ew_op_cvt_bypass=True,
                            ew_relu_bypass=True, edata_size=PixelBits.BITS8, ew_data_mode=OperandMode.PER_PIXEL),
        dpu_stages.EwCvtScaleValue.of(ew_op_cvt_scale=1, ew_truncate=3),
        dpu.DataFormat.of(ew_truncate_neg=3),
    ),
    _identity("input_converter", "input converter: how is it rounded?", *_converted_input(Rounding.TIES_TO_EVEN)),
    _identity("input_converter_bit", "input converter: what does the round bit do?",
              *_converted_input(Rounding.TIES_AWAY)),
    _identity("truncate_ties", "CLIP_TRUNCATE: how is it rounded?", core.ClipTruncate.of(clip_truncate=1)),
    _identity("truncate_ties_bit", "CLIP_TRUNCATE: what does the round bit do?",
              core.ClipTruncate.of(clip_truncate=1, round_type=Rounding.TIES_AWAY)),
    _convolution(
        "clip_truncate",
        "CLIP_TRUNCATE: does the shift round, or floor?",
        core.ClipTruncate.of(clip_truncate=3),
        dpu_stages.OutCvtShift.of(out_cvt_shift=6),
    ),
    _convolution(
        "window_sum",
        "the zero point of the weights: acc + operand * sum of the inputs",
        core.MiscCfg.of(qd_en=True),
        dpu_stages.BsOwCfg.of(size_e_0=2, size_e_1=2, size_e_2=2),
        dpu_stages.BsOwOp.of(ow_op=7),
        dpu_stages.OutCvtShift.of(out_cvt_shift=9),
    ),
    _pooling("average_ties", "average of 2 x 2: do halves go to even?", PoolingMethod.AVERAGE, 2),
    _pooling("average_3", "average of 3 x 3: one rounding or two?", PoolingMethod.AVERAGE, 3),
    _pooling("maximum", "maximum of 2 x 2", PoolingMethod.MAX, 2),
    _pooling("minimum", "minimum of 2 x 2", PoolingMethod.MIN, 2),
    replace(
        _element(
            "beyond_orig_channel",
            "are channels of an atom beyond ORIG_CHANNEL written, and with what?",
            dpu.DataCubeChannel.of(channel=_ATOM, orig_channel=5),
        ),
        fill=0x5A,
    ),
    _half("half_copy", "fp16: what becomes of denormals, signed zeros, infinities and NaN?"),
    _half("half_product", "fp16: how is x * (1 + 1/1024) rounded?", *_half_product(0x3C01)),
    _half("half_third", "fp16: how is x / 3 rounded, denormal results included?", *_half_product(0x3555)),
    _half(
        "half_exponent",
        "fp16: what does OUT_CVT_OFFSET = 1 do together with MINUS_EXP?",
        dpu_stages.OutCvtShift.of(minus_exp=3),
        dpu_stages.OutCvtOffset.of(out_cvt_offset=1),
    ),
    _half_to_int8(),
    _half_convolution("half_sums", "fp16: how wide are the sums of a convolution, and where are they rounded?"),
    _lookup("lookup", "lookup tables: how are numbers between two entries rounded?"),
    _lookup("lookup_beyond", "lookup tables: how are the slopes beyond both ends rounded?"),
    _half_lookup("half_lookup", "lookup tables on fp16: is anything rounded before the result?"),
    _kept_registers(),
    _picture_room(),
)
