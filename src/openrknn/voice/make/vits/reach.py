"""How far a convolutional network looks: which frames of the input one frame of the output depends on."""

from __future__ import annotations

from math import ceil, floor
from typing import Any

import numpy as np

from openrknn.onnxgraph import OnnxGraph
from openrknn.voice.errors import VoiceSetError

_FAR = 1 << 20
"""Where the frame is that is looked at: far from both ends."""


def reach_of(graph: OnnxGraph, source: str, result: str) -> tuple[int, int]:
    """(Samples of the result for each frame of the source, frames that are needed on either side)."""
    below = graph.below(source)
    order = [number for number in range(len(graph.nodes)) if number in below]
    rates: dict[str, float] = {source: 1.0}
    for number in order:
        node = graph.nodes[number]
        rate = next((rates[name] for name in node.input if name in rates), 1.0)
        if node.op_type == "ConvTranspose":
            rate *= _numbers(node, "strides", [1])[0]
        if node.op_type == "Conv":
            rate /= _numbers(node, "strides", [1])[0]
        rates.update(dict.fromkeys(node.output, rate))
    hop = rates[result]
    if hop != int(hop) or hop < 1:
        raise VoiceSetError(f"one frame makes {hop} samples; a voice makes a whole number of them")
    first = _FAR * int(hop)
    needs: dict[str, tuple[int, int]] = {result: (first, first + int(hop) - 1)}
    for number in reversed(order):
        node = graph.nodes[number]
        ranges = [needs[name] for name in node.output if name in needs]
        if not ranges or node.op_type == "Shape":
            continue
        low, high = min(low for low, _ in ranges), max(high for _, high in ranges)
        if node.op_type in ("Conv", "ConvTranspose"):
            low, high = _through(graph, node, low, high)
            names = node.input[:1]
        else:
            names = node.input
        for name in names:
            old = needs.get(name, (low, high))
            needs[name] = min(low, old[0]), max(high, old[1])
    low, high = needs[source]
    return int(hop), max(_FAR - low, high - _FAR)


def _through(graph: OnnxGraph, node: Any, low: int, high: int) -> tuple[int, int]:
    """The range of the input that a range of the output is made of."""
    weights = graph.constant(node.input[1])
    if weights is None or weights.ndim != 3:
        raise VoiceSetError(f"{node.op_type} {node.name!r}: its weights are not a constant of three dimensions")
    span = (weights.shape[2] - 1) * _numbers(node, "dilations", [1])[0]
    stride, before = _numbers(node, "strides", [1])[0], _numbers(node, "pads", [0, 0])[0]
    if node.op_type == "Conv":
        return low * stride - before, high * stride - before + span
    return ceil((low + before - span) / stride), floor((high + before) / stride)


def _numbers(node: Any, name: str, default: list[int]) -> list[int]:
    for entry in node.attribute:
        if entry.name == name:
            return [int(value) for value in np.asarray(entry.ints)]
    return default
