"""Inputs and outputs of an ONNX model, in the words of ONNX Runtime."""

from __future__ import annotations

from typing import Any

from openrknn.compiler.float_model import onnx_package
from openrknn.compiler.importer.shapes import model_inputs
from openrknn.container.bundle import Port


def ports_of(model: Any) -> tuple[tuple[Port, ...], tuple[Port, ...]]:
    """(inputs, outputs)."""
    return tuple(map(_port, model_inputs(model))), tuple(map(_port, model.graph.output))


def _port(entry: Any) -> Port:
    shape: list[int | str | None] = []
    if entry.type.HasField("tensor_type"):
        for dim in entry.type.tensor_type.shape.dim:
            shape.append(dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None)
    return Port(entry.name, _type(entry.type), tuple(shape))


def _type(kind: Any) -> str:
    if kind.HasField("sequence_type"):
        return f"seq({_type(kind.sequence_type.elem_type)})"
    if kind.HasField("optional_type"):
        return f"optional({_type(kind.optional_type.elem_type)})"
    if kind.HasField("map_type"):
        return f"map({element_word(kind.map_type.key_type)},{_type(kind.map_type.value_type)})"
    return f"tensor({element_word(kind.tensor_type.elem_type)})"


def element_word(number: int) -> str:
    """TensorProto.DataType -> ONNX Runtime's word."""
    return str(onnx_package().TensorProto.DataType.Name(number)).lower()
