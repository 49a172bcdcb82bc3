"""Convolutions that only move numbers: the NPU crops, pads and picks channels with them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from openrknn.compiler.errors import UnsupportedOperatorError
from openrknn.compiler.forms import Conv
from openrknn.compiler.ir import Array, Graph, Op

_LARGEST = 1 << 26
"""Numbers of a matrix of zeros and ones; a network that needs more of them has another shape in mind."""

MOVING_CONVS = frozenset({"Slice", "Concat", "Pad", "Input", "Expand", "Pick"})
"""What 1x1 convolutions that only move come from, as they say themselves."""

POINT = Conv((1, 1))
"""A 1x1 convolution over all channels."""


class TooManyError(UnsupportedOperatorError):
    """Moving these numbers by a convolution would take too many weights."""


def choice(rows: int, columns: int, kind: str, name: str) -> Array:
    """Weights [rows, columns, 1, 1] of zeros, to be filled with ones; the operator is named where they are too many."""
    if rows * columns > _LARGEST:
        raise TooManyError(
            f"{kind} {name!r}: moving {columns} numbers to {rows} places is a convolution with {rows * columns} "
            "weights; do it in your program, before or behind the model",
            operators=[name],
        )
    return np.zeros((rows, columns, 1, 1))


def identity_conv(
    graph: Graph, source: str, target: str, name: str, *, pads: Sequence[int] = (0, 0, 0, 0),
    strides: tuple[int, int] = (1, 1), pad_value: float = 0.0, why: str = "",
) -> Op:  # fmt: skip
    """A depthwise 1x1 convolution that changes nothing: it crops (negative pads), pads and takes every n-th pixel."""
    channels = graph.values[source].cube[0]
    top, left, bottom, right = pads
    form = Conv((1, 1), strides, pads=(top, left, bottom, right), group=channels, pad_value=pad_value)
    weight = graph.add_constant(f"{target}_one", np.ones((channels, 1, 1, 1)))
    bias = graph.add_constant(f"{target}_zero", np.zeros(channels))
    return Op("Conv", name, [source, weight, bias], [target], {}, (name,), form, why)


def selection_conv(graph: Graph, source: str, target: str, name: str, picks: Array, why: str) -> Op:
    """A 1x1 convolution whose output channel o is input channel picks[o]."""
    channels = graph.values[source].cube[0]
    weight = choice(len(picks), channels, why, name)
    weight[np.arange(len(picks)), picks] = 1
    kept = graph.add_constant(f"{target}_picks", weight)
    bias = graph.add_constant(f"{target}_zero", np.zeros(len(picks)))
    return Op("Conv", name, [source, kept, bias], [target], {}, (name,), POINT, why)
