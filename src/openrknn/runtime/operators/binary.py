"""Two or more operands, element by element, each repeated along the axes where it has size 1."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from openrknn.errors import UnsupportedError
from openrknn.runtime.operators.interface import Array, Attributes, Compute, Inputs, Shape, fitting, integer, text

_Two: TypeAlias = Callable[[Array, Array], Array]


def _spread(inputs: Inputs, shape: Shape) -> None:
    """Asked before anything is computed: the shapes go together, and give the output's."""
    fitting(np.broadcast_shapes(*(array.shape for array in inputs)), shape)


def _two(function: _Two) -> Compute:
    def compute(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
        left, right = inputs
        _spread(inputs, shape)
        with np.errstate(all="ignore"):  # x / 0 is inf, on the board as well
            return np.asarray(function(left, right))

    return compute


def _many(function: _Two) -> Compute:
    def compute(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
        _spread(inputs, shape)
        with np.errstate(all="ignore"):
            return np.asarray(reduce(function, inputs))

    return compute


def _divide(left: Array, right: Array) -> Array:
    """Whole numbers are divided towards zero, as in C; by zero gives 0 there."""
    if left.dtype.kind in "iu" and right.dtype.kind in "iu":
        safe = np.where(right == 0, 1, right)
        quotient = np.abs(left) // np.abs(safe) * (np.sign(left) * np.sign(safe))
        return np.where(right == 0, 0, quotient)
    return np.asarray(left / right)


def _power(left: Array, right: Array) -> Array:
    if left.dtype.kind in "iu":
        return np.power(left.astype(np.float64), right).astype(left.dtype)
    return np.asarray(np.power(left, right))


def _mean(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    _spread(inputs, shape)
    return np.asarray(reduce(np.add, inputs) / len(inputs))


def _remainder(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """The sign of the divisor, or with fmod that of the dividend."""
    _spread(inputs, shape)
    with np.errstate(all="ignore"):
        return np.asarray((np.fmod if integer(attributes, "fmod", 0) else np.mod)(inputs[0], inputs[1]))


def _shift(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    _spread(inputs, shape)
    values, steps = inputs
    if values.dtype.kind not in "iu" or steps.dtype.kind not in "iu":
        raise UnsupportedError("bits of numbers that are no integers cannot be shifted")
    bits = 8 * values.dtype.itemsize
    too_far = (steps < 0) | (steps >= bits)  # nothing is left but the sign, and that only to the right
    if text(attributes, "direction", "LEFT") == "LEFT":
        return np.where(too_far, 0, np.left_shift(values, np.where(too_far, 0, steps).astype(values.dtype)))
    return np.asarray(np.right_shift(values, np.where(too_far, bits - 1, steps).astype(values.dtype)))


def _where(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """The second operand where the first is true, else the third."""
    condition, yes, no = inputs
    _spread(inputs, shape)
    return np.where(condition != 0, yes, no)


def _logic(function: _Two) -> Compute:
    return _two(lambda left, right: function(left != 0, right != 0))


BINARY: Mapping[str, Compute] = MappingProxyType(
    {
        "Add": _two(np.add),
        "And": _logic(np.logical_and),
        "BitShift": _shift,
        "Div": _two(_divide),
        "Equal": _two(np.equal),
        "Greater": _two(np.greater),
        "GreaterOrEqual": _two(np.greater_equal),
        "Less": _two(np.less),
        "LessOrEqual": _two(np.less_equal),
        "Max": _many(np.maximum),
        "Mean": _mean,
        "Min": _many(np.minimum),
        "Mod": _remainder,
        "Mul": _two(np.multiply),
        "Or": _logic(np.logical_or),
        "Pow": _two(_power),
        "Sub": _two(np.subtract),
        "Sum": _many(np.add),
        "Where": _where,
        "Xor": _logic(np.logical_xor),
    }
)
