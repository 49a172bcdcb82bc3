"""Weights and per-channel operands of a convolution, quantized and packed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from openrknn.compiler.errors import UnsupportedOperatorError
from openrknn.compiler.formats import align, dtype_of
from openrknn.compiler.forms import Conv
from openrknn.compiler.ir import Array, Op
from openrknn.compiler.lower.context import Lowering
from openrknn.compiler.quantise.weights import (
    QuantizedWeights,
    bias_error,
    keep_weights,
    least_scales,
    quantize_bias,
    quantize_weights,
    relative_scales,
)
from openrknn.container.parts import DataType
from openrknn.layout.operands import Operands, pack_operands
from openrknn.layout.weights import WeightTiles, join_zero_points, pack_weights

_LARGEST_FP16 = 65504.0
_HALF_UNIT = 2.0**-11
_LARGEST_POWER = 14
"""Its inverse is a normal number of fp16."""
_KERNELS = 256
_LARGEST_WEIGHT = 1024.0
"""What weights are made at most, to be far from overflows."""


@dataclass(frozen=True, slots=True)
class Packed:
    """Names of the two constants, and what the registers say of them."""

    weights: str
    bias: str
    kernels: int
    """As stored: even for int8, 1 for depthwise."""
    channels: int
    """Of one kernel, as stored."""
    operand_bytes: int
    """Of one channel in the bias stream."""
    unit: float
    """int8: real value of one unit after the first stage."""
    corrects: bool = True
    """int8: zero points are in the bias stream, not between the weights."""
    power: int = 0
    """fp16: weights and bias are stored times two to this power."""


def pack_constants(
    low: Lowering, op: Op, weights: Array, bias: Array, first_in: int, inside: Array, *, depthwise: bool
) -> Packed:
    """`weights` is [O, I, H, W], for depthwise [C, 1, H, W]; `inside` says how often its taps read the map."""
    found = low.packed.get(op.name) if low.packed is not None else None
    if found is None:
        found = _pack(low, op, weights, bias, first_in, inside, depthwise=depthwise)
        if low.packed is not None:
            low.packed[op.name] = found
            found = low.packed[op.name]  # which may be mapped from a file
    packed, *constants = found
    names = [low.data(*constant) for constant in constants]
    return replace(packed, weights=names[0], bias=names[1])


def _pack(
    low: Lowering, op: Op, weights: Array, bias: Array, first_in: int, inside: Array, *, depthwise: bool
) -> tuple[Packed, tuple[Any, ...], tuple[Any, ...]]:
    """What the registers say, and both constants as `Lowering.data` takes them."""
    form = low.format
    group = form.depthwise_group if depthwise else form.group
    outputs, inputs, height, width = weights.shape
    run = low.target.inline_zero_points if depthwise else 0
    if depthwise:
        tiles = low.target.depthwise_weights(outputs, height, width, form.element_bytes)
    else:
        is_picture = low.tensor(op.inputs[0]).layout == "picture"
        make = (low.target.picture_weights if is_picture else None) or low.target.weights
        tiles = make((outputs, inputs, height, width), form.element_bytes)
    room, power = align(len(bias), group), 0
    if form.element_bytes == 2:
        largest = float(np.abs(weights).max(initial=0))
        if largest > _LARGEST_FP16:
            raise UnsupportedOperatorError(
                f"{op.type} {op.name!r} has weights up to {largest:.3g}, and fp16 ends at {_LARGEST_FP16:g}; compile "
                "it in int8 (--calibrate), or train it again"
            )
        power = _power(weights)
        weights, bias = weights * 2.0**power, bias * 2.0**power
        stored: Array = weights.astype(np.float16)
        zero: Array = np.zeros(len(weights), np.float16)
        summands = np.zeros(align(room, 16), np.float32)
        summands[: len(bias)] = bias
        operands, operand_bytes, unit = summands.tobytes(), 4, 1.0
    else:
        source = low.quantization(op.inputs[0])
        assert source is not None
        quantized = _quantized(low, op, weights)
        least = least_scales(bias, source)
        if (quantized.scale < least).any():
            quantized = quantize_weights(weights, least)
        real = quantized.real
        low.errors[op.name] = _decibels(real, weights)
        means = _means(low, op, first_in, weights, depthwise=depthwise)
        if low.options.bias_correction and means is not None:
            bias = bias - bias_error(real, weights, means, inside, op.get(Conv).pad_value)
        stored, zero = quantized.stored.astype(np.int8), quantized.zero_point.astype(np.int8)
        whole = quantize_bias(bias, source, quantized)
        operands = _stream(quantized, whole, room, low.target.operand_group, corrects=not run)
        operand_bytes, unit = 6 if run else 8, source.scale * float(quantized.scale.max())
    # Depthwise channels beyond the last have weights of 0: their results are not written.
    packed = pack_weights(stored.transpose(1, 0, 2, 3), tiles) if depthwise else pack_weights(stored, tiles, zero)
    (kernels, channels), corrects = tiles.shape[:2], not run or form.element_bytes == 2
    if not corrects:
        negated = (-zero.astype(np.int16)).astype(np.int8)  # 128 has the byte of -128
        each = np.broadcast_to(negated[None, :, None, None], (1, outputs, height, width))
        packed = join_zero_points(packed, pack_weights(np.ascontiguousarray(each), tiles), run)
        kernels *= 2
    shape, native = tuple(int(size) for size in weights.shape), _native(tiles)
    kind = DataType.INT32 if form.element_bytes == 1 else DataType.FLOAT32
    matrix = (f"{op.name}_w", packed.tobytes(), shape, dtype_of(form), "weights", native)
    stream = (f"{op.name}_b", operands, (len(bias),), kind, "data", (len(operands) // 4,))
    return Packed("", "", kernels, channels, operand_bytes, unit, corrects, power), matrix, stream


def _power(weights: Array) -> int:
    """Of two, with which no kernel consists of subnormal numbers: these have few digits, or vanish.

    fp16 rounds other numbers by half a unit of 11 bits at most, so a kernel that loses more has them. Folding a batch
    norm behind large numbers makes such kernels (PP-OCRv4's detector of seals: weights of 7e-6, sums of 1e4).
    """
    rows = weights.reshape(len(weights), -1)
    largest = float(np.abs(rows).max(initial=0))
    for power in range(_LARGEST_POWER + 1):
        if 2 * largest * 2.0**power > _LARGEST_WEIGHT or _keeps_digits(rows, power):
            return power
    return _LARGEST_POWER


def _keeps_digits(rows: Array, power: int) -> bool:
    """Some kernels at a time, until one does not: a vocabulary has thousands."""
    for first in range(0, len(rows), _KERNELS):
        part = rows[first : first + _KERNELS]
        scaled = part * 2.0**power
        error = np.square(scaled.astype(np.float16).astype(np.float64) - scaled).sum(axis=1) * 4.0**-power
        if not (error <= _HALF_UNIT**2 * np.square(part).sum(axis=1)).all():
            return False
    return True


def _quantized(low: Lowering, op: Op, weights: Array) -> QuantizedWeights:
    """As the model brings them, as adaptive rounding has them, or rounded to the nearest."""
    kept, adapted = low.graph.stored.get(op.inputs[1]), low.graph.adapted.get(op.output)
    if kept is not None and kept.stored.shape == weights.shape:
        return keep_weights(QuantizedWeights(kept.stored, kept.scale, kept.zero_point))
    if adapted is not None and np.array_equal(adapted[0], weights):
        return QuantizedWeights(adapted[1].stored, adapted[1].scale, adapted[1].zero_point)
    return quantize_weights(weights)


def _stream(quantized: QuantizedWeights, bias: Array, room: int, group: int, *, corrects: bool) -> bytes:
    zero_points = tuple(int(v) for v in quantized.zero_point) if corrects else None
    multipliers = relative_scales(quantized.scale)
    operands = Operands(tuple(int(v) for v in bias), zero_points, tuple(int(v) for v in multipliers))
    return pack_operands(operands, group, channels=room)


def _means(low: Lowering, op: Op, first_in: int, weights: Array, *, depthwise: bool) -> Array | None:
    seen = low.statistics.get(op.inputs[0])
    mean = seen.channel_mean if seen is not None else None
    if mean is None or len(mean) != low.graph.values[op.inputs[0]].cube[0]:
        return None
    count = len(weights) if depthwise else weights.shape[1]
    return mean[first_in : first_in + count]


def _native(tiles: WeightTiles) -> tuple[int, ...]:
    kernels, channels, height, width = tiles.shape
    first_out, first_in = tiles.outputs[0], tiles.inputs[0]
    return (
        -(-kernels // first_out.size), -(-channels // first_in.size), height, width, first_out.size, first_in.size
    )  # fmt: skip


def _decibels(rounded: Array, weights: Array) -> float:
    power, error = float(np.square(weights).sum()), float(np.square(rounded - weights).sum())
    return 10 * float(np.log10((power or 1e-30) / (error or 1e-30)))
