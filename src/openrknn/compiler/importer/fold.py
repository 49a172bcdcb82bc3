"""What can be computed before anything is fed: constants, shapes, and operators over them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import numpy as np

from openrknn.compiler.errors import ModelError
from openrknn.compiler.float_model import onnx_package
from openrknn.compiler.importer.rewrite import FOREIGN_RULES, rewrite
from openrknn.compiler.importer.shapes import infer, known_shapes
from openrknn.compiler.ir import Array

__all__ = ["constants_of", "fold", "simplify", "standard"]

_NEVER = {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"}
_GROWING = {"ConstantOfShape", "Expand", "Tile"}
_LARGEST = 64 * 1024 * 1024
"""Elements that folding may create: a ConstantOfShape of a hostile file asks for more."""
_ROUNDS = 20
_REFUSALS = (
    RuntimeError, TypeError, ValueError, NotImplementedError, IndexError, KeyError, AttributeError, ArithmeticError,
    MemoryError,
)  # fmt: skip
"""What the reference evaluator raises at operators that make no sense."""


def constants_of(model: Any) -> dict[str, Array]:
    """The model's constants by name."""
    onnx = onnx_package()
    return {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}


def fold(model: Any) -> Any:
    """Compute what is constant and infer shapes, until neither finds anything new."""
    onnx = onnx_package()
    for _ in range(_ROUNDS):
        model = infer(model)
        found = _constant_results(model)
        if not found:
            return model
        kept = [node for node in model.graph.node if not all(name in found for name in node.output if name)]
        del model.graph.node[:]
        model.graph.node.extend(kept)
        for name, array in found.items():
            model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(array, order="C"), name))
        del model.graph.value_info[:]
    return model


def simplify(model: Any, seen: Callable[[Any], None] = lambda model: None) -> Any:
    """Say operators with simpler ones (`rewrite`), as long as there are some; `seen` looks before they are folded."""
    for _ in range(_ROUNDS):
        _drop_unread(model)
        if not rewrite(model, constants_of(model), known_shapes(model)):
            break
        seen(model)
        model = fold(model)
    return model


def standard(model: Any) -> Any:
    """The folded model without branches that are decided and without operators of other domains, as far as that goes;
    everything else stays as it is."""
    for _ in range(_ROUNDS):
        if not rewrite(model, constants_of(model), known_shapes(model), FOREIGN_RULES):
            break
        model = fold(model)
    _drop_unread(model)
    return model


def _drop_unread(model: Any) -> None:
    """Nodes whose results nobody reads (both branches of an If need shapes), and spare outputs of those that stay."""
    while True:
        read = {name for node in model.graph.node for name in _reads(node)}
        read.update(entry.name for entry in model.graph.output)
        kept = [node for node in model.graph.node if any(name in read for name in node.output)]
        for node in kept:
            # A Split says how many parts it has in other places, too.
            while len(node.output) > 1 and node.output[-1] not in read and node.op_type != "Split":
                node.output.pop()
        if len(kept) == len(model.graph.node):
            return
        del model.graph.node[:]
        model.graph.node.extend(kept)


def _reads(node: Any) -> list[str]:
    """The inputs of a node and of the graphs inside it."""
    names = list(node.input)
    for entry in node.attribute:
        if entry.HasField("g"):
            names += [name for inner in entry.g.node for name in _reads(inner)]
            names += [value.name for value in entry.g.output]
    return names


def _constant_results(model: Any) -> dict[str, Array]:
    constants = constants_of(model)
    shapes = known_shapes(model)
    outputs = {entry.name for entry in model.graph.output}
    found: dict[str, Array] = {}
    for node in model.graph.node:
        if node.op_type in _NEVER or any(attribute.HasField("g") for attribute in node.attribute):
            continue
        if node.op_type == "Shape" and node.input[0] in shapes:
            values = _shape(node, shapes[node.input[0]])
        elif all(not name or name in constants for name in node.input) and node.output[0] not in outputs:
            _refuse_bomb(node, shapes)
            values = _evaluate(model, node, constants)
        else:
            continue
        for name, array in zip(node.output, values, strict=False):
            constants[name] = found[name] = array
    return found


def _refuse_bomb(node: Any, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Constants that grow by broadcasting: their shapes are known before they are computed."""
    for name in node.output:
        if prod(shapes.get(name, ())) > _LARGEST:
            raise ModelError(f"{node.op_type} {node.name or name!r} makes more than {_LARGEST} elements of constants")


def _shape(node: Any, shape: tuple[int, ...]) -> list[Array]:
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


def _size(node: Any, constants: dict[str, Array]) -> float:
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
    counts = np.prod(np.abs(constants[node.input[-1]].astype(float)))
    return float(counts * (constants[node.input[0]].size if node.op_type != "ConstantOfShape" else 1))


def _evaluate(model: Any, node: Any, constants: dict[str, Array]) -> list[Array]:
    onnx = onnx_package()
    from onnx.reference import ReferenceEvaluator

    if node.op_type == "DequantizeLinear":  # the evaluator has it for the newest models only
        return [_dequantized(node, constants)]
    if _size(node, constants) > _LARGEST:
        raise ModelError(f"{node.op_type} {node.name or node.output[0]!r} makes more than {_LARGEST} elements")
    names = list(dict.fromkeys(name for name in node.input if name))
    graph = onnx.helper.make_graph(
        [node],
        "fold",
        [onnx.helper.make_empty_tensor_value_info(name) for name in names],
        [onnx.helper.make_empty_tensor_value_info(name) for name in node.output if name],
    )
    single = onnx.helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
    try:
        results = ReferenceEvaluator(single).run(None, {name: constants[name] for name in names})
    except _REFUSALS as error:
        raise ModelError(
            f"{node.op_type} {node.name or node.output[0]!r} is constant, but cannot be computed: {error}"
        ) from None
    return [np.asarray(result) for result in results]
