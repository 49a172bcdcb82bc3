"""Linear upsampling by whole factors: a depthwise transposed convolution, and a correction of the edges.

With zeros beyond the edge, an output pixel near it misses the share of the pixel that is not there; replicating the
edge would give that share to the edge pixel itself. So the result only has to be divided by the sum of the weights that
did find a pixel: a factor per row and column, on `factor // 2` rows and columns at each edge.
"""

from __future__ import annotations

import numpy as np

from openrknn.compiler.ir import Array, Graph, Op
from openrknn.compiler.normalise.common import replace_op

_LARGEST_FACTOR = 8
_APART = 4
"""From here on rows and columns are done one after the other: 2 * 16 taps instead of 16 * 16."""
_MODES = {"half_pixel", "pytorch_half_pixel"}


def normalise_linear_resize(graph: Graph) -> None:
    """Resize of maps with mode linear and half-pixel centres."""
    for op in list(graph.ops):
        if op.type in {"Resize", "Upsample"} and op.attributes.get("mode") in {"linear", "bilinear"}:
            _resize(graph, op)


def _resize(graph: Graph, op: Op) -> None:
    shape, target = graph.shape(op.inputs[0]), graph.shape(op.output)
    mode = op.attributes.get("coordinate_transformation_mode", "half_pixel")
    op.attributes["reason"] = "linear resizing is supported for integer factors up to 8 with half-pixel centres"
    if len(shape) != 4 or shape[:2] != target[:2] or shape[0] != 1 or mode not in _MODES or op.type != "Resize":
        return
    factors = target[2] // shape[2], target[3] // shape[3]
    if (shape[2] * factors[0], shape[3] * factors[1]) != target[2:] or min(shape[2:]) < 2:
        return
    if not 1 <= min(factors) <= max(factors) <= _LARGEST_FACTOR:
        return
    if min(factors) < _APART:
        replace_op(graph, op, _transposed(graph, op, op.inputs[0], op.output, factors))
        return
    between = graph.add_derived(f"{op.output}_rows", (*shape[:2], target[2], shape[3]), op.inputs[0])
    replace_op(
        graph, op,
        _transposed(graph, op, op.inputs[0], between, (factors[0], 1)),
        _transposed(graph, op, between, op.output, (1, factors[1])),
    )  # fmt: skip


def _transposed(graph: Graph, op: Op, source: str, target: str, factors: tuple[int, int]) -> Op:
    channels = graph.shape(source)[1]
    taps = np.multiply.outer(_taps(factors[0]), _taps(factors[1]))
    weight = np.broadcast_to(taps, (channels, 1, *taps.shape)).copy()
    pads = [(len(_taps(factor)) - factor) // 2 for factor in factors]
    attributes = {
        "strides": list(factors), "kernel_shape": list(taps.shape), "pads": [pads[0], pads[1], pads[0], pads[1]],
        "group": channels, "edges": (_edge(factors[0]), _edge(factors[1])),
    }  # fmt: skip
    name = op.name if target == op.output else target
    weights = graph.add_constant(f"{target}_taps", weight)
    return Op("ConvTranspose", name, [source, weights], [target], attributes, op.fused, None, "Resize")


def _taps(factor: int) -> Array:
    """The triangle that a pixel spreads over its neighbours."""
    size = 2 * factor - factor % 2
    centre = (size - 1) / 2
    taps: Array = 1 - np.abs(np.arange(size) - centre) / factor
    return taps


def _edge(factor: int) -> tuple[float, ...]:
    """What the outermost rows have to be multiplied with, from the edge inwards."""
    sums = [0.5 + (row + 0.5) / factor for row in range(factor // 2)]
    return tuple(1 / value for value in sums)
