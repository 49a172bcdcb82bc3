"""From a folded `ModelProto` to the intermediate form."""

from __future__ import annotations

from typing import Any

import numpy as np

from openrknn.compiler.errors import ModelError
from openrknn.compiler.importer.fold import constants_of
from openrknn.compiler.importer.read import onnx_package
from openrknn.compiler.importer.shapes import known_shapes
from openrknn.compiler.ir import Array, Graph, Op, Value

__all__ = ["build_graph"]


def build_graph(model: Any) -> Graph:
    """Operators with their ONNX types and attributes; every value has a shape, every constant is finite."""
    onnx = onnx_package()
    constants = constants_of(model)
    shapes = known_shapes(model)
    graph = Graph(
        name=model.graph.name or "model",
        inputs=[entry.name for entry in model.graph.input if entry.name not in constants],
        outputs=[entry.name for entry in model.graph.output],
    )
    for node in model.graph.node:
        graph.ops.append(
            Op(
                type=node.op_type if node.domain in {"", "ai.onnx"} else f"{node.domain}.{node.op_type}",
                name=node.name or node.output[0],
                inputs=list(node.input),
                outputs=[name for name in node.output if name],
                attributes={entry.name: _attribute(onnx, entry) for entry in node.attribute},
            )
        )
    for name in (*graph.inputs, *(name for op in graph.ops for name in op.outputs)):
        if name not in shapes:
            raise ModelError(f"the shape of {name!r} cannot be worked out; bind the inputs with --shapes")
        graph.values[name] = Value(name, shapes[name])
    graph.constants = constants
    for name in graph.outputs:
        if name not in graph.values and name in constants:
            raise ModelError(f"output {name!r} is a constant; leave it out with --outputs")
    graph.sort()
    graph.prune()
    _check_constants(graph)
    return graph


def _attribute(onnx: Any, entry: Any) -> object:
    value = onnx.helper.get_attribute_value(entry)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    return list(value) if not isinstance(value, int | float | str) and hasattr(value, "__iter__") else value


def _check_constants(graph: Graph) -> None:
    users: dict[str, str] = {name: op.name for op in graph.ops for name in op.inputs}
    for name, array in graph.constants.items():
        if array.dtype.kind == "f" and not np.isfinite(_sane(array)).all():
            bad = int((~np.isfinite(array)).sum())
            raise ModelError(
                f"{bad} of {array.size} numbers in the constant {name!r} of {users.get(name, '?')!r} are NaN or "
                "infinite; train or export the model again"
            )


def _sane(array: Array) -> Array:
    """Masks are filled with the lowest float on purpose; infinities next to them are meant the same way."""
    return array if array.size > 1 else np.nan_to_num(array, nan=np.nan, posinf=0.0, neginf=0.0)
