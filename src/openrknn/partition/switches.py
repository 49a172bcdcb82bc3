"""Inputs that only choose a branch: a sample rate, `use_cache`."""

from __future__ import annotations

from typing import Any

from openrknn.compiler.float_model import onnx_package
from openrknn.compiler.importer.shapes import model_inputs
from openrknn.onnxgraph import makers_of, values_behind


def switches_of(model: Any) -> list[str]:
    """Single integers and truths that the condition of an `If` is computed from."""
    proto = onnx_package().TensorProto
    nodes = model.graph.node
    behind = values_behind(makers_of(nodes), [node.input[0] for node in nodes if node.op_type == "If"])
    found = []
    for entry in model_inputs(model):
        kind = entry.type.tensor_type
        sizes = [dim.dim_value for dim in kind.shape.dim]
        # A token is a single integer, too, but never without a dimension: each would be compiled for.
        is_single = not sizes if kind.elem_type in {proto.INT64, proto.INT32} else sizes in ([], [1])
        if entry.name in behind and kind.elem_type in {proto.INT64, proto.INT32, proto.BOOL} and is_single:
            found.append(entry.name)
    return found
