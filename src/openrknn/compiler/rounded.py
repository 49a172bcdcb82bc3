"""The float model as the file can be at best: every value and every weight rounded to what the NPU stores.

It is what honest loss looks like. A file that is much worse than this has a mistake in it, however many decibels it
has; one that is about as bad is right, and its number format is to blame.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np

from openrknn.compiler.float_model import onnx_package
from openrknn.compiler.ir import Array, Graph, Value
from openrknn.compiler.quantise.weights import quantize_weights
from openrknn.compiler.result import Variant

_OLDEST_INT8 = 10
"""The first operator set with QuantizeLinear."""
_WEIGHTED = {"Conv": 0, "MatMul": 1, "Gemm": 1}
"""Operators with weights as their second input -> the axis of the outputs."""


def rounded_model(variant: Variant, moved: Collection[str], *, is_int8: bool) -> Any:
    """The folded ONNX model of a variant with its values and weights rounded; None where the model is too old.

    `moved`: values with the numbers of an ONNX value, some of them in another layout.
    """
    onnx = onnx_package()
    version = max((entry.version for entry in variant.source.opset_import if not entry.domain), default=1)
    if is_int8 and version < _OLDEST_INT8:
        return None
    model = onnx.ModelProto()
    model.CopyFrom(variant.source)
    _round_weights(model, variant.graph, is_int8=is_int8)
    stored, read = _stored_values(variant.graph, moved), _read_values(variant.graph)
    nodes = list(model.graph.node)
    del model.graph.node[:]
    for node in nodes:
        added = []
        _round_read(onnx, model, node, read.get(node.name))
        for at, name in enumerate(node.output):
            value = stored.get(name)
            if value is not None and not value.integer:
                node.output[at] = f"{name}.exact"
                added += _rounding(onnx, model, value)
        model.graph.node.append(node)
        model.graph.node.extend(added)
    return model


def _stored_values(graph: Graph, moved: Collection[str]) -> dict[str, Value]:
    """Values by the names of the ONNX model; one that is kept in another layout only is rounded as it is there."""
    found = dict(graph.values)
    for name, (source, _) in graph.derived.items():
        value = graph.values.get(name)
        if value is None or source in graph.values:
            continue
        numbers, known = value.quantization, found.get(source)
        if numbers is None:  # fp16
            if name in moved:
                found.setdefault(source, replace(value, name=source))
        elif known is None or known.quantization is None or numbers.scale > known.quantization.scale:
            found[source] = replace(value, name=source)
    return found


def _read_values(graph: Graph) -> dict[str, Value]:
    """Products of int8 among fp16 by the names of their ONNX nodes -> what they read, which no other node sees."""
    return {
        name: graph.values[op.inputs[0]]
        for op in graph.ops
        if op.type == "Conv" and graph.values[op.output].quantization is None
        and graph.values[op.inputs[0]].quantization is not None
        for name in (op.name, *op.fused)
    }  # fmt: skip


def _round_read(onnx: Any, model: Any, node: Any, value: Value | None) -> None:
    """What such a product reads is rounded before it."""
    if value is None or node.op_type not in _WEIGHTED:
        return
    rounding = _rounding(onnx, model, replace(value, name=f"{node.name}.read"))
    rounding[0].input[0] = node.input[0]
    node.input[0] = f"{node.name}.read"
    model.graph.node.extend(rounding)


def round_feed(feed: dict[str, Array], graph: Graph) -> dict[str, Array]:
    """Inputs as the file stores them."""
    return {name: _rounded(values, graph.values[name]) for name, values in feed.items()}


def _rounded(values: Array, value: Value) -> Array:
    if values.dtype.kind != "f":
        return values
    numbers = value.quantization
    with np.errstate(over="ignore"):
        if numbers is None:
            return values.astype(np.float16).astype(values.dtype)
    stored = np.clip(np.rint(values / numbers.scale) + numbers.zero_point, -128, 127)
    real: Array = (stored - numbers.zero_point) * numbers.scale
    return real.astype(values.dtype)


def _rounding(onnx: Any, model: Any, value: Value) -> list[Any]:
    name, numbers = value.name, value.quantization
    exact, stored = f"{name}.exact", f"{name}.stored"
    make = onnx.helper.make_node
    if numbers is None:
        kinds = onnx.TensorProto
        return [make("Cast", [exact], [stored], to=kinds.FLOAT16), make("Cast", [stored], [name], to=kinds.FLOAT)]
    scale, zero = f"{name}.scale", f"{name}.zero"
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(numbers.scale, np.float32), scale))
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(numbers.zero_point, np.int8), zero))
    return [
        make("QuantizeLinear", [exact, scale, zero], [stored]),
        make("DequantizeLinear", [stored, scale, zero], [name]),
    ]


def _round_weights(model: Any, graph: Graph, *, is_int8: bool) -> None:
    onnx = onnx_package()
    axes = {}
    for node in model.graph.node:
        if node.op_type in _WEIGHTED and len(node.input) > 1:
            turned = any(entry.name == "transB" and entry.i for entry in node.attribute)
            axes[node.input[1]] = 0 if turned else _WEIGHTED[node.op_type]
    for tensor in model.graph.initializer:
        if tensor.data_type != onnx.TensorProto.FLOAT:
            continue
        array = onnx.numpy_helper.to_array(tensor)
        if array.size <= 1 or not np.isfinite(array).all():
            continue
        if is_int8 and tensor.name in axes and tensor.name not in graph.stored and array.ndim > 1:
            array = _int8_weights(array, axes[tensor.name] and array.ndim - 1)
        elif not is_int8:
            with np.errstate(over="ignore"):
                array = array.astype(np.float16).astype(np.float32)
        else:
            continue
        tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))


def _int8_weights(array: Array, axis: int) -> Array:
    first = np.moveaxis(array, axis, 0)
    real = quantize_weights(np.ascontiguousarray(first)).real.astype(np.float32)
    return np.ascontiguousarray(np.moveaxis(real, 0, axis))


def local_model(variant: Variant, moved: Collection[str], *, is_int8: bool) -> tuple[Any, dict[str, str]]:
    """(a model, value -> the name of what its operator makes of rounded inputs); (None, {}) where it is too old.

    Every operator appears twice: in float, and on the float numbers of its inputs as the file stores them. The
    difference is what honest rounding costs one operator alone.
    """
    onnx = onnx_package()
    version = max((entry.version for entry in variant.source.opset_import if not entry.domain), default=1)
    if is_int8 and version < _OLDEST_INT8:
        return None, {}
    model, rounded = onnx.ModelProto(), onnx.ModelProto()
    model.CopyFrom(variant.source)
    rounded.CopyFrom(variant.source)
    _round_weights(rounded, variant.graph, is_int8=is_int8)
    weights = {entry.name: entry.SerializeToString() for entry in model.graph.initializer}
    changed: dict[str, str] = {}
    for entry in rounded.graph.initializer:
        if entry.SerializeToString() != weights.get(entry.name):
            changed[entry.name] = f"{entry.name}.rounded"
            entry.name = changed[entry.name]
            model.graph.initializer.append(entry)
    stored, read = _stored_values(variant.graph, moved), _read_values(variant.graph)
    inputs = [entry.name for entry in model.graph.input if entry.name in stored]
    nodes = list(model.graph.node)
    del model.graph.node[:]
    seen = dict(changed)
    for name in inputs:
        if stored[name].integer:
            continue
        model.graph.node.extend(_seen(onnx, model, stored[name]))
        seen[name] = f"{name}.seen"
    made: dict[str, str] = {}
    for node in nodes:
        copy = onnx.NodeProto.FromString(node.SerializeToString())
        copy.name = f"{node.name}.local"
        copy.input[:] = [seen.get(name, name) for name in node.input]
        copy.output[:] = [f"{name}.local" if name else "" for name in node.output]
        _round_read(onnx, model, copy, read.get(node.name))
        model.graph.node.extend([node, copy])
        for name in filter(None, node.output):
            made[name] = seen[name] = f"{name}.local"
            if name in stored and not stored[name].integer:
                model.graph.node.extend(_seen(onnx, model, stored[name]))
                seen[name] = f"{name}.seen"
    return model, made


def _seen(onnx: Any, model: Any, value: Value) -> list[Any]:
    """name -> name.seen: as the file stores it."""
    nodes = _rounding(onnx, model, value)
    nodes[0].input[0] = value.name
    nodes[-1].output[0] = f"{value.name}.seen"
    return nodes


def round_value(values: Array, value: Value) -> Array:
    """Numbers as the file stores them."""
    return _rounded(values, value)
