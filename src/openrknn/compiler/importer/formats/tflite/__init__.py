"""TensorFlow Lite models (`.tflite`, schema version 3) as ONNX.

Inputs and outputs keep their names. An input with four dimensions, [N, H, W, C] in TFLite, is [N, C, H, W] in the ONNX
model, because `.rknn` files state pictures as [N, H, W, C] themselves: the compiled model takes the arrays that the
TFLite model took. Outputs keep TFLite's shapes. Quantised inputs and outputs are real numbers.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from openrknn.compiler.errors import ModelError
from openrknn.compiler.importer.formats.tflite import (
    blocks,
    control,
    elementwise,
    linear,
    moves,
    reductions,
    slices,
    windows,
)
from openrknn.compiler.importer.formats.tflite.context import TO_NCHW, Context, Rule
from openrknn.compiler.importer.formats.tflite.schema import Subgraph, parse
from openrknn.compiler.importer.formats.tflite.states import open_states
from openrknn.errors import FormatError

__all__ = ["RULES", "read"]

_OPSET, _IR_VERSION = 17, 8
_PICTURE = 4

RULES: dict[str, Rule] = {
    **blocks.RULES, **control.RULES, **elementwise.RULES, **linear.RULES, **moves.RULES, **reductions.RULES,
    **slices.RULES, **windows.RULES,
}  # fmt: skip
"""TFLite operator -> who writes it in ONNX."""


def read(
    source: str | os.PathLike[str] | bytes,
    *,
    inputs: Sequence[str] = (),
    outputs: Sequence[str] = (),
    input_is_nchw: bool = False,
) -> Any:
    """The model as an ONNX `ModelProto`.

    `outputs` cuts the model at these tensors, so that operators behind them may be anything, and `inputs` makes tensors
    inside it inputs. `input_is_nchw`: inputs with four dimensions are [N, C, H, W] in the TFLite file already (a
    converter from PyTorch left them so).
    """
    data, name = _bytes(source)
    try:
        model = parse(data, name)
    except FormatError as error:
        raise ModelError(f"{name} is no TensorFlow Lite model, or a damaged one: {error}") from None
    graph = open_states(model.subgraphs[0], name)
    starts = [*_named(graph, inputs, name), *graph.inputs] if inputs else graph.inputs
    is_known = bool(outputs) and {tensor.name for tensor in graph.tensors}.issuperset(outputs)
    wanted = _named(graph, outputs, name) if is_known else graph.outputs  # values of the ONNX model: the caller's
    cut = Subgraph(graph.name, graph.tensors, list(dict.fromkeys(starts)), list(dict.fromkeys(wanted)), graph.operators)
    return _written(cut, name, model.description, model.subgraphs, turns=not input_is_nchw, is_cut=bool(inputs))


def _bytes(source: str | os.PathLike[str] | bytes) -> tuple[bytes, str]:
    if isinstance(source, bytes | bytearray | memoryview):
        return bytes(source), "the model"
    try:
        return Path(source).read_bytes(), str(source)
    except OSError as error:
        raise ModelError(f"{source} cannot be read: {error.strerror}") from None


def _written(
    graph: Subgraph, name: str, description: str, subgraphs: Sequence[Subgraph], *, turns: bool, is_cut: bool
) -> Any:
    needed = _needed(graph)
    if not needed and not graph.operators:
        raise ModelError(f"{name} has no operators: there is nothing to compute; export it again")
    if is_cut:
        used = {index for number in needed for index in graph.operators[number].inputs}
        graph.inputs = [index for index in graph.inputs if index in used]
    context = Context(graph, name, keeps_scales=_keeps_scales(graph), subgraphs=subgraphs)
    context.write = lambda inner, body: _operators(inner, body, _needed(body))
    labels = _labels(graph, [*graph.inputs, *graph.outputs])
    context.reserve(list(labels.values()))
    helper = context.onnx.helper
    inputs = []
    for index in graph.inputs:
        tensor = context.tensor(index)
        is_turned = turns and len(tensor.shape) == _PICTURE
        shape = [tensor.shape[axis] for axis in TO_NCHW] if is_turned else list(tensor.shape)
        inputs.append(helper.make_tensor_value_info(labels[index], context.type_of(tensor), shape))
        context.start(index, labels[index], nchw=is_turned)
    _operators(context, graph, needed)
    made = []
    for index in graph.outputs:
        value = context.value(index)
        label = labels[index] if index not in graph.inputs else context.fresh(f"{labels[index]}/output")
        context.nodes.append(helper.make_node("Identity", [value], [label], name=label))
        tensor = context.tensor(index)
        known: list[int | None] = [None if tensor.is_open else size for size in tensor.shape]
        made.append(helper.make_tensor_value_info(label, context.type_of(tensor), known))
    _merge_ends(context, {entry.name for entry in made})
    body = helper.make_graph(context.nodes, graph.name or "model", inputs, made, context.initializers)
    return helper.make_model(
        body, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION, producer_name="openrknn-tflite",
        doc_string=description,
    )  # fmt: skip


def _named(graph: Subgraph, names: Sequence[str], name: str) -> list[int]:
    """Tensors that were asked for."""
    places = {tensor.name: index for index, tensor in enumerate(graph.tensors)}
    wrong = [entry for entry in names if entry not in places]
    if wrong:
        raise ModelError(f"{name} has no tensor {wrong[0]!r}; its outputs are "
                         + ", ".join(graph.tensors[index].name for index in graph.outputs))  # fmt: skip
    return [places[entry] for entry in names]


def _labels(graph: Subgraph, indices: Iterable[int]) -> dict[int, str]:
    """Names of the ends; duplicates are made unique."""
    found: dict[int, str] = {}
    for index in dict.fromkeys(indices):
        name = graph.tensors[index].name
        found[index] = name if name not in found.values() else f"{name}_{index}"
    return found


def _keeps_scales(graph: Subgraph) -> bool:
    """Activations of 16 bits have no place in the NPU: such a model is a float model with rounded weights."""
    made = [graph.tensors[index] for op in graph.operators for index in op.outputs]
    kinds = {np.dtype(tensor.dtype) for tensor in made if tensor.is_quantised}
    return np.dtype(np.int16) not in kinds


def _needed(graph: Subgraph) -> set[int]:
    """Numbers of the operators that the outputs depend on, from the inputs on."""
    alive = set(graph.outputs) - set(graph.inputs)
    needed = set()
    for number in range(len(graph.operators) - 1, -1, -1):
        op = graph.operators[number]
        if alive.intersection(op.outputs):
            needed.add(number)
            alive.update(set(op.inputs).difference(graph.inputs))
    return needed


def _operators(context: Context, graph: Subgraph, needed: set[int]) -> None:
    runs = {first: run for first, run in blocks.dilated_runs(graph).items() if needed.issuperset((first, *run))}
    skipped = {number for run in runs.values() for number in run}
    for number, op in enumerate(graph.operators):
        if number not in needed or number in skipped:
            continue
        context.begin(op)
        if number in runs:
            blocks.write_dilated(context, op, *(graph.operators[entry] for entry in runs[number]))
            continue
        rule = RULES.get(op.kind)
        if rule is None:
            raise context.unsupported(op, "the reader does not have this operator")
        rule(context, op)


def _merge_ends(context: Context, names: set[str]) -> None:
    """What an Identity at the end would rename has the name at once, where nothing else reads it."""
    makers = {output: node for node in context.nodes for output in node.output}
    readers: dict[str, int] = {}
    for node in context.nodes:
        for entry in node.input:
            readers[entry] = readers.get(entry, 0) + 1
    kept = []
    for node in context.nodes:
        source = node.input[0] if node.input else ""
        if node.op_type == "Identity" and node.output[0] in names and source in makers and readers[source] == 1:
            maker = makers[source]
            maker.output[list(maker.output).index(source)] = node.output[0]
        else:
            kept.append(node)
    context.nodes[:] = kept
