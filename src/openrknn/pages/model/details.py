"""What the script shows when an operator is chosen, as JSON. The script writes it as text, never as HTML."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from openrknn.container.parts import NO_TENSOR, Tensor
from openrknn.pages.markup import Markup, clean, tag
from openrknn.pages.model.graph import MAX_DRAWN, look
from openrknn.pages.model.texts import attribute, dims, macs, native, quantization, tasks, weight_scales
from openrknn.pages.model.view import View, op_name, tensor_name
from openrknn.quantities import size_text

__all__ = ["data"]

_MAX_TENSORS = 24
_MAX_ATTRIBUTES = 24
_TAGS = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def data(view: View) -> Markup:
    """A data block: operators by index, and the tensors that they use."""
    used: dict[int, dict[str, Any]] = {}
    operators = {view.operators[place].index: _operator(view, place, used) for place in range(_shown(view))}
    text = json.dumps({"operators": operators, "tensors": used}, ensure_ascii=False, separators=(",", ":"))
    return tag("script", Markup(text.translate(_TAGS)), type="application/json", class_="data")


def _shown(view: View) -> int:
    return min(len(view.operators), MAX_DRAWN)


def _there(indices: Iterable[int]) -> list[int]:
    """Each tensor once, without the optional ones that the operator does not have."""
    return [index for index in dict.fromkeys(indices) if index != NO_TENSOR]


def _operator(view: View, place: int, used: dict[int, dict[str, Any]]) -> dict[str, Any]:
    report, node = view.operators[place], view.graph.nodes[place]
    activations: list[int] = []
    constants: list[int] = []
    for index in _there(node.inputs):
        tensor = view.graph.tensors[index]
        (activations if tensor.kind.is_activation else constants).append(index)
    groups = {"Inputs": activations, "Constants": constants, "Outputs": _there(node.outputs)}
    for indices in groups.values():
        for index in indices[:_MAX_TENSORS]:
            if index not in used:
                used[index] = _tensor(view, view.graph.tensors[index])
    facts = {
        "MACs": macs(report.macs) if not report.is_boundary else "",
        "Weights": size_text(report.weight_bytes) if report.weight_bytes else "",
        "Weight scales": weight_scales(report.weight_quantization),
        "Output": size_text(report.output_bytes) if report.output_bytes else "",
        "Commands": f"{report.commands:,}" if report.commands else "",
        "Tasks": tasks(report.tasks),
        **_attributes(view, place),
    }
    return {
        "type": clean(report.type, 60),
        "name": op_name(report),
        "look": look(report),
        "on": report.placement.upper(),
        "facts": {name: text for name, text in facts.items() if text},
        "groups": {name: indices[:_MAX_TENSORS] for name, indices in groups.items() if indices},
        "more": sum(max(0, len(indices) - _MAX_TENSORS) for indices in groups.values()),
    }


def _attributes(view: View, place: int) -> dict[str, str]:
    node = view.graph.nodes[place]
    values = {**node.attributes, **((node.parameters and node.parameters.values) or {})}
    shown = list(values.items())[:_MAX_ATTRIBUTES]
    return {clean(str(name), 40): clean(attribute(value), 120) for name, value in shown}


def _tensor(view: View, tensor: Tensor) -> dict[str, Any]:
    size = len(tensor.data) if tensor.data is not None else tensor.size_bytes
    place = f"offset {tensor.offset:#x}" if tensor.kind.is_activation else tensor.kind.name.lower().replace("_", " ")
    return {
        "name": tensor_name(tensor.name),
        "shape": f"{tensor.dtype.label} {dims(tensor.shape)}",
        "facts": [
            fact for fact in (quantization(tensor.quantization), native(tensor), f"{size_text(size)}, {place}") if fact
        ],
        "from": _indices(view, view.writers.get(tensor.index, [])),
        "to": _indices(view, view.readers.get(tensor.index, [])),
    }


def _indices(view: View, places: list[int]) -> list[int]:
    return [view.operators[place].index for place in places[:_MAX_TENSORS]]
