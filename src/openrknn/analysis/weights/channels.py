"""How the weights of an operator are quantised, channel by channel. A `.rknn` does not say it in words.

Zero points and relative scales are in the operand stream beside the bias; the absolute scale follows from what the
commands do to the accumulator: shift it by k, multiply by the channel's M / 2^n (BS stage), sometimes by b / 2^t (BN
stage), and convert it to the output by m / 2^s. With the scales of the input and the output tensor:

    weight scale = 1 / 2^k * M / 2^n * b / 2^t * m / 2^s * output scale / input scale

A look-up table hides the output converter. But it takes reals of -x..x in steps of -16384..16384, so that b / 2^t in
front of it says the same:

    weight scale = 1 / 2^k * M / 2^n * b / 2^t * x / 16384 / input scale

`openrknn.chip.weight_scales` has the location of these numbers on each chip.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from math import isfinite, ldexp
from types import MappingProxyType

from openrknn.analysis.weights.use import WeightReader, WeightUse, tensor_data
from openrknn.chip.weight_scales import (
    BN_CONFIG,
    BN_IDLE,
    BN_TENSOR_SCALE_OFFSET,
    BN_TENSOR_SHIFT_OFFSET,
    LUT_INFO,
)
from openrknn.container.model import Model, Operator
from openrknn.container.parts import DataType, Graph, Quantization, Tensor
from openrknn.errors import UnsupportedError

_TABLE_STEPS = 16384
_FLOATS = {DataType.FLOAT16, DataType.BFLOAT16, DataType.FLOAT32}
_INTEGERS = {DataType.INT8, DataType.INT16}
_TABLE_REACH: Mapping[str, float] = MappingProxyType(
    {
        "ExSwish": 5.8,
        "ExGelu": 2 * 2**0.5,
        "ExMish": 5.0,
        "HardSwish": 3.0,
        "Sigmoid": 6.31,
        "Softplus": 6.31,
        "Tanh": 3.02,
        "Elu": 5.0,
    }
)
"""The tables of the toolkit reach from -x to x, with 16384 steps on either side; x by the fused activation.

HardSigmoid is missing: its reach is 0.5 / alpha, and alpha is not in the file.
"""


def weight_quantization(model: Model, graph: Graph, operator: Operator) -> Quantization | None:
    """Scales and zero points of the operator's weights along the output channels; None if they are not quantised.

    `axis` counts in the ONNX order of the weights (see `Form`). Raises `UnsupportedError` where a file does not say
    enough. For many operators of one graph make one `WeightReader`, and ask `quantization_of`.
    """
    reader = WeightReader(model, graph)
    use = reader.use(operator)
    return None if use is None else quantization_of(reader, operator, use)


def quantization_of(reader: WeightReader, operator: Operator, use: WeightUse) -> Quantization | None:
    """`weight_quantization` for a use that is already known."""
    if use.tensor.dtype in _FLOATS:
        return None
    name = use.tensor.name
    if use.channels > 2 * len(tensor_data(reader.model, use.tensor)):
        raise UnsupportedError(f"{name!r} has fewer weights than its {use.channels} output channels")
    if use.tensor.dtype is DataType.INT4:
        return Quantization(_nibble_scales(reader, use), (0,) * use.channels, use.axis)
    if use.tensor.dtype not in _INTEGERS:
        raise UnsupportedError(f"{name!r} holds {use.tensor.dtype.label}: how that is quantised is not known")
    operands = reader.operands(use)
    step = _step(reader, operator, use)
    if not isfinite(step):
        raise UnsupportedError(f"the scale of {name!r} comes out as {step}")
    if operands.multiplier is None:
        return Quantization((step,) * use.channels, (_single_zero_point(reader, use),) * use.channels, use.axis)
    share = ldexp(step, -_bs_shift(reader, use))
    scale = tuple(multiplier * share for multiplier in operands.multiplier)
    return Quantization(scale, operands.zero_point or _inline_zero_points(reader, use), use.axis)


def _step(reader: WeightReader, operator: Operator, use: WeightUse) -> float:
    """The formula without the channel's own M / 2^n."""
    source = _per_tensor(operator.inputs[0])
    shift = reader.field(use, reader.facts.accumulator_shift) if reader.facts.accumulator_shift else 0
    if reader.is_set(use, LUT_INFO):
        rest = _table_step(operator.type, use.tensor.name)
    elif operator.outputs:
        rest = _output_step(reader, use, _per_tensor(operator.outputs[0]))
    else:
        raise UnsupportedError(f"the operator with {use.tensor.name!r} has no output")
    return ldexp(_bn_factor(reader, use) * rest / source, -shift)


def _output_step(reader: WeightReader, use: WeightUse, target: float) -> float:
    scale = reader.field(use, reader.facts.out_scale)
    if scale <= 0:
        raise UnsupportedError(f"the output converter behind {use.tensor.name!r} multiplies by {scale}")
    return ldexp(scale, -reader.field(use, reader.facts.out_shift)) * target


def _bn_factor(reader: WeightReader, use: WeightUse) -> float:
    if reader.is_set(use, BN_CONFIG, *BN_IDLE):
        return 1.0
    if reader.facts.bn_scale is not None and reader.facts.bn_shift is not None:
        return ldexp(reader.field(use, reader.facts.bn_scale), -reader.field(use, reader.facts.bn_shift))
    if not reader.has_configuration(use, reader.facts.bn_tensor_address):
        return 1.0
    data = reader.configuration(use, reader.facts.bn_tensor_address, BN_TENSOR_SHIFT_OFFSET + 2, "BN")
    (scale,) = struct.unpack_from("<H", data, BN_TENSOR_SCALE_OFFSET)
    return ldexp(scale, -data[BN_TENSOR_SHIFT_OFFSET])


def _bs_shift(reader: WeightReader, use: WeightUse) -> int:
    if reader.facts.bs_shift is not None:
        return reader.field(use, reader.facts.bs_shift)
    return reader.configuration(use, reader.facts.bs_tensor_address, 2, "BS")[0]


def _single_zero_point(reader: WeightReader, use: WeightUse) -> int:
    """The zero point of weights without per-channel operands."""
    if reader.facts.zero_point is not None:
        return -reader.field(use, reader.facts.zero_point)
    if reader.has_configuration(use, reader.facts.bs_tensor_address):
        data = reader.configuration(use, reader.facts.bs_tensor_address, 2, "BS")
        return -int(struct.unpack_from("<h", data)[0])
    if set(tensor_data(reader.model, use.tensor)) <= {0, 1}:  # an identity, made by the toolkit
        return 0
    raise UnsupportedError(
        f"{use.tensor.name!r}: where {reader.model.chip.title} keeps the one zero point of its weights is not known"
    )


def _inline_zero_points(reader: WeightReader, use: WeightUse) -> tuple[int, ...]:
    if not reader.inlines_zero_points(use):
        return (0,) * use.channels
    from openrknn.analysis.weights.arrays import inline_zero_points

    return inline_zero_points(reader, use)


def _nibble_scales(reader: WeightReader, use: WeightUse) -> tuple[float, ...]:
    data = reader.configuration(use, reader.facts.nibble_scale_address, 2 * use.channels, "4-bit scale")
    scales: tuple[float, ...] = struct.unpack_from(f"<{use.channels}e", data)
    if not all(map(isfinite, scales)):
        raise UnsupportedError(f"the 4-bit scales of {use.tensor.name!r} are not all numbers")
    return scales


def _table_step(operator_type: str, name: str) -> float:
    activation = operator_type.removeprefix("Conv")
    if activation not in _TABLE_REACH:
        raise UnsupportedError(f"the scale of {name!r} is behind a table whose reach is not known ({activation})")
    return _TABLE_REACH[activation] / _TABLE_STEPS


def _per_tensor(tensor: Tensor) -> float:
    quantization = tensor.quantization
    if quantization is None or len(quantization.scale) != 1 or not quantization.scale[0] > 0:
        raise UnsupportedError(f"{tensor.name!r} has no single positive scale")
    return quantization.scale[0]
