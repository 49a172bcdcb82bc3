"""Runs an ONNX graph in float with some operators replaced: what a cause of a difference says that the NPU computes.

A replacement takes the node and its inputs and gives its output; None leaves the operator as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy.typing as npt

Array = npt.NDArray[Any]
Replacement = Callable[[Any, list[Array]], "Array | None"]


def evaluate(source: Any, feeds: dict[str, Array], replacements: Sequence[Replacement]) -> list[Array]:
    """The outputs of the graph."""
    known = tensors(source, feeds, replacements)
    return [known[item.name] for item in source.graph.output]


def tensors(source: Any, feeds: dict[str, Array], replacements: Sequence[Replacement]) -> dict[str, Array]:
    """Every tensor, node by node."""
    from onnx import numpy_helper

    known = {item.name: numpy_helper.to_array(item) for item in source.graph.initializer} | feeds
    for node in source.graph.node:
        inputs = [known[name] for name in node.input if name]
        replaced = (replacement(node, inputs) for replacement in replacements)
        result = next((array for array in replaced if array is not None), None)
        results = [result] if result is not None else alone(source, node, known)
        known |= dict(zip(node.output, results, strict=True))
    return known


def alone(source: Any, node: Any, known: dict[str, Array]) -> list[Array]:
    """One node in ONNX Runtime."""
    import onnxruntime
    from onnx import helper

    used = {name: known[name] for name in node.input if name}
    graph = helper.make_graph(
        [node],
        "node",
        [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in used.items()],
        [helper.make_empty_tensor_value_info(name) for name in node.output],
    )
    model = helper.make_model(graph, opset_imports=source.opset_import, ir_version=source.ir_version)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return list(session.run(None, used))


def attribute(node: Any, name: str, default: Any = None) -> Any:
    """An attribute of a node."""
    from onnx import helper

    return next((helper.get_attribute_value(item) for item in node.attribute if item.name == name), default)
