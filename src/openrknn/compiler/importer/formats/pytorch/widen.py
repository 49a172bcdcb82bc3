"""Half and double weights in an ONNX model as float: the NPU chooses its own precision, and ONNX Runtime computes both
with few operators only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_TYPED = {"Cast": "to", "RandomNormalLike": "dtype", "RandomUniformLike": "dtype", "EyeLike": "dtype",
          "RandomNormal": "dtype", "RandomUniform": "dtype", "Bernoulli": "dtype", "SequenceEmpty": "dtype",
          "HannWindow": "output_datatype", "HammingWindow": "output_datatype",
          "BlackmanWindow": "output_datatype"}  # fmt: skip
"""Operators with an attribute that names a type of numbers."""


def widen(model: Any) -> bool:
    """Change the model in place; whether there was anything to change."""
    import onnx

    halves: set[int] = {onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16}
    if any(one.data_type == onnx.TensorProto.DOUBLE and len(one.dims) > 1 for one in model.graph.initializer):
        halves.add(onnx.TensorProto.DOUBLE)  # a model in double; single numbers may be sizes on their way to integers
    changed = False
    for graph in _graphs(model):
        for tensor in _tensors(graph):
            if tensor.data_type in halves:
                values = onnx.numpy_helper.to_array(tensor).astype("float32")
                tensor.CopyFrom(onnx.numpy_helper.from_array(values, tensor.name))
                changed = True
        for entry in (*getattr(graph, "input", ()), *getattr(graph, "output", ()), *graph.value_info):
            if not isinstance(entry, str):
                changed |= _widen_type(entry.type, halves, onnx.TensorProto.FLOAT)
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.name == _TYPED.get(node.op_type) and attribute.i in halves:
                    attribute.i = onnx.TensorProto.FLOAT
                    changed = True
    return changed


def _widen_type(kind: Any, halves: set[int], wide: int) -> bool:
    if kind.HasField("sequence_type"):
        return _widen_type(kind.sequence_type.elem_type, halves, wide)
    if kind.HasField("optional_type"):
        return _widen_type(kind.optional_type.elem_type, halves, wide)
    if kind.HasField("tensor_type") and kind.tensor_type.elem_type in halves:
        kind.tensor_type.elem_type = wide
        return True
    return False


def _graphs(model: Any) -> Iterator[Any]:
    waiting = [model.graph, *model.functions]
    while waiting:
        graph = waiting.pop()
        yield graph
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    waiting.append(attribute.g)
                waiting.extend(attribute.graphs)


def _tensors(graph: Any) -> Iterator[Any]:
    yield from getattr(graph, "initializer", ())
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
