"""What can run in one task does: activations and residual additions move into the convolution before them."""

from __future__ import annotations

import math
from dataclasses import replace

from openrknn.compiler.forms import Activation, Binary, Conv
from openrknn.compiler.functions import FUNCTIONS
from openrknn.compiler.ir import Graph, Op
from openrknn.compiler.normalise.common import sole_reader


def fuse_pads(graph: Graph) -> None:
    """A Pad with zeros in front of a convolution or pooling is its padding."""
    for op in list(graph.ops):
        if op.type != "Conv" or op.origin != "Pad" or op.get(Conv).pad_value:
            continue
        reader = sole_reader(graph, op.output)
        if reader is None or reader.type != "Conv" or reader.inputs[0] != op.output or len(reader.inputs) > 3:
            continue
        conv = reader.get(Conv)
        if conv.pad_value:
            continue
        top, left, bottom, right = (a + b for a, b in zip(op.get(Conv).pads, conv.pads, strict=True))
        if max(top, left) > 15:
            continue
        reader.form = replace(conv, pads=(top, left, bottom, right))
        reader.inputs[0] = op.inputs[0]
        reader.fused = (*reader.fused, op.name)
        graph.ops.remove(op)
    graph.prune()


def fuse(graph: Graph) -> None:
    """Activations into convolutions, additions into convolutions, and ReLU into additions."""
    _activations(graph)
    _residuals(graph)
    _relus(graph)
    graph.prune()


def _activations(graph: Graph) -> None:
    for op in list(graph.ops):
        if op.type != "Activation":
            continue
        maker = graph.producer(op.inputs[0])
        if maker is None or maker.type not in {"Conv", "ConvTranspose"} or sole_reader(graph, op.inputs[0]) is not op:
            continue
        conv, activation = maker.get(Conv), op.get(Activation)
        if conv.edges:  # they are corrected after the convolution
            continue
        if conv.activation or len(maker.inputs) > 3 or not _is_bounded(activation):
            continue
        maker.form = replace(conv, activation=activation)
        maker.outputs = [op.output]
        maker.fused = (*maker.fused, *(op.fused or (op.name,)))
        graph.ops.remove(op)


def _is_bounded(activation: Activation) -> bool:
    """Whether its table does not depend on how far its inputs reach: fused, they are not seen by calibration."""
    function = activation.function
    return function not in FUNCTIONS or math.isfinite(FUNCTIONS[function][1])


def _residuals(graph: Graph) -> None:
    for op in list(graph.ops):
        if not isinstance(op.form, Binary) or op.form.method != "add" or op.form.broadcast != "pixel":
            continue
        if any(name in graph.constants for name in op.inputs) or op.inputs[0] == op.inputs[1]:
            continue
        order = {name: number for number, entry in enumerate(graph.ops) for name in entry.outputs}
        names = sorted(op.inputs, key=lambda name: -order.get(name, -1))
        for name in names:
            maker = graph.producer(name)
            other = op.inputs[1] if op.inputs[0] == name else op.inputs[0]
            if maker is None or not _takes_residual(maker) or sole_reader(graph, name) is not op:
                continue
            if order.get(other, -1) > order[name]:
                continue
            maker.inputs = [*maker.inputs, other]
            maker.outputs = [op.output]
            maker.fused = (*maker.fused, *(op.fused or (op.name,)))
            graph.ops.remove(op)
            break


def _takes_residual(op: Op) -> bool:
    if op.type != "Conv" or len(op.inputs) > 3 or op.get(Conv).group != 1:
        return False
    return op.activation is None or op.activation.function == "relu"


def _relus(graph: Graph) -> None:
    for op in list(graph.ops):
        if op.type != "Activation" or op.get(Activation).function != "relu":
            continue
        maker = graph.producer(op.inputs[0])
        if maker is None or not isinstance(maker.form, Binary | Conv) or sole_reader(graph, op.inputs[0]) is not op:
            continue
        is_residual = maker.type == "Conv" and len(maker.inputs) > 3
        if (is_residual or maker.type == "Binary") and not maker.form.post_relu:
            maker.form = replace(maker.form, post_relu=True)
            maker.outputs = [op.output]
            maker.fused = (*maker.fused, op.name)
            graph.ops.remove(op)
