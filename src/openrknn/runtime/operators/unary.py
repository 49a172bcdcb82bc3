"""Functions of one number, element by element."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from math import erf
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from openrknn.runtime.operators.interface import (
    Array,
    Attributes,
    Compute,
    Inputs,
    Shape,
    axis_of,
    fitting,
    integer,
    number,
    optional,
    text,
)


def _of(function: Callable[[Array], Array]) -> Compute:
    def compute(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
        with np.errstate(all="ignore"):  # log(0) is -inf and exp(1000) is inf, on the board as well
            return function(inputs[0])

    return compute


def sigmoid(values: Array) -> Array:
    """1 / (1 + e^-x)."""
    result: Array = 1 / (1 + np.exp(-values))
    return result


def error_function(values: Array) -> Array:
    """erf(x) to the last bit of double precision; one number after the other, as Python has it."""
    flat = np.asarray(values, np.float64).reshape(-1)
    return np.fromiter(map(erf, flat.tolist()), np.float64, flat.size).reshape(values.shape)


def _softplus(values: Array) -> Array:
    return np.logaddexp(values, np.zeros((), values.dtype))


def _reciprocal(values: Array) -> Array:
    result: Array = 1 / values
    return result


def _softsign(values: Array) -> Array:
    result: Array = values / (1 + np.abs(values))
    return result


def _not(values: Array) -> Array:
    return np.asarray(values == 0)


UNARY: Mapping[str, Compute] = MappingProxyType(
    {
        name: _of(function)
        for name, function in (
            ("Abs", np.abs),
            ("Acos", np.arccos),
            ("Acosh", np.arccosh),
            ("Asin", np.arcsin),
            ("Asinh", np.arcsinh),
            ("Atan", np.arctan),
            ("Atanh", np.arctanh),
            ("Ceil", np.ceil),
            ("Cos", np.cos),
            ("Cosh", np.cosh),
            ("Erf", error_function),
            ("Exp", np.exp),
            ("Floor", np.floor),
            ("IsNaN", np.isnan),
            ("Log", np.log),
            ("Neg", np.negative),
            ("Not", _not),
            ("Reciprocal", _reciprocal),
            ("Round", np.rint),
            ("Sigmoid", sigmoid),
            ("Sign", np.sign),
            ("Sin", np.sin),
            ("Sinh", np.sinh),
            ("Softplus", _softplus),
            ("Softsign", _softsign),
            ("Sqrt", np.sqrt),
            ("Tan", np.tan),
            ("Tanh", np.tanh),
        )
    }
)


# Activations: functions of one number with constants of their own.

_Function: TypeAlias = Callable[[Array, Attributes], Array]

# The constants of a self-normalising network, as ONNX rounds them (Klambauer et al. 2017).
_SELU_ALPHA, _SELU_GAMMA = 1.67326319217681884765625, 1.05070102214813232421875


def _with_attributes(function: _Function) -> Compute:
    @wraps(function)
    def compute(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
        with np.errstate(all="ignore"):  # infinities and NaN go through, as on the board
            return np.asarray(function(inputs[0], attributes))

    return compute


def _relu(x: Array, attributes: Attributes) -> Array:
    return np.maximum(x, 0)


def _leaky(x: Array, attributes: Attributes) -> Array:
    """x where it is not negative, else alpha x. With alpha -1 the compiler writes Abs this way."""
    return np.where(x < 0, x * number(attributes, "alpha", 0.01), x)


def _elu(x: Array, attributes: Attributes) -> Array:
    return np.where(x < 0, number(attributes, "alpha", 1.0) * np.expm1(np.minimum(x, 0)), x)


def _celu(x: Array, attributes: Attributes) -> Array:
    alpha = number(attributes, "alpha", 1.0)
    return np.where(x < 0, alpha * np.expm1(np.minimum(x, 0) / alpha), x)


def _selu(x: Array, attributes: Attributes) -> Array:
    alpha, gamma = number(attributes, "alpha", _SELU_ALPHA), number(attributes, "gamma", _SELU_GAMMA)
    return gamma * np.where(x < 0, alpha * np.expm1(np.minimum(x, 0)), x)


def _thresholded(x: Array, attributes: Attributes) -> Array:
    return np.where(x > number(attributes, "alpha", 1.0), x, 0)


def _hard_sigmoid(x: Array, attributes: Attributes) -> Array:
    return np.clip(number(attributes, "alpha", 0.2) * x + number(attributes, "beta", 0.5), 0, 1)


def _hard_swish(x: Array, attributes: Attributes) -> Array:
    """x clip(x / 6 + 1/2, 0, 1)."""
    return np.asarray(x * np.clip(x / 6 + 0.5, 0, 1))


def _mish(x: Array, attributes: Attributes) -> Array:
    return np.asarray(x * np.tanh(np.logaddexp(x, 0)))


def _gelu(x: Array, attributes: Attributes) -> Array:
    """x Phi(x); with approximate="tanh" the cubic one."""
    if text(attributes, "approximate", "none") == "tanh":
        return np.asarray(0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))))
    return np.asarray(0.5 * x * (1 + error_function(x / np.sqrt(2))))


def _swish(x: Array, attributes: Attributes) -> Array:
    """x sigmoid(x), with alpha or beta inside the sigmoid where the file has one."""
    return np.asarray(x * sigmoid(number(attributes, "alpha", number(attributes, "beta", 1.0)) * x))


def _shrink(x: Array, attributes: Attributes) -> Array:
    bias, bound = number(attributes, "bias", 0.0), number(attributes, "lambd", 0.5)
    return np.where(x < -bound, x + bias, np.where(x > bound, x - bias, 0))


def _is_infinite(x: Array, attributes: Attributes) -> Array:
    negative, positive = integer(attributes, "detect_negative", 1), integer(attributes, "detect_positive", 1)
    return np.isinf(x) & (((x < 0) & bool(negative)) | ((x > 0) & bool(positive)))


def _hardmax(x: Array, attributes: Attributes) -> Array:
    """1 where the first of the largest values along `axis` is, else 0."""
    axis = axis_of(integer(attributes, "axis", -1), x.ndim)
    result = np.zeros_like(x)
    np.put_along_axis(result, np.expand_dims(x.argmax(axis=axis), axis), 1, axis=axis)
    return result


def clip(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """Bounds are inputs since opset 11, and were attributes (min, max) before."""
    low, high = optional(inputs, 1), optional(inputs, 2)
    bounds = [
        attributes.get(name) if given is None else given.reshape(-1)[0] for given, name in ((low, "min"), (high, "max"))
    ]
    result = inputs[0]
    if bounds[0] is not None:
        result = np.maximum(result, np.float32(bounds[0]))
    return result if bounds[1] is None else np.minimum(result, np.float32(bounds[1]))


def prelu(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """x where it is not negative, else slope x."""
    x, slope = inputs[0], inputs[1]
    fitting(np.broadcast_shapes(x.shape, slope.shape), shape)
    with np.errstate(all="ignore"):
        return np.where(x < 0, x * slope, x)


def glu(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """The first half of an axis times the sigmoid of the second."""
    x = inputs[0]
    axis = axis_of(integer(attributes, "axis", 1), x.ndim)
    left, right = np.split(x, 2, axis=axis)
    with np.errstate(all="ignore"):
        return np.asarray(left * sigmoid(right))


ACTIVATIONS: Mapping[str, Compute] = MappingProxyType(
    {
        "Celu": _with_attributes(_celu),
        "Clip": clip,
        "Elu": _with_attributes(_elu),
        "Gelu": _with_attributes(_gelu),
        "HardSigmoid": _with_attributes(_hard_sigmoid),
        "HardSwish": _with_attributes(_hard_swish),
        "Hardmax": _with_attributes(_hardmax),
        "IsInf": _with_attributes(_is_infinite),
        "LeakyRelu": _with_attributes(_leaky),
        "Mish": _with_attributes(_mish),
        "PRelu": prelu,
        "Relu": _with_attributes(_relu),
        "Selu": _with_attributes(_selu),
        "Shrink": _with_attributes(_shrink),
        "Swish": _with_attributes(_swish),
        "ThresholdedRelu": _with_attributes(_thresholded),
        "exGelu": _with_attributes(_gelu),
        "exGlu": glu,
        "exHardSwish": _with_attributes(_hard_swish),
        "exMish": _with_attributes(_mish),
        "exSwish": _with_attributes(_swish),
    }
)
