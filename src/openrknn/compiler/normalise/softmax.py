"""Softmax along one axis, in forms that every runtime computes alike."""

from __future__ import annotations

from math import prod

from openrknn.compiler.ir import Graph, Op
from openrknn.compiler.normalise.common import replace_op

__all__ = ["normalise_softmax"]

_PLANES = 4


def normalise_softmax(graph: Graph) -> None:
    """Axes other than the last become the third of four: where there are not four dimensions, the vendor's runtime
    1.5.2 flattens what is behind the axis, as ONNX did before opset 13."""
    for op in list(graph.ops):
        if op.type != "Softmax" or "groups" in op.attributes:  # the NPU has them over channels
            continue
        shape = graph.shape(op.inputs[0])
        axis = range(len(shape))[int(op.attributes.get("axis", -1))]
        if axis != len(shape) - 1 and len(shape) != _PLANES:
            _reshaped(graph, op, (1, prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])))


def _reshaped(graph: Graph, op: Op, shape: tuple[int, ...]) -> None:
    before = graph.add_value(f"{op.inputs[0]}_rows", shape)
    after = graph.add_value(f"{op.output}_rows", shape)
    graph.derived[before] = (op.inputs[0], lambda values: values)
    graph.derived[after] = (op.output, lambda values: values)
    replace_op(
        graph, op,
        Op("Reshape", f"{op.name}_rows", [op.inputs[0]], [before], {}, op.fused),
        Op("Softmax", op.name, [before], [after], {**op.attributes, "axis": 2}, op.fused),
        Op("Reshape", f"{op.name}_shape", [after], [op.output], {}, op.fused),
    )  # fmt: skip
