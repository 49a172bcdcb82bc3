"""One number type: float. Models in half, bfloat16 or double become float, and so do inputs that are cast at once.

Narrow integers are inputs (pictures, small ids) and outputs only: they become floats or wider integers where that is
exact, which is up to the first cast, and from the last one on.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

import numpy as np

from openrknn.compiler.errors import ModelError
from openrknn.compiler.float_model import onnx_package
from openrknn.compiler.operators import SINGLE_MOVES
from openrknn.onnxgraph import makers_of, readers_of


def as_float(model: Any) -> None:
    """Change the model in place; what the NPU computes with is decided later."""
    proto = onnx_package().TensorProto
    others = {proto.FLOAT16, proto.BFLOAT16, proto.DOUBLE}
    _graph(model.graph, others, proto)
    readers = readers_of(model.graph.node)
    for entry in model.graph.input:
        kind = entry.type.tensor_type
        if kind.elem_type in others:
            kind.elem_type = proto.FLOAT
        elif kind.elem_type not in {proto.FLOAT, proto.UNDEFINED}:
            moves = set() if kind.elem_type in {proto.INT64, proto.INT32, proto.BOOL} else SINGLE_MOVES
            kind.elem_type = _wider(kind.elem_type, _casts(readers, entry.name, moves), proto)
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


def _casts(readers: Mapping[str, list[Any]], start: str, moves: Set[str]) -> set[int]:
    """The types that a value is cast to before anything else than `moves`; empty if anything else comes first."""
    waiting, found = [start], set()
    while waiting:
        name = waiting.pop()
        for node in readers.get(name, ()):
            if node.op_type == "Cast":
                found.add(next(int(entry.i) for entry in node.attribute if entry.name == "to"))
            elif node.op_type in moves and node.input[0] == name and name not in node.input[1:]:
                waiting += node.output
            else:
                return set()
        if name not in readers:  # an output, or nothing
            return set()
    return found


def _wider(kind: int, casts: set[int], proto: Any) -> int:
    """The type of an input of integers: float where only floats are made of it, and 32 or 64 bits for narrow ones."""
    if casts == {proto.FLOAT}:
        return int(proto.FLOAT)
    if not casts:
        return kind
    if kind in {proto.UINT8, proto.INT8, proto.UINT16, proto.INT16}:
        return int(proto.INT32)
    return int(proto.INT64) if kind == proto.UINT32 else kind


def widen_outputs(model: Any) -> None:
    """Floats that are cast to narrow integers at the very end are cast to 32 bits, which have all of these."""
    proto = onnx_package().TensorProto
    narrow = {proto.UINT8, proto.INT8, proto.UINT16, proto.INT16}
    makers = makers_of(model.graph.node)
    readers = readers_of(model.graph.node)
    entries = {entry.name: entry for entry in (*model.graph.value_info, *model.graph.input, *model.graph.output)}
    for output in model.graph.output:
        way = [output.name]
        node = makers.get(output.name)
        while node is not None and node.op_type in SINGLE_MOVES and len(readers[node.input[0]]) == 1:
            way.append(node.input[0])
            node = makers.get(node.input[0])
        if node is None or node.op_type != "Cast":
            continue
        source = entries.get(node.input[0])
        if source is None or source.type.tensor_type.elem_type != proto.FLOAT or output.name in readers:
            continue
        target = next(entry for entry in node.attribute if entry.name == "to")
        if target.i in narrow:
            target.i = proto.INT32
            for name in way:
                entries[name].type.tensor_type.elem_type = proto.INT32


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
