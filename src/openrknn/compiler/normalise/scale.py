"""Arithmetic with constants: y = a * x + b per channel becomes part of a convolution, or a 1x1 depthwise one."""

from __future__ import annotations

import numpy as np

from openrknn.compiler.forms import Conv
from openrknn.compiler.identity import MOVING_CONVS
from openrknn.compiler.ir import Array, Graph, Op
from openrknn.compiler.normalise.common import channel_constant, replace_op, sole_reader
from openrknn.compiler.operators import AFFINE


def fold_scales(graph: Graph) -> None:
    """BatchNormalization, and Add, Sub, Mul, Div with a constant per channel."""
    changed = True
    while changed:
        changed = False
        for op in list(graph.ops):
            found = _scale_of(graph, op)
            if found is not None:
                _apply(graph, op, *found)
                changed = True
    graph.prune()


def _scale_of(graph: Graph, op: Op) -> tuple[str, Array, Array] | None:
    """(activation, factor, summand) of an operator that scales."""
    if op.type == "BatchNormalization":
        if op.attributes.get("training_mode") or any(name not in graph.constants for name in op.inputs[1:5]):
            op.attributes["reason"] = "its statistics are computed at run time; export the model for inference"
            return None
        gamma, beta, mean, variance = (graph.constants[name].astype(np.float64) for name in op.inputs[1:5])
        factor = gamma / np.sqrt(variance + float(op.attributes.get("epsilon", 1e-5)))
        return op.inputs[0], factor, beta - mean * factor
    if op.type not in AFFINE or len(graph.activations(op)) != 1:
        return None
    first_is_constant = op.inputs[0] in graph.constants
    name = op.inputs[1] if first_is_constant else op.inputs[0]
    shape = graph.shape(name)
    values = channel_constant(graph, op.inputs[0] if first_is_constant else op.inputs[1], shape)
    if values is None or graph.shape(op.output) != shape or shape[0] != 1:
        return None
    one, zero = np.ones_like(values), np.zeros_like(values)
    if op.type == "Add":
        return name, one, values
    if op.type == "Mul":
        return name, values, zero
    if op.type == "Sub":
        return (name, -one, values) if first_is_constant else (name, one, -values)
    return None if first_is_constant else (name, 1 / values, zero)


def _apply(graph: Graph, op: Op, name: str, factor: Array, summand: Array) -> None:
    producer = graph.producer(name)
    if producer is not None and sole_reader(graph, name) is op and _takes_scale(producer):
        _into(graph, producer, factor, summand)
        producer.outputs = [op.output]
        producer.fused = (*producer.fused, op.name)
        graph.ops.remove(op)
        return
    channels = len(factor)
    weight = graph.add_constant(f"{op.output}_scale", factor.reshape(channels, 1, 1, 1))
    bias = graph.add_constant(f"{op.output}_shift", summand)
    form, fused = Conv((1, 1), group=channels), (*op.fused, op.name)
    replace_op(graph, op, Op("Conv", op.name, [name, weight, bias], [op.output], {}, fused, form, op.type))


def _takes_scale(op: Op) -> bool:
    return op.type in {"Conv", "ConvTranspose"}


def _into(graph: Graph, op: Op, factor: Array, summand: Array) -> None:
    if op.origin in MOVING_CONVS:  # it does more than that now, and its result has another range
        op.origin = "Mul"
    weight = graph.constants[op.inputs[1]].astype(np.float64)
    old = graph.constants[op.inputs[2]] if len(op.inputs) > 2 and op.inputs[2] else np.zeros(len(factor))
    if op.type == "ConvTranspose":  # [inputs, outputs per group, ...]
        groups = int(op.attributes.get("group", 1))
        per_group = factor.reshape(groups, 1, -1)
        scaled = (weight.reshape(groups, weight.shape[0] // groups, weight.shape[1], -1) * per_group[..., None])
        weight = scaled.reshape(weight.shape)
    else:
        weight = weight * factor.reshape(-1, *[1] * (weight.ndim - 1))
    op.inputs = [
        op.inputs[0],
        graph.add_constant(f"{op.output}_weight", weight),
        graph.add_constant(f"{op.output}_bias", old.astype(np.float64) * factor + summand),
    ]
