"""One node over constants: its results, without more memory than a compilation may take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from openrknn.compiler.budget import LARGEST_CONSTANT
from openrknn.compiler.errors import ModelError
from openrknn.compiler.float_model import onnx_package
from openrknn.compiler.importer.lazy import computed
from openrknn.compiler.ir import Array

LARGEST = LARGEST_CONSTANT
"""Elements that folding may create: a ConstantOfShape of a hostile file asks for more."""
_GROWING = {"ConstantOfShape", "Expand", "Tile"}
_WRITTEN_OUT = {"Concat", "Gather"}
"""Moves whose results are no views."""
_LONGEST_REASON = 200
_BROADCASTING = 7
"""The version of ONNX from which on operators broadcast without being told."""
_REFUSALS = (
    RuntimeError, TypeError, ValueError, NotImplementedError, IndexError, KeyError, AttributeError, ArithmeticError,
    MemoryError,
)  # fmt: skip
"""What the reference evaluator raises at operators that make no sense."""


def evaluate(
    model: Any, node: Any, constants: dict[str, Array], shapes: Mapping[str, tuple[int, ...]]
) -> list[Array]:
    """The results of a node whose operands are `constants`; repetitions may be views."""
    if node.op_type == "DequantizeLinear":  # the evaluator has it for the newest models only
        return [_dequantized(node, constants)]
    if node.op_type == "Constant" and (sparse := [entry for entry in node.attribute if entry.name == "sparse_value"]):
        return [_dense(model, node, sparse[0].sparse_tensor)]
    if node.op_type == "GatherElements":  # the evaluator has it for up to 32 elements only
        return [_picked(model, node, constants)]
    names = list(node.input)
    operands = [constants[name] for name in names if name]
    if all(names) and (node.domain in {"", "ai.onnx"}) and _opset(model) >= _BROADCASTING:
        if node.op_type in _WRITTEN_OUT:
            _refuse_bomb(node, shapes, constants)

        def refer(small: Sequence[Array]) -> list[Array]:
            if prod(np.broadcast_shapes(*(entry.shape for entry in small))) > LARGEST:
                raise bomb(node)
            return _referred(model, node, dict(zip(names, small, strict=True)))

        made = computed(node, operands, refer)
        if made is not None:
            return _numbers(model, node, made)
    _refuse_bomb(node, shapes, constants)
    return _numbers(model, node, _referred(model, node, {name: constants[name] for name in names if name}))


def _numbers(model: Any, node: Any, results: list[Array]) -> list[Array]:
    if any(result.dtype.kind not in "biuf" for result in results):
        raise _refused(model, node, "it holds texts, and the NPU computes with numbers")
    return results


def _dense(model: Any, node: Any, sparse: Any) -> Array:
    """A constant that lists the places of its numbers: zeros elsewhere."""
    numpy_helper = onnx_package().numpy_helper
    if prod(sparse.dims) > LARGEST:
        raise bomb(node)
    try:
        values, places = numpy_helper.to_array(sparse.values), numpy_helper.to_array(sparse.indices)
        whole = np.zeros(tuple(sparse.dims), values.dtype)
        whole.reshape(-1)[places if places.ndim == 1 else np.ravel_multi_index(tuple(places.T), whole.shape)] = values
    except (IndexError, ValueError, TypeError) as error:
        raise _refused(model, node, error) from None
    return whole


def _refuse_bomb(node: Any, shapes: Mapping[str, tuple[int, ...]], constants: Mapping[str, Array]) -> None:
    """Constants that grow: their shapes are known before they are computed, or their operands say how many they are."""
    made = max((prod(shapes.get(name, ())) for name in node.output), default=0)
    read = max((constants[name].size for name in node.input if name), default=0)
    if max(made, read, _size(node, constants)) > LARGEST:
        raise bomb(node)


def bomb(node: Any) -> ModelError:
    """The error for constants that are too large."""
    return ModelError(
        f"{node.op_type} {node.name or node.output[0]!r} makes more than {LARGEST} elements of constants",
        operators=(node.name, *node.output),
    )


def shape_of(node: Any, shape: tuple[int, ...]) -> list[Array]:
    """What a Shape node says of this shape."""
    limits = {attribute.name: attribute.i for attribute in node.attribute}
    return [np.array(shape[limits.get("start", 0) : limits.get("end", len(shape))], np.int64)]


def _dequantized(node: Any, constants: dict[str, Array]) -> Array:
    stored, scale = constants[node.input[0]], constants[node.input[1]]
    zero = constants[node.input[2]] if len(node.input) > 2 and node.input[2] else np.zeros((), stored.dtype)
    axis = next((entry.i for entry in node.attribute if entry.name == "axis"), 1)
    if scale.size > 1:
        shape = [1] * stored.ndim
        shape[axis] = -1
        scale, zero = scale.reshape(shape), zero.reshape(shape)
    real: Array = (stored.astype(np.float64) - zero.astype(np.float64)) * scale.astype(np.float64)
    return real.astype(scale.dtype)


def _picked(model: Any, node: Any, constants: Mapping[str, Array]) -> Array:
    data, places = constants[node.input[0]], constants[node.input[1]]
    axis = next((entry.i for entry in node.attribute if entry.name == "axis"), 0)
    try:
        axis %= data.ndim
        part = data[tuple(slice(None if at == axis else size) for at, size in enumerate(places.shape))]
        return np.take_along_axis(part, np.where(places < 0, places + data.shape[axis], places), axis)
    except (IndexError, ValueError, ZeroDivisionError) as error:
        raise _refused(model, node, error) from None


def _size(node: Any, constants: Mapping[str, Array]) -> float:
    """Elements that an operator makes whose operands say how many; 0 for all others."""
    operands = [constants[name].astype(float).reshape(-1) for name in node.input if name and constants[name].size]
    if node.op_type == "Range" and len(operands) == 3:
        start, limit, step = (float(entry[0]) for entry in operands)
        return abs((limit - start) / step) if step else 0.0
    if node.op_type == "Pad" and len(operands) > 1 and operands[1].size == 2 * constants[node.input[0]].ndim:
        more = operands[1].reshape(2, -1).sum(0)
        return float(np.prod(np.maximum(np.array(constants[node.input[0]].shape) + more, 0)))
    if node.op_type not in _GROWING:
        return 0.0
    counts = float(np.prod(np.abs(constants[node.input[-1]].astype(float))))
    return counts * (constants[node.input[0]].size if node.op_type == "Tile" else 1)


def _opset(model: Any) -> int:
    return max((int(entry.version) for entry in model.opset_import if entry.domain in {"", "ai.onnx"}), default=1)


def _referred(model: Any, node: Any, operands: Mapping[str, Array]) -> list[Array]:
    """What ONNX's reference evaluator says."""
    onnx = onnx_package()
    from onnx.reference import ReferenceEvaluator

    graph = onnx.helper.make_graph(
        [node],
        "fold",
        [onnx.helper.make_empty_tensor_value_info(name) for name in operands],
        [onnx.helper.make_empty_tensor_value_info(name) for name in node.output if name],
    )
    single = onnx.helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
    try:
        results = ReferenceEvaluator(single).run(None, dict(operands))
    except _REFUSALS as error:
        raise _refused(model, node, error) from None
    return [np.asarray(result) for result in results]


def _refused(model: Any, node: Any, reason: object) -> ModelError:
    """Constants have names that exporters make up; operators that read them are known to the user."""
    reader = next((other for other in model.graph.node if set(node.output) & set(other.input)), None)
    read, cut = "", "export the model again"
    if reader is not None:
        read = f", which {reader.op_type} {reader.name or reader.output[0]!r} reads,"
        data = next((name for name in reader.input if name and name not in node.output), "")
        cut += f", or cut it before that operator (--outputs {data})" if data else ""
    said = str(reason).splitlines()[0][:_LONGEST_REASON] if str(reason) else type(reason).__name__
    return ModelError(
        f"the constant {node.name or node.output[0]!r} ({node.op_type}){read} cannot be computed: {said}; {cut}",
        operators=(node.name, *node.output),
    )
