"""What the battery asks: each case is a task on data that make one rule visible.

Compressed weights are not among them: their form rests on files alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from openrknn.isa import Register, core, dpu, dpu_lut, dpu_stages
from openrknn.isa.enums import AluAlgorithm, PoolingMethod
from openrknn.verify import streams

__all__ = ["CASES", "Case"]

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


_TABLES = np.random.default_rng(5).integers(-100, 101, (2, 513))
_BEYOND_BELOW, _BEYOND_ABOVE = (-13, 9), (11, 8)
"""Scale and shift of the slopes: odd ones, so that results end between two numbers."""


def _lookup(name: str, question: str, multiplier: int) -> Case:
    """int8 times a number is looked up in tables of noise that needs no scaling afterwards."""
    below, above = _BEYOND_BELOW, _BEYOND_ABOVE
    changes = (
        *streams.LOOKUP,
        *_scaled_bias(multiplier, 0, 0),
        dpu_lut.LutLeSlopeScale.of(lut_le_slope_uflow_scale=below[0]),
        dpu_lut.LutLeSlopeShift.of(lut_le_slope_uflow_shift=below[1]),
        dpu_lut.LutLoSlopeScale.of(lut_lo_slope_oflow_scale=above[0]),
        dpu_lut.LutLoSlopeShift.of(lut_lo_slope_oflow_shift=above[1]),
    )
    return replace(
        _element(name, question, *changes),
        first=lambda source, weights, target: streams.table_load(weights, _TABLES.tolist()),
    )


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
        "out_ties",
        "output converter: do halves go to even?",
        dpu_stages.OutCvtScale.of(out_cvt_scale=1),
        dpu_stages.OutCvtShift.of(out_cvt_shift=1),
        dpu_stages.OutCvtOffset.of(out_cvt_offset=3),
    ),
    _element(
        "out_ties_up",
        "output converter with its round bit: do halves go up?",
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
    _half_convolution("half_sums", "fp16: how wide are the sums of a convolution, and where are they rounded?"),
    _lookup("lookup", "lookup tables: how are numbers between two entries rounded?", 97),
    _lookup("lookup_beyond", "lookup tables: how are the slopes beyond both ends rounded?", 201),
    _kept_registers(),
)
