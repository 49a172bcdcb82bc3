"""What can run in one task does: activations and residual additions move into the convolution before them."""

from __future__ import annotations

import math

from openrknn.compiler.functions import FUNCTIONS
from openrknn.compiler.ir import Graph, Op
from openrknn.compiler.normalise.common import sole_reader

__all__ = ["fuse", "fuse_pads"]


def fuse_pads(graph: Graph) -> None:
    """A Pad with zeros in front of a convolution or pooling is its padding."""
    for op in list(graph.ops):
        if op.type != "Conv" or op.attributes.get("from") != "Pad" or op.attributes.get("pad_value"):
            continue
        reader = sole_reader(graph, op.output)
        if reader is None or reader.type != "Conv" or reader.inputs[0] != op.output or len(reader.inputs) > 3:
            continue
        if reader.attributes.get("pad_value"):
            continue
        total = [a + b for a, b in zip(op.attributes["pads"], reader.attributes["pads"], strict=True)]
        if max(total[:2]) > 15:
            continue
        reader.attributes["pads"] = tuple(total)
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
        if maker.attributes.get("edges"):  # they are corrected after the convolution
            continue
        if maker.attributes.get("activation") or len(maker.inputs) > 3 or not _is_bounded(op):
            continue
        maker.attributes["activation"] = dict(op.attributes)
        maker.outputs = [op.output]
        maker.fused = (*maker.fused, *(op.fused or (op.name,)))
        graph.ops.remove(op)


def _is_bounded(op: Op) -> bool:
    """Whether its table does not depend on how far its inputs reach: fused, they are not seen by calibration."""
    function = op.attributes["function"]
    return function not in FUNCTIONS or math.isfinite(FUNCTIONS[function][1])


def _residuals(graph: Graph) -> None:
    for op in list(graph.ops):
        if op.type != "Binary" or op.attributes["method"] != "add" or op.attributes["broadcast"] != "pixel":
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
    if op.type != "Conv" or len(op.inputs) > 3 or op.attributes["group"] != 1:
        return False
    activation = op.attributes.get("activation")
    return activation is None or activation["function"] == "relu"


def _relus(graph: Graph) -> None:
    for op in list(graph.ops):
        if op.type != "Activation" or op.attributes["function"] != "relu":
            continue
        maker = graph.producer(op.inputs[0])
        if maker is None or sole_reader(graph, op.inputs[0]) is not op or maker.attributes.get("post_relu"):
            continue
        is_residual = maker.type == "Conv" and len(maker.inputs) > 3
        if is_residual or (maker.type == "Binary"):
            maker.attributes["post_relu"] = True
            maker.outputs = [op.output]
            maker.fused = (*maker.fused, op.name)
            graph.ops.remove(op)
