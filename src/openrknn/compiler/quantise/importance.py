"""How much an error in each channel of a value matters: what the convolutions that read it make of it."""

from __future__ import annotations

import numpy as np

from openrknn.compiler.ir import Array, Graph, Op

__all__ = ["importance"]


def importance(graph: Graph) -> dict[str, Array]:
    """Value -> one number per channel, 1 on average; only where every reader is a convolution."""
    found: dict[str, Array] = {}
    for name, readers in graph.readers().items():
        shares = [_share(graph, op, name) for op in readers]
        known = [share for share in shares if share is not None]
        if not known or len(known) < len(shares) or name in graph.outputs:
            continue
        total = np.sum(known, axis=0)
        if total.max() > 0:
            found[name] = total / total.mean()
    return found


def _share(graph: Graph, op: Op, name: str) -> Array | None:
    """The squares of the weights that each channel meets."""
    if op.type != "Conv" or op.inputs[0] != name or name in op.inputs[1:]:
        return None
    weights = graph.constants[op.inputs[1]].astype(np.float64)
    group = op.attributes["group"]
    if group == 1:
        result: Array = (weights**2).sum((0, 2, 3))
        return result
    if weights.shape[1] == 1 and group == len(weights):
        result = (weights**2).sum((1, 2, 3))
        return result
    return None
