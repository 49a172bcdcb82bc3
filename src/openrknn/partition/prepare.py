"""The model before it is split: shapes bound, constants folded as far as that goes, half floats as floats."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from openrknn.compiler.errors import CompileError
from openrknn.compiler.float_model import onnx_package
from openrknn.compiler.importer.fold import fold, standard
from openrknn.compiler.importer.shapes import bind_shapes, infer
from openrknn.compiler.importer.types import as_float
from openrknn.compiler.operators import PRODUCTS, RECURRENT
from openrknn.partition.view import View, view_of


def prepare(model: Any, shapes: Mapping[str, Sequence[int]]) -> View:
    """`model` is changed. Whatever cannot be folded stays as it is: nothing is refused here."""
    onnx = onnx_package()
    with contextlib.suppress(CompileError):  # an input without a shape, or a sequence: what depends on it is the CPU's
        bind_shapes(model, shapes)
    spare = onnx.ModelProto()
    spare.CopyFrom(model)
    with contextlib.suppress(CompileError):
        if _is_half(model, onnx.TensorProto):
            as_float(model)
        return view_of(standard(fold(model, lenient=True)))
    try:
        return view_of(infer(spare))
    except CompileError:
        return view_of(spare)


def _is_half(model: Any, proto: Any) -> bool:
    """A network in half or bfloat16, and nothing in double, which would lose by it."""
    kinds = {tensor.data_type for tensor in model.graph.initializer}
    kinds |= {entry.type.tensor_type.elem_type for entry in (*model.graph.input, *model.graph.output)}
    heavy = any(node.op_type in PRODUCTS | RECURRENT for node in model.graph.node)
    return heavy and bool(kinds & {proto.FLOAT16, proto.BFLOAT16}) and proto.DOUBLE not in kinds
