"""Tensors, types and attributes of an `.ort` file, as ONNX has them."""

from __future__ import annotations

import math
from typing import Any

from openrknn.compiler.errors import ModelError
from openrknn.container.flatbuffer import Table

_ITEM_COST = 32
_TENSOR_TYPE = 1
_VALUE, _PARAM = 1, 2
_FLOAT, _INT, _STRING, _TENSOR, _GRAPH, _FLOATS, _INTS, _STRINGS, _TENSORS, _GRAPHS = range(1, 11)
_TEXT_TYPE = 8
_MOST_DIMENSIONS = 64


def tensor(onnx: Any, table: Table, name: str) -> Any:
    """A TensorProto."""
    made = onnx.TensorProto(name=table.text(0), data_type=table.i32(3))
    dims = [int(size) for size in table.i64s(2, cost=_ITEM_COST)]
    if len(dims) > _MOST_DIMENSIONS or any(size < 0 for size in dims):
        raise ModelError(f"{name}: tensor {made.name!r} has the shape {dims}; the file is damaged")
    made.dims.extend(dims)
    if made.data_type == _TEXT_TYPE:
        made.string_data.extend(text.encode() for text in table.texts(5))
        return made
    raw = table.u8s(4)
    if table.i64(6) > 0 and not len(raw) and 0 not in dims:
        raise ModelError(f"{name}: tensor {made.name!r} is in another file; convert the model with its weights inside")
    try:
        size = onnx.helper.tensor_dtype_to_np_dtype(made.data_type).itemsize
    except KeyError:
        raise ModelError(f"{name}: tensor {made.name!r} has type {made.data_type}, which ONNX does not have") from None
    if math.prod(dims) * size != len(raw):
        raise ModelError(f"{name}: tensor {made.name!r} of shape {dims} has {len(raw)} bytes; the file is damaged")
    made.raw_data = bytes(raw)
    return made


def value_info(onnx: Any, label: str, table: Table | None, name: str) -> Any:
    """A ValueInfoProto; sequences and maps are refused."""
    made = onnx.ValueInfoProto(name=label)
    info = table.table(2) if table is not None else None
    if info is None:
        return made
    value = info.table(2)
    if value is None:
        return made
    if info.u8(1) != _TENSOR_TYPE:
        raise ModelError(f"{name}: {label!r} is a sequence or a map; there are tensors only")
    made.type.tensor_type.elem_type = value.i32(0)
    shape = value.table(1)
    if shape is not None:
        made.type.tensor_type.shape.SetInParent()
        for entry in shape.tables(0):
            size = made.type.tensor_type.shape.dim.add()
            stated = entry.table(0)
            if stated is not None and stated.u8(0) == _VALUE:
                size.dim_value = stated.i64(1)
            elif stated is not None and stated.u8(0) == _PARAM:
                size.dim_param = stated.text(2)
    return made


def attribute(onnx: Any, table: Table, name: str) -> Any:
    """An AttributeProto; nothing for graphs, which the caller reads."""
    kind = table.i32(2)
    if kind in {_GRAPH, _GRAPHS}:
        return None
    made = onnx.AttributeProto(name=table.text(0), type=kind)
    if kind == _FLOAT:
        made.f = table.f32(3)
    elif kind == _INT:
        made.i = table.i64(4)
    elif kind == _STRING:
        made.s = table.text(5).encode()
    elif kind == _TENSOR:
        value = table.table(6)
        if value is None:
            raise ModelError(f"{name}: attribute {made.name!r} is a tensor without a tensor; the file is damaged")
        made.t.CopyFrom(tensor(onnx, value, name))
    elif kind == _FLOATS:
        made.floats.extend(float(entry) for entry in table.f32s(8, cost=_ITEM_COST))
    elif kind == _INTS:
        made.ints.extend(int(entry) for entry in table.i64s(9, cost=_ITEM_COST))
    elif kind == _STRINGS:
        made.strings.extend(text.encode() for text in table.texts(10))
    elif kind == _TENSORS:
        made.tensors.extend(tensor(onnx, entry, name) for entry in table.tables(11))
    else:
        raise ModelError(f"{name}: attribute {made.name!r} has type {kind}; it cannot be read")
    return made
