"""A failing model made smaller: fewer outputs, and values that are fed instead of computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx
from onnx import helper

__all__ = ["shrink"]


def shrink(model: Any, is_bad: Callable[[Any], bool]) -> Any:
    """The smallest model found that still fails in the same way."""
    best = model
    while True:
        smaller = next((tried for tried in _smaller(best) if len(tried.graph.node) and is_bad(tried)), None)
        if smaller is None:
            return best
        best = smaller


def _smaller(model: Any) -> list[Any]:
    typed = onnx.shape_inference.infer_shapes(model)
    entries = {entry.name: entry for entry in (*typed.graph.value_info, *typed.graph.output, *typed.graph.input)}
    floats = {name for name, entry in entries.items() if entry.type.tensor_type.elem_type == onnx.TensorProto.FLOAT}
    made = [name for node in model.graph.node for name in node.output if name in floats]
    outputs = [entry.name for entry in model.graph.output]
    tried = [_part(model, [name], set(), entries) for name in made if [name] != outputs]
    tried += [_part(model, outputs, {name}, entries) for name in reversed(made) if name not in outputs]
    sizes = [(len(entry.graph.node), entry) for entry in tried]
    return [entry for count, entry in sorted(sizes, key=lambda pair: pair[0]) if count < len(model.graph.node)]


def _part(model: Any, outputs: list[str], fed: set[str], entries: dict[str, Any]) -> Any:
    needed, kept = set(outputs), []
    for node in reversed(model.graph.node):
        if any(name in needed - fed for name in node.output):
            kept.append(node)
            needed.update(node.input)
    constants = [tensor for tensor in model.graph.initializer if tensor.name in needed]
    inputs = [entry for entry in model.graph.input if entry.name in needed]
    inputs += [entries[name] for name in sorted(fed) if name in needed]
    graph = helper.make_graph(kept[::-1], "part", inputs, [entries[name] for name in outputs], constants)
    return helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
