"""From a folded `ModelProto` to the intermediate form."""

from __future__ import annotations

from typing import Any

import numpy as np

from openrknn.compiler.errors import ModelError
from openrknn.compiler.float_model import onnx_package
from openrknn.compiler.importer.check import check_graph
from openrknn.compiler.importer.shapes import integer_values, known_shapes
from openrknn.compiler.importer.store import constants_of
from openrknn.compiler.ir import Array, Graph, Op, Value
from openrknn.compiler.operators import select

_FAR = 3e4
"""Far beyond where a Sigmoid ends, and with room for sums in fp16."""


def build_graph(model: Any) -> Graph:
    """Operators with their ONNX types and attributes; every value has a shape, every constant is finite."""
    onnx = onnx_package()
    constants = constants_of(model)
    shapes, integers = known_shapes(model), integer_values(model)
    graph = Graph(
        name=model.graph.name or "model",
        inputs=[entry.name for entry in model.graph.input if entry.name not in constants],
        outputs=[entry.name for entry in model.graph.output],
    )
    for node in model.graph.node:
        graph.ops.append(
            Op(
                type=node.op_type if node.domain in {"", "ai.onnx"} else f"{node.domain}.{node.op_type}",
                name=node.name or node.output[0],
                inputs=list(node.input),
                outputs=[name for name in node.output if name],
                attributes={entry.name: _attribute(onnx, entry) for entry in node.attribute},
            )
        )
    for name in (*graph.inputs, *(name for op in graph.ops for name in op.outputs)):
        if name not in shapes:
            raise ModelError(_shapeless(graph, name, constants), operators=_made_by(graph, name))
        graph.values[name] = Value(name, shapes[name] or (1,))  # a single number is a list of one
        graph.values[name].integer = integers.get(name, "")
    graph.constants = constants
    for op in graph.ops:
        if op.type == "Slice" and "starts" in op.attributes:
            _as_operands(graph, op)
    for name in graph.outputs:
        if name not in graph.values and name in constants:
            others = ",".join(other for other in graph.outputs if other not in constants or other in graph.values)
            advice = f"leave it out with --outputs {others}" if others else "there is nothing to compile"
            raise ModelError(f"output {name!r} is a constant; {advice}", operators=[name])
    graph.sort()
    graph.prune()
    _check_constants(graph)
    check_graph(graph, onnx.TensorProto.DataType)
    return graph


def _as_operands(graph: Graph, op: Op) -> None:
    """Bounds of a slice as newer models have them."""
    starts = op.attributes.pop("starts")
    given = (starts, op.attributes.pop("ends"), op.attributes.pop("axes", None) or list(range(len(starts))))
    names = [graph.add_constant(f"{op.output}_bounds", np.array(values, np.int64)) for values in given]
    op.inputs = [op.inputs[0], *names]


_COUNTS_DEPEND = select(lambda row: row.counts_depend)


def _made_by(graph: Graph, name: str) -> tuple[str, ...]:
    maker = next((op.name for op in graph.ops if name in op.outputs), "")
    return maker, name


def _shapeless(graph: Graph, name: str, constants: dict[str, Array]) -> str:
    """Who makes a value without a shape, and what to do."""
    maker = next((op for op in graph.ops if name in op.outputs), None)
    if maker is None:
        return f"the shape of {name!r} cannot be worked out; bind the inputs with --shapes"
    before = next((entry for entry in maker.inputs if entry and entry not in constants), "")
    cut = "export without it"
    if before:
        cut = f"cut the model before it (--outputs {before}) and do the rest in your program"
    if "." in maker.type:
        domain = maker.type.rpartition(".")[0]
        return f"{maker.type} {maker.name!r} is not an operator of ONNX but of {domain!r}: {cut}, or export without it"
    if maker.type in _COUNTS_DEPEND:
        return f"{maker.type} {maker.name!r} makes {name!r}, whose size is not known before the model runs: {cut}"
    read = [entry for entry in maker.inputs if entry in graph.values]
    if read and len(read) == len([entry for entry in maker.inputs if entry and entry not in constants]):
        shapes = " and ".join(f"{entry!r} {list(graph.values[entry].shape)}" for entry in read)
        return (
            f"{maker.type} {maker.name!r} cannot be computed from {shapes}; give shapes that fit each other "
            f"(--shapes), or {cut}"
        )
    what = f"the shape of {name!r} ({maker.type} {maker.name!r})"
    return f"{what} cannot be worked out; bind the inputs with --shapes, or {cut}"


def _attribute(onnx: Any, entry: Any) -> object:
    value = onnx.helper.get_attribute_value(entry)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    return list(value) if not isinstance(value, int | float | str) and hasattr(value, "__iter__") else value


def _check_constants(graph: Graph) -> None:
    _end_anchors(graph)
    users: dict[str, str] = {name: op.name for op in graph.ops for name in op.inputs}
    for name, array in graph.constants.items():
        if array.dtype.kind == "f" and not np.isfinite(_sane(array)).all():
            bad = int((~np.isfinite(array)).sum())
            raise ModelError(
                f"{bad} of {array.size} numbers in the constant {name!r} of {users.get(name, '?')!r} are NaN or "
                "infinite; train or export the model again",
                operators=[users.get(name, ""), name],
            )


def _end_anchors(graph: Graph) -> None:
    """RT-DETR marks anchors outside the picture by infinity, and takes the Sigmoid of them: any large number does."""
    for op in graph.ops:
        array = graph.constants.get(op.inputs[0]) if op.type == "Gather" else None
        if array is not None and array.dtype.kind == "f" and array.size > 1 and np.isinf(array).any():
            graph.constants[op.inputs[0]] = np.nan_to_num(array, nan=np.nan, posinf=_FAR, neginf=-_FAR)


def _sane(array: Array) -> Array:
    """Masks are filled with the lowest float on purpose; infinities next to them are meant the same way."""
    return array if array.size > 1 else np.nan_to_num(array, nan=np.nan, posinf=0.0, neginf=0.0)
