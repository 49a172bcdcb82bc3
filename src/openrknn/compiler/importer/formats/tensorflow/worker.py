"""In the child process: TensorFlow reads a checked copy, and tf2onnx says it in ONNX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from openrknn.compiler.errors import ModelError
from openrknn.compiler.importer.formats.tensorflow.rewrite_h5 import keras_path

_OPSET = 17
_SILENT = {"Const", "NoOp", "Placeholder", "Assert", "VariableV2", "Assign", "SaveV2", "RestoreV2"}
"""Operators without readers that are not outputs either."""


def convert(wish: Mapping[str, Any]) -> bytes:
    """The model of the request, as ONNX. Errors begin after the name of the file."""
    data: bytes = _model(wish).SerializeToString()
    return data


def _model(wish: Mapping[str, Any]) -> Any:
    import tensorflow

    if wish["kind"] == "frozen":
        return _frozen(tensorflow, wish)
    if wish["kind"] == "keras":
        return _keras(tensorflow, wish)
    return _saved(tensorflow, wish)


def _keras(tensorflow: Any, wish: Mapping[str, Any]) -> Any:
    """Layers give the names: Keras 3 calls its tensors keras_tensor_20. Code in a file (Lambda) is not run."""
    path = keras_path(wish["path"])
    model = tensorflow.keras.models.load_model(path, compile=False, safe_mode=True)
    names = [value._keras_history.operation.name for value in model.outputs]
    specs = [tensorflow.TensorSpec(value.shape, value.dtype, name=value.name) for value in model.inputs]

    def call(*values: Any) -> Any:
        made = model(list(values) if len(values) > 1 else values[0], training=False)
        return tensorflow.nest.flatten(made)

    return _function(tensorflow, call, specs, names, wish)


def _saved(tensorflow: Any, wish: Mapping[str, Any]) -> Any:
    loaded = tensorflow.saved_model.load(wish["path"])
    signatures = {name: entry for name, entry in loaded.signatures.items() if not name.startswith("__")}
    if not signatures:
        raise ModelError(
            "cannot be converted: the SavedModel has no signatures; save it with tf.saved_model.save(..., "
            "signatures=...)"
        )
    signature = signatures.get("serving_default") or next(iter(signatures.values()))
    taken = signature.structured_input_signature[1]
    specs = [tensorflow.TensorSpec(spec.shape, spec.dtype, name=name) for name, spec in taken.items()]
    names = sorted(signature.structured_outputs)

    def call(*values: Any) -> Any:
        made = signature(**dict(zip(taken, values, strict=True)))
        return [made[name] for name in names]

    return _function(tensorflow, call, specs, names, wish)


def _function(tensorflow: Any, call: Any, specs: Sequence[Any], names: Sequence[str], wish: Mapping[str, Any]) -> Any:
    import tf2onnx

    if wish["sizes"]:
        by_name = dict(zip(wish["inputs"] or [spec.name for spec in specs], wish["sizes"], strict=False))
        specs = [
            tensorflow.TensorSpec(_batched(by_name[spec.name], len(spec.shape)), spec.dtype, name=spec.name)
            if spec.name in by_name
            else spec
            for spec in specs
        ]
    pictures = [] if wish["is_nchw"] else [f"{spec.name}:0" for spec in specs if _is_picture(spec.shape)]
    function = tensorflow.function(call, input_signature=specs)
    # tf2onnx finds inputs by the names of the traced function, which are those of the specs.
    model, _ = tf2onnx.convert.from_function(
        function, input_signature=specs, opset=_OPSET, inputs_as_nchw=[*pictures, *(name[:-2] for name in pictures)]
    )
    return _renamed(model, [spec.name for spec in specs], names)


def _frozen(tensorflow: Any, wish: Mapping[str, Any]) -> Any:
    import tf2onnx

    graph = tensorflow.compat.v1.GraphDef()
    with open(wish["path"], "rb") as file:
        graph.ParseFromString(file.read())
    nodes = {node.name: node for node in graph.node}
    if not nodes:
        raise ModelError("cannot be converted: there are no operators in it")
    read = {name.removeprefix("^").split(":")[0] for node in graph.node for name in node.input}
    inputs = wish["inputs"] or [node.name for node in graph.node if node.op.startswith("Placeholder")]
    outputs = wish["outputs"] or [
        node.name for node in graph.node if node.name not in read and node.op not in _SILENT
    ]
    unknown = [name for name in (*inputs, *outputs) if name.split(":")[0] not in nodes]
    if unknown or not inputs or not outputs:
        likely = [node.name for node in graph.node if node.op.startswith("Placeholder")]
        missing = f"there is no operator {unknown[0]!r}" if unknown else "inputs or outputs are not to be seen"
        raise ModelError(f"cannot be converted: {missing}; inputs look like {', '.join(likely)}")
    shapes = {_tensor(name): _batched(size) for name, size in zip(inputs, wish["sizes"], strict=False)}
    known = {name: shapes.get(_tensor(name)) or _placeholder_shape(nodes[name.split(":")[0]]) for name in inputs}
    pictures = [] if wish["is_nchw"] else [_tensor(name) for name, shape in known.items() if _is_picture(shape)]
    model, _ = tf2onnx.convert.from_graph_def(
        graph, input_names=[_tensor(name) for name in inputs], output_names=[_tensor(name) for name in outputs],
        opset=_OPSET, shape_override=shapes, inputs_as_nchw=pictures,
    )  # fmt: skip
    return _renamed(model, inputs, outputs)


def _tensor(name: str) -> str:
    return name if ":" in name else f"{name}:0"


def _batched(size: Sequence[int], rank: int | None = None) -> list[int]:
    """The vendor's toolkit takes [224, 224, 3] for [1, 224, 224, 3]."""
    is_short = len(size) == rank - 1 if rank is not None else len(size) == 3
    return [1, *size] if is_short else list(size)


def _placeholder_shape(node: Any) -> list[int] | None:
    shape = node.attr["shape"].shape if "shape" in node.attr else None
    return None if shape is None or shape.unknown_rank else [dim.size for dim in shape.dim]


def _is_picture(shape: Any) -> bool:
    return shape is not None and len(shape) == 4


def _renamed(model: Any, inputs: Sequence[str], outputs: Sequence[str]) -> Any:
    """Without ":0", and outputs with the names that the file has for them."""
    graph = model.graph
    names = {entry.name: entry.name.removesuffix(":0") for entry in graph.input}
    taken = {name for node in graph.node for name in (*node.input, *node.output)} - {e.name for e in graph.output}
    for entry, wanted in zip(graph.output, outputs, strict=False):
        name = wanted.removesuffix(":0")
        if name not in taken and name not in names.values():
            names[entry.name] = name
    for entry in (*graph.input, *graph.output):
        entry.name = names.get(entry.name, entry.name)
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
    wanted_order = [name.removesuffix(":0") for name in inputs]
    entries = sorted(graph.input, key=lambda entry: wanted_order.index(entry.name) if entry.name in wanted_order else 0)
    copies = [type(entry).FromString(entry.SerializeToString()) for entry in entries]
    del graph.input[:]
    graph.input.extend(copies)
    return model

