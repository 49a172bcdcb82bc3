"""Convolutions that only move numbers: the NPU crops, pads and picks channels with them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from openrknn.compiler.ir import Array, Graph, Op

__all__ = ["identity_conv", "selection_conv"]


def identity_conv(
    graph: Graph, source: str, target: str, name: str, *, pads: Sequence[int] = (0, 0, 0, 0),
    strides: tuple[int, int] = (1, 1), pad_value: float = 0.0, why: str = "",
) -> Op:  # fmt: skip
    """A depthwise 1x1 convolution that changes nothing: it crops (negative pads), pads and takes every n-th pixel."""
    channels = graph.values[source].cube[0]
    attributes = {
        "kernel": (1, 1), "strides": strides, "dilations": (1, 1), "pads": tuple(pads), "group": channels,
        "pad_value": pad_value, "from": why,
    }  # fmt: skip
    weight = graph.add_constant(f"{target}_one", np.ones((channels, 1, 1, 1)))
    bias = graph.add_constant(f"{target}_zero", np.zeros(channels))
    return Op("Conv", name, [source, weight, bias], [target], attributes, (name,))


def selection_conv(graph: Graph, source: str, target: str, name: str, picks: Array, why: str) -> Op:
    """A 1x1 convolution whose output channel o is input channel picks[o]."""
    channels = graph.values[source].cube[0]
    weight = np.zeros((len(picks), channels, 1, 1))
    weight[np.arange(len(picks)), picks] = 1
    attributes = {
        "kernel": (1, 1), "strides": (1, 1), "dilations": (1, 1), "pads": (0, 0, 0, 0), "group": 1, "from": why,
    }  # fmt: skip
    return Op(
        "Conv", name,
        [
            source,
            graph.add_constant(f"{target}_picks", weight),
            graph.add_constant(f"{target}_zero", np.zeros(len(picks))),
        ],
        [target], attributes, (name,),
    )  # fmt: skip
