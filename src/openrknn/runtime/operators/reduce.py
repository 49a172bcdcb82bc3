"""Reductions over some axes, or over all: sums, means, extremes, lengths and their logarithms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from openrknn.runtime.operators.interface import Array, Attributes, Compute, Inputs, Shape, axes_of, axis_of, integer

_Axes: TypeAlias = tuple[int, ...] | None
_Function: TypeAlias = Callable[[Array, _Axes], Array]


def _over(function: _Function) -> Compute:
    """Whether reduced axes stay with size 1 is in `shape`."""

    def compute(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
        x = inputs[0]
        axes = axes_of(inputs, attributes)
        if axes is None and integer(attributes, "noop_with_empty_axes", 0):
            axes = ()
        elif axes is not None:
            axes = tuple(sorted({axis_of(axis, x.ndim) for axis in axes}))
        with np.errstate(all="ignore"):  # log(0) is -inf
            return np.asarray(function(x, axes)).reshape(shape)

    return compute


def _sum(x: Array, axes: _Axes) -> Array:
    """In double precision; whole numbers stay whole."""
    return np.asarray(x.sum(axis=axes, dtype=np.float64 if x.dtype.kind == "f" else None))


def _square_sum(x: Array, axes: _Axes) -> Array:
    return _sum(np.square(x), axes)


def _log_sum_exp(x: Array, axes: _Axes) -> Array:
    """The largest value is taken off so that nothing overflows."""
    largest = np.max(x, axis=axes, keepdims=True)
    largest = np.where(np.isfinite(largest), largest, 0)
    total = np.exp(x - largest).sum(axis=axes, dtype=np.float64)
    return np.asarray(np.log(total) + largest.reshape(total.shape))


PICKING: Mapping[str, Compute] = MappingProxyType(
    {
        "ReduceMax": _over(lambda x, axes: x.max(axis=axes)),
        "ReduceMin": _over(lambda x, axes: x.min(axis=axes)),
    }
)
"""Those that only pick a value."""

REDUCTIONS: Mapping[str, Compute] = MappingProxyType(
    {
        "ReduceL1": _over(lambda x, axes: _sum(np.abs(x), axes)),
        "ReduceL2": _over(lambda x, axes: np.sqrt(_square_sum(x, axes))),
        "ReduceLogSum": _over(lambda x, axes: np.log(_sum(x, axes))),
        "ReduceLogSumExp": _over(_log_sum_exp),
        "ReduceMean": _over(lambda x, axes: x.mean(axis=axes, dtype=np.float64)),
        "ReduceProd": _over(lambda x, axes: x.prod(axis=axes)),
        "ReduceSum": _over(_sum),
        "ReduceSumSquare": _over(_square_sum),
    }
)
