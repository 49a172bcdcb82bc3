"""One number type: float. Models in half, bfloat16 or double become float, and so do inputs that are cast at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from openrknn.compiler.errors import ModelError
from openrknn.compiler.float_model import onnx_package

__all__ = ["as_float", "refuse_integers"]


def as_float(model: Any) -> None:
    """Change the model in place; what the NPU computes with is decided later."""
    proto = onnx_package().TensorProto
    others = {proto.FLOAT16, proto.BFLOAT16, proto.DOUBLE}
    _graph(model.graph, others, proto)
    for entry in model.graph.input:
        kind = entry.type.tensor_type
        is_float = kind.elem_type in {proto.FLOAT, proto.UNDEFINED}
        if kind.elem_type in others or (not is_float and _is_cast(model.graph, entry.name, proto)):
            kind.elem_type = proto.FLOAT
    for entry in model.graph.output:
        if entry.type.tensor_type.elem_type in others:
            entry.type.tensor_type.elem_type = proto.FLOAT


def refuse_integers(model: Any) -> None:
    """Indices and truths (token ids, masks) are the CPU's; narrower integers have no place in a model's inputs."""
    onnx = onnx_package()
    proto = onnx.TensorProto
    known = {proto.FLOAT, proto.UNDEFINED, proto.INT64, proto.INT32, proto.BOOL}
    names = {tensor.name for tensor in model.graph.initializer}
    used = {name for node in model.graph.node for name in node.input}
    for entry in model.graph.input:
        kind = entry.type.tensor_type.elem_type
        if entry.name in names or entry.name not in used or kind in known:
            continue
        label = proto.DataType.Name(kind).lower()
        reader = next(node for node in model.graph.node if entry.name in node.input)
        raise ModelError(
            f"input {entry.name!r} is {label} and read by {reader.op_type} {reader.name or reader.output[0]!r}: there "
            "are floats, int32, int64 and bool only. Do that operator in your program, and export the model from its "
            "result on",
            operators=(reader.name, *reader.output),
        )


def _is_cast(graph: Any, name: str, proto: Any) -> bool:
    readers = [node for node in graph.node if name in node.input]
    targets = {entry.i for node in readers for entry in node.attribute if entry.name == "to"}
    return bool(readers) and all(node.op_type == "Cast" for node in readers) and targets == {proto.FLOAT}


def _graph(graph: Any, others: set[int], proto: Any) -> None:
    for tensor in graph.initializer:
        _tensor(tensor, others)
    for node in graph.node:
        for entry in node.attribute:
            if entry.HasField("t"):
                _tensor(entry.t, others)
            if entry.HasField("g"):
                _graph(entry.g, others, proto)
            if node.op_type in {"Cast", "ConstantOfShape"} and entry.name == "to" and entry.i in others:
                entry.i = proto.FLOAT


def _tensor(tensor: Any, others: set[int]) -> None:
    if tensor.data_type not in others:
        return
    onnx = onnx_package()
    array = onnx.numpy_helper.to_array(tensor).astype(np.float32)
    tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
