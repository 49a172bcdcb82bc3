"""What `load_onnx` and `config` change in the ONNX model before it is compiled.

Inputs that get a value for good (`input_initial_val`), a front that is cut off (`inputs` names values inside), and
Reshapes at the ends (`remove_reshape`). A model that needs none of it stays the file that it is.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from openrknn.compiler import fix_inputs as fix_constants
from openrknn.compiler import infer, known_shapes, model_inputs, read_model

__all__ = ["cut_inputs", "fix_inputs", "remove_reshapes", "values_of"]

_RESHAPES = {"Reshape", "Flatten", "Squeeze", "Unsqueeze"}


def values_of(path: str | os.PathLike[str]) -> set[str]:
    """Everything that the model computes."""
    return {name for node in read_model(path).graph.node for name in node.output if name}


def fix_inputs(model: Any, values: Mapping[str, Any]) -> None:
    """Inputs become constants, in the type that the model takes; the vendor's arrays have the shape of the input."""
    ranks = {entry.name: len(entry.type.tensor_type.shape.dim) for entry in model_inputs(model)}
    for name, value in values.items():
        if np.ndim(value) != ranks.get(name, np.ndim(value)):
            raise ValueError(
                f"load_onnx: input_initial_val of {name!r} has the shape {list(np.shape(value))}, the input has "
                f"{ranks[name]} dimensions"
            )
    try:
        fix_constants(model, values)
    except ValueError as error:
        raise ValueError(f"load_onnx: input_initial_val: {error}") from None


def cut_inputs(model: Any, names: Mapping[str, Sequence[int]]) -> None:
    """Values inside the model become its inputs; what only they needed is left out."""
    import onnx

    makers = {name: node for node in model.graph.node for name in node.output}
    kinds = {entry.name: entry.type.tensor_type.elem_type for entry in infer(model).graph.value_info}
    for name, shape in names.items():
        node = makers[name]
        node.output[list(node.output).index(name)] = f"{name}_before_the_cut"
        kind = kinds.get(name, onnx.TensorProto.FLOAT)
        model.graph.input.append(onnx.helper.make_tensor_value_info(name, kind, list(shape)))
    _leave_out(model)


def _leave_out(model: Any) -> None:
    """Drop operators and inputs that no output needs."""
    needed = {entry.name for entry in model.graph.output}
    kept = []
    for node in reversed(model.graph.node):
        if needed.intersection(node.output):
            needed.update(node.input)
            for attribute in node.attribute:
                for inner in (attribute.g, *attribute.graphs):
                    needed.update(name for part in inner.node for name in part.input)
            kept.append(node)
    nodes = kept[::-1]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    for entry in [entry for entry in model.graph.input if entry.name not in needed]:
        model.graph.input.remove(entry)


def remove_reshapes(model: Any) -> list[str]:
    """Inputs and outputs are what lies behind and before the Reshapes at the ends; their names are returned."""
    import onnx

    found = infer(model)
    shapes = known_shapes(found)
    constants = {tensor.name for tensor in model.graph.initializer}
    makers = {name: node for node in model.graph.node for name in node.output}
    changed = []
    for entry in model.graph.output:
        name = entry.name
        while name in makers and makers[name].op_type in _RESHAPES and makers[name].input[0] in makers:
            name = makers[name].input[0]
        if name != entry.name and name in shapes and name not in {other.name for other in model.graph.output}:
            entry.CopyFrom(onnx.helper.make_tensor_value_info(name, _kind(found, name), shapes[name]))
            changed.append(name)
    for entry in [entry for entry in model.graph.input if entry.name not in constants]:
        readers = [node for node in model.graph.node if entry.name in node.input]
        if len(readers) == 1 and readers[0].op_type in _RESHAPES and readers[0].output[0] in shapes:
            name = readers[0].output[0]
            model.graph.node.remove(readers[0])
            kind = entry.type.tensor_type.elem_type
            entry.CopyFrom(onnx.helper.make_tensor_value_info(name, kind, shapes[name]))
            changed.append(name)
    _leave_out(model)
    return changed


def _kind(model: Any, name: str) -> int:
    entries = (*model.graph.value_info, *model.graph.output, *model.graph.input)
    return next(int(entry.type.tensor_type.elem_type) for entry in entries if entry.name == name)
