"""What the battery asks: each case is a task on data that make one rule visible."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from openrknn.isa import Register, core, dpu, dpu_stages
from openrknn.isa.enums import AluAlgorithm, PoolingMethod
from openrknn.verify import streams

__all__ = ["CASES", "Case"]

Bytes: TypeAlias = npt.NDArray[np.uint8]
_PIXELS = 64
_ATOM = 16


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
)
