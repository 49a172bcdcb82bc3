"""Functions of one number, element by element."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from openrknn.runtime.operators.interface import Array, Attributes, Compute

__all__ = ["UNARY"]


def _of(function: Callable[[Array], Array]) -> Compute:
    def compute(inputs: Sequence[Array], attributes: Attributes, shape: tuple[int, ...]) -> Array:
        with np.errstate(all="ignore"):  # log(0) is -inf and exp(1000) is inf, on the board as well
            return function(inputs[0])

    return compute


def _sigmoid(values: Array) -> Array:
    result: Array = 1 / (1 + np.exp(-values))
    return result


def _softplus(values: Array) -> Array:
    return np.logaddexp(values, np.zeros((), values.dtype))


def _reciprocal(values: Array) -> Array:
    result: Array = 1 / values
    return result


UNARY: Mapping[str, Compute] = MappingProxyType(
    {
        name: _of(function)
        for name, function in (
            ("Abs", np.abs),
            ("Acos", np.arccos),
            ("Asin", np.arcsin),
            ("Atan", np.arctan),
            ("Ceil", np.ceil),
            ("Cos", np.cos),
            ("Exp", np.exp),
            ("Floor", np.floor),
            ("Log", np.log),
            ("Neg", np.negative),
            ("Reciprocal", _reciprocal),
            ("Round", np.rint),
            ("Sigmoid", _sigmoid),
            ("Sign", np.sign),
            ("Sin", np.sin),
            ("Softplus", _softplus),
            ("Sqrt", np.sqrt),
            ("Tan", np.tan),
            ("Tanh", np.tanh),
        )
    }
)
