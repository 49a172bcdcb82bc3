"""A group of nodes as an ONNX model of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from openrknn.compiler.float_model import onnx_package
from openrknn.onnxgraph import reads_of
from openrknn.partition.view import View

Cut = tuple[tuple[str, ...], tuple[str, ...]]


def borders(view: View, numbers: Sequence[int]) -> Cut:
    """(what it reads from outside, what others read of it)."""
    inside = set(numbers)
    nodes = [view.nodes[number] for number in numbers]
    made = {name for node in nodes for name in node.makes}
    reads = dict.fromkeys(name for node in nodes for name in node.reads if name not in made)
    makes = [
        name for node in nodes for name in node.makes
        if name in view.outputs or any(reader not in inside for reader in view.readers.get(name, ()))
    ]  # fmt: skip
    return tuple(reads), tuple(makes)


def extract(view: View, numbers: Sequence[int], cut: Cut | None = None) -> Any:
    """The model; its weights are shared with the whole until it is stored."""
    onnx = onnx_package()
    inputs, outputs = cut or borders(view, numbers)
    source = view.model
    entries = {entry.name: entry for entry in (*source.graph.value_info, *source.graph.output, *source.graph.input)}
    model = onnx.ModelProto()
    model.ir_version = source.ir_version
    model.opset_import.extend(source.opset_import)
    model.graph.name = source.graph.name or "part"
    used: set[str] = set()
    for number in numbers:
        proto = view.nodes[number].proto
        model.graph.node.append(proto)
        used.update(reads_of(proto))
    model.graph.initializer.extend(tensor for name, tensor in view.constants.items() if name in used)
    for place, names in ((model.graph.input, inputs), (model.graph.output, outputs)):
        for name in names:
            place.append(entries[name] if name in entries else onnx.helper.make_empty_tensor_value_info(name))
    borders_ = {*inputs, *outputs}
    made = {name for number in numbers for name in view.nodes[number].makes} - borders_
    model.graph.value_info.extend(entries[name] for name in sorted(made) if name in entries)
    return model
