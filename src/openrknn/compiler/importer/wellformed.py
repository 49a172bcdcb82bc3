"""Tensors and types of an ONNX model: what ONNX's own checker does not look at, and every later stage relies on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod
from typing import Any

from openrknn.compiler.errors import ModelError
from openrknn.compiler.float_model import onnx_package
from openrknn.compiler.importer.external import tensors_of
from openrknn.compiler.operators import select

_BITS = {
    "FLOAT": 32, "UINT8": 8, "INT8": 8, "UINT16": 16, "INT16": 16, "INT32": 32, "INT64": 64, "BOOL": 8, "FLOAT16": 16,
    "DOUBLE": 64, "UINT32": 32, "UINT64": 64, "COMPLEX64": 64, "COMPLEX128": 128, "BFLOAT16": 16, "FLOAT8E4M3FN": 8,
    "FLOAT8E4M3FNUZ": 8, "FLOAT8E5M2": 8, "FLOAT8E5M2FNUZ": 8, "UINT4": 4, "INT4": 4, "FLOAT4E2M1": 4,
    "FLOAT8E8M0": 8, "UINT2": 2, "INT2": 2,
}  # fmt: skip
_FIELDS = {
    "FLOAT": "float_data", "COMPLEX64": "float_data", "DOUBLE": "double_data", "COMPLEX128": "double_data",
    "INT64": "int64_data", "UINT32": "uint64_data", "UINT64": "uint64_data", "STRING": "string_data",
}  # fmt: skip
"""Where numbers are that are not raw; all others are in int32_data."""
_TERM = r"[A-Za-z]*(?:\.\.\.[A-Za-z]*)?"
_EQUATION = re.compile(rf"{_TERM}(?:,{_TERM})*(?:->{_TERM})?")
"""Of Einsum, without spaces."""
_SHOWN = 60
_WINDOWS = select(lambda row: row.has_kernel)


def check_well_formed(model: Any, name: str) -> None:
    """Every tensor has as many numbers as its shape says, and every type is one that ONNX has."""
    types = onnx_package().TensorProto.DataType
    known = {value: key for key, value in types.items()}
    for tensor in tensors_of(model):
        _tensor(tensor, known, name)
    for graph in _graphs(model):
        for entry in (*graph.input, *graph.output, *graph.value_info):
            _value(entry, known, name)
        axes = {tensor.name: len(tensor.dims) - 2 for tensor in graph.initializer}
        for node in graph.node:
            _node(node, known, name)
            if node.op_type in _WINDOWS:
                _window(node, axes, name)


def check_equations(model: Any, name: str) -> None:
    """Of every Einsum of a model without functions: ONNX's shape inference does not end for other characters."""
    for node in (node for graph in _graphs(model) for node in graph.node if node.op_type == "Einsum"):
        given = b"".join(entry.s for entry in node.attribute if entry.name == "equation")
        text = given.replace(b" ", b"").decode("latin-1")
        if not _EQUATION.fullmatch(text):
            raise ModelError(
                f"{name}: Einsum {node.name or ''!r} has the equation {text[:_SHOWN]!r}; it must consist of letters, "
                "'...', ',' and at most one '->'. Export the model again",
                operators=(node.name, *node.output),
            )


def _tensor(tensor: Any, known: dict[int, str], name: str) -> None:
    kind = known.get(tensor.data_type, "UNDEFINED")
    if kind == "UNDEFINED" or any(size < 0 for size in tensor.dims):
        raise ModelError(
            f"{name}: the tensor {tensor.name!r} has the type {tensor.data_type} and the shape {list(tensor.dims)}, "
            "which cannot be; export the model again"
        )
    count = prod(tensor.dims)
    if tensor.HasField("raw_data"):
        bits = _BITS.get(kind, 0)
        fits = bits > 0 and len(tensor.raw_data) == -(-count * bits // 8)
        found = f"{len(tensor.raw_data)} bytes"
    else:
        values = len(getattr(tensor, _FIELDS.get(kind, "int32_data")))
        per_value = 1 if _BITS.get(kind, 8) >= 8 else 8 // _BITS[kind]
        wanted = 2 * count if kind.startswith("COMPLEX") else -(-count // per_value)
        fits, found = values == wanted, f"{values} numbers"
    if not fits:
        raise ModelError(
            f"{name}: the tensor {tensor.name!r} has the shape {list(tensor.dims)} of {kind.lower()}, and {found} of "
            "data; the file is damaged"
        )


def _value(entry: Any, known: dict[int, str], name: str) -> None:
    if entry.type.HasField("tensor_type") and entry.type.tensor_type.elem_type not in known:
        raise ModelError(
            f"{name}: {entry.name!r} has numbers of the type {entry.type.tensor_type.elem_type}, which ONNX does not "
            "have; export the model again"
        )


def _node(node: Any, known: dict[int, str], name: str) -> None:
    if node.op_type == "Cast" and node.domain in {"", "ai.onnx"}:
        wanted = [entry.i for entry in node.attribute if entry.name == "to"]
        if len(wanted) != 1 or wanted[0] not in known or not wanted[0]:
            raise ModelError(
                f"{name}: Cast {node.name or ''!r} does not say to which type of numbers; export the model again",
                operators=(node.name, *node.output),
            )


def _window(node: Any, axes: dict[str, int], name: str) -> None:
    """One number for each axis, and two for its padding. `axes`: of the weights that are stored."""
    weight = 3 if node.op_type == "QLinearConv" else 1
    counts = {axes[entry] for entry in node.input[weight : weight + 1] if entry in axes}
    counts |= {
        len(entry.ints) // (2 if entry.name == "pads" else 1)
        for entry in node.attribute
        if entry.name in {"pads", "strides", "dilations", "kernel_shape"} and entry.ints
    }
    is_odd = any(entry.name == "pads" and len(entry.ints) % 2 for entry in node.attribute)
    if len(counts) > 1 or is_odd:
        raise ModelError(
            f"{name}: kernel, strides, dilations and pads of {node.op_type} {node.name or ''!r} are for different "
            "numbers of axes; export the model again",
            operators=(node.name, *node.output),
        )


def _graphs(model: Any) -> Iterator[Any]:
    waiting = [model.graph]
    while waiting:
        graph = waiting.pop()
        yield graph
        for node in graph.node:
            for entry in node.attribute:
                waiting += [*([entry.g] if entry.HasField("g") else ()), *entry.graphs]
