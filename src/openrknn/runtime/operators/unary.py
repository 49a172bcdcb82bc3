"""Functions of one number, element by element."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import erf
from types import MappingProxyType

import numpy as np

from openrknn.runtime.operators.interface import Array, Attributes, Compute, Inputs, Shape


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
