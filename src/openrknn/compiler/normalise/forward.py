"""y = a * x + b per channel in front of convolutions becomes part of them: no task, and no rounding in between.

    w' = w * a        bias' = bias + sum of w * b

Padding holds y = 0 there, which is x = -b / a: the convolution pads with that number, if all channels have the same.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from openrknn.compiler.forms import Conv
from openrknn.compiler.identity import MOVING_CONVS
from openrknn.compiler.ir import Array, Graph, Op

_MOST_UNEVEN = 8.0
"""Factors that differ more would spoil the scale of the weights that they go into."""
_LARGEST_PAD = 4.0
"""The range of x has to hold the number that it is padded with."""


def fold_forward(graph: Graph) -> None:
    """Scaling operators whose readers are all convolutions; after convolutions have their final attributes."""
    if graph.given:  # quantised models say how each of these values is rounded
        return
    for op in list(graph.ops):
        if not _scales(graph, op) or op.output in graph.outputs:
            continue
        readers = [entry for entry in graph.ops if op.output in entry.inputs]
        if not readers:
            continue
        factor = graph.constants[op.inputs[1]].astype(np.float64).reshape(-1)
        summand = graph.constants[op.inputs[2]].astype(np.float64).reshape(-1)
        if all(_takes(graph, reader, op.output, factor, summand) for reader in readers):
            for reader in readers:
                _into(graph, reader, op, factor, summand)
            graph.ops.remove(op)
    graph.prune()


def _scales(graph: Graph, op: Op) -> bool:
    """A depthwise convolution of one tap, and nothing else."""
    if op.type != "Conv" or len(op.inputs) != 3 or op.activation or any(op.get(Conv).pads):
        return False
    conv = op.get(Conv)
    weight = graph.constants[op.inputs[1]]
    shape = graph.shape(op.inputs[0])
    is_point = conv.kernel == conv.strides == (1, 1)
    if not is_point or conv.group != len(weight) or weight.shape[1] != 1 or len(shape) != 4:
        return False
    size = np.abs(weight)
    is_even = bool(size.min() > 0 and size.max() / size.min() <= _MOST_UNEVEN)
    return op.origin not in MOVING_CONVS and is_even


def _takes(graph: Graph, op: Op, name: str, factor: Array, summand: Array) -> bool:
    if op.type != "Conv" or op.inputs[0] != name or name in op.inputs[1:] or op.origin in MOVING_CONVS:
        return False
    if op.inputs[1] in graph.stored or op.get(Conv).group not in {1, len(factor)}:
        return False
    pad = _padding(op, factor, summand)
    return not any(op.get(Conv).pads) or bool(np.ptp(pad) <= 1e-3 * abs(pad[0]) and abs(pad[0]) <= _LARGEST_PAD)


def _padding(op: Op, factor: Array, summand: Array) -> Array:
    result: Array = (op.get(Conv).pad_value - summand) / factor
    return result


def _into(graph: Graph, op: Op, scale: Op, factor: Array, summand: Array) -> None:
    weight = graph.constants[op.inputs[1]].astype(np.float64)
    conv = op.get(Conv)
    if conv.group == 1:
        added = weight.sum((2, 3)) @ summand
        weight = weight * factor.reshape(1, -1, 1, 1)
    else:
        per_output = len(weight) // len(factor)
        added = weight.sum((1, 2, 3)) * np.repeat(summand, per_output)
        weight = weight * np.repeat(factor, per_output).reshape(-1, 1, 1, 1)
    bias = graph.constants[op.inputs[2]].astype(np.float64) + added
    pad = float(_padding(op, factor, summand)[0])
    op.inputs = [
        scale.inputs[0], graph.add_constant(f"{op.output}_weight", weight),
        graph.add_constant(f"{op.output}_bias", bias), *op.inputs[3:],
    ]  # fmt: skip
    op.fused = (*scale.fused, *op.fused)
    if any(conv.pads):
        op.form = replace(conv, pad_value=pad)
