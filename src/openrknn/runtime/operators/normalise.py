"""Normalisations: by mean and variance, by length, or by neighbours."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from openrknn.errors import UnsupportedError
from openrknn.runtime.operators.interface import (
    Array,
    Attributes,
    Inputs,
    Shape,
    axis_of,
    integer,
    integers,
    number,
    optional,
    text,
)

_EPSILON = 1e-5
_NO_DEVIATION = 1e-9
"""What MeanVarianceNormalization of ONNX adds to the deviation."""


def _centred(x: Array, axes: tuple[int, ...], epsilon: float) -> Array:
    """(x - mean) / sqrt(variance + epsilon), in double precision."""
    values = np.asarray(x, np.float64)
    values = values - values.mean(axis=axes, keepdims=True)
    return np.asarray(values / np.sqrt(np.square(values).mean(axis=axes, keepdims=True) + epsilon))


def _by_length(x: Array, axes: tuple[int, ...], epsilon: float) -> Array:
    """x / sqrt(mean(x^2) + epsilon)."""
    values = np.asarray(x, np.float64)
    return np.asarray(values / np.sqrt(np.square(values).mean(axis=axes, keepdims=True) + epsilon))


def _to_length_one(x: Array, axes: tuple[int, ...], epsilon: float) -> Array:
    """x / max(length, epsilon)."""
    values = np.asarray(x, np.float64)
    return np.asarray(values / np.maximum(np.sqrt(np.square(values).sum(axis=axes, keepdims=True)), epsilon))


_MODES = {"layer": _centred, "rms": _by_length, "l2": _to_length_one}


def _per_channel(values: Array, rank: int) -> Array:
    return np.asarray(values, np.float64).reshape(-1, *(1,) * (rank - 2))


def _scaled(x: Array, inputs: Inputs, *, by_channel: bool) -> Array:
    """Times the second input, plus the third, where they are there."""
    for index, combine in ((1, np.multiply), (2, np.add)):
        given = optional(inputs, index)
        if given is not None:
            x = np.asarray(combine(x, _per_channel(given, x.ndim) if by_channel else given))
    return x


def batch_norm(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """gamma (x - mean) / sqrt(variance + epsilon) + beta, with numbers from training."""
    x = np.asarray(inputs[0], np.float64)
    if integer(attributes, "training_mode", 0):
        raise UnsupportedError("it is in training mode")
    if any(array.dtype.kind != "f" for array in inputs[1:5]):
        raise UnsupportedError("its numbers are in the NPU's fixed point although the CPU shall compute it")
    gamma, beta, mean, variance = (_per_channel(array, x.ndim) for array in inputs[1:5])
    with np.errstate(all="ignore"):
        return np.asarray((x - mean) * (gamma / np.sqrt(variance + number(attributes, "epsilon", _EPSILON))) + beta)


def instance_norm(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """Over the pixels of each channel."""
    axes = tuple(range(2, inputs[0].ndim))
    return _scaled(_centred(inputs[0], axes, number(attributes, "epsilon", _EPSILON)), inputs, by_channel=True)


def group_norm(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """Over the pixels of several channels together; scale and bias per channel, or per group before opset 21."""
    x, groups = inputs[0], integer(attributes, "num_groups", 1)
    if x.ndim < 2 or not 1 <= groups <= x.shape[1] or x.shape[1] % groups:
        raise UnsupportedError(f"{groups} groups of {list(x.shape)}")
    apart = x.reshape(x.shape[0], groups, -1)
    values = _centred(apart, (2,), number(attributes, "epsilon", _EPSILON)).reshape(x.shape)
    whole = [np.repeat(array, x.shape[1] // groups) if array.size == groups else array for array in inputs[1:3]]
    return _scaled(values, [x, *whole], by_channel=True)


def _trailing(x: Array, attributes: Attributes) -> tuple[int, ...]:
    return tuple(range(axis_of(integer(attributes, "axis", -1), x.ndim), x.ndim))


def layer_norm(inputs: Inputs, attributes: Attributes, shapes: Sequence[Shape]) -> Sequence[Array]:
    """From `axis` to the last one; the mean and 1 / deviation are the second and third output."""
    x = np.asarray(inputs[0], np.float64)
    axes, epsilon = _trailing(x, attributes), number(attributes, "epsilon", _EPSILON)
    spread = 1 / np.sqrt(x.var(axis=axes, keepdims=True) + epsilon)
    return [_scaled(_centred(x, axes, epsilon), inputs, by_channel=False), x.mean(axis=axes, keepdims=True), spread]


def rms_norm(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """Divides by the root mean square from `axis` to the last one; no mean is subtracted."""
    x = inputs[0]
    return _scaled(_by_length(x, _trailing(x, attributes), number(attributes, "epsilon", _EPSILON)), inputs[:2],
                   by_channel=False)  # fmt: skip


def ex_norm(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """The compiler's own: mode "layer", "rms" or "l2" over `axes`, with scale and bias where it fused them."""
    x = inputs[0]
    axes = tuple(axis_of(axis, x.ndim) for axis in integers(attributes, "axes", (1,)))
    epsilon, mode = number(attributes, "eps", _EPSILON), text(attributes, "mode", "layer")
    if mode not in _MODES:
        raise UnsupportedError(f"mode {mode!r}")
    with np.errstate(all="ignore"):
        return _scaled(_MODES[mode](x, axes, epsilon), inputs, by_channel=False)


def lp_normalise(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """x divided by its length along an axis; nothing is divided by 0."""
    x = np.asarray(inputs[0], np.float64)
    axis = axis_of(integer(attributes, "axis", -1), x.ndim)
    power = integer(attributes, "p", 2)
    if power not in {1, 2}:
        raise UnsupportedError(f"a norm of order {power}")
    squares = np.abs(x) if power == 1 else np.square(x)
    length = squares.sum(axis=axis, keepdims=True)
    length = length if power == 1 else np.sqrt(length)
    return np.asarray(x / np.where(length == 0, 1, length))


def local_response(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """x / (bias + alpha / size * sum of the squares of `size` neighbouring channels)^beta."""
    x, size = np.asarray(inputs[0], np.float64), integer(attributes, "size", 1)
    channels = x.shape[1]
    if size < 1:
        raise UnsupportedError(f"{size} neighbours")
    sums = np.cumsum(np.concatenate([np.zeros_like(x[:, :1]), np.square(x)], axis=1), axis=1)
    here = np.arange(channels)
    first, last = np.maximum(0, here - (size - 1) // 2), np.minimum(channels, here + size // 2 + 1)
    total = sums[:, last] - sums[:, first]
    base = number(attributes, "bias", 1.0) + number(attributes, "alpha", 1e-4) / size * total
    return np.asarray(x / base ** number(attributes, "beta", 0.75))


def mean_variance(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """(x - mean) / deviation over `axes`."""
    x = np.asarray(inputs[0], np.float64)
    axes = tuple(axis_of(axis, x.ndim) for axis in integers(attributes, "axes", (0, 2, 3)))
    values = x - x.mean(axis=axes, keepdims=True)
    return np.asarray(values / (np.sqrt(np.square(values).mean(axis=axes, keepdims=True)) + _NO_DEVIATION))
