"""Operators that ONNX itself defines by others: where no rule knows one as a whole, its definition takes its place.

The definition comes from the package `onnx` (from 1.20 on), for the shapes and types at hand.
"""

from __future__ import annotations

from typing import Any

from openrknn.compiler.float_model import onnx_package
from openrknn.compiler.importer.store import constants_of
from openrknn.compiler.operators import Inline, select

_ALWAYS = select(lambda row: row.inline is Inline.ALWAYS)
_UNKNOWN_WEIGHTS = select(lambda row: row.inline is Inline.COMPUTED)
"""Known as a whole where all operands but the first are constants."""


def inline_functions(model: Any) -> Any:
    """The model with definitions in the place of such operators, the operators inside them included."""
    constants = set(constants_of(model))
    wanted = sorted({(node.domain, node.op_type) for node in model.graph.node if _is_function(node, constants)})
    if not wanted:
        return model
    from onnx.inliner import inline_selected_functions

    onnx = onnx_package()
    known = {entry.name for entry in (*model.graph.input, *model.graph.value_info)}
    for tensor in model.graph.initializer:  # definitions depend on the types of all operands
        if tensor.name not in known:
            kind = onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
            model.graph.value_info.append(kind)
    try:
        made = inline_selected_functions(model, wanted, inline_schema_functions=True)
    except (TypeError, RuntimeError, onnx.checker.ValidationError):  # an older package, or no definition
        return model
    del made.graph.value_info[:]
    for output in made.graph.output:  # definitions broadcast more than the operators that they define allow
        output.type.tensor_type.ClearField("shape")
    return made


def _is_function(node: Any, constants: set[str]) -> bool:
    if node.op_type in _ALWAYS:
        return True
    is_open = any(name and name not in constants for name in node.input[1:]) or any(node.output[1:])
    return node.op_type in _UNKNOWN_WEIGHTS and is_open
