"""`rknn_set_input_shapes`: which graph of a dynamic model has the shapes that a program asks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from openrknn.capi.attributes import input_attr
from openrknn.capi.call import CallError, Code
from openrknn.capi.context import ModelContext
from openrknn.container.model import Model
from openrknn.vendor.tables.enums import TensorFormat


def graph_of(context: ModelContext, attrs: Sequence[dict[str, Any]]) -> int:
    """The graph whose inputs have these dimensions; of several, one whose other inputs are as they are now."""
    model = context.model
    wanted = {_index(model, place, attr): _dims(attr) for place, attr in enumerate(attrs)}
    now = _shapes(model, context.graph)
    fitting = [
        graph.index for graph in model.graphs
        if all(shape == _shapes(model, graph.index)[index] for index, shape in wanted.items())
    ]  # fmt: skip
    if not fitting:
        known = "; ".join(str([list(shape) for shape in _shapes(model, graph.index)]) for graph in model.graphs)
        asked = ", ".join(f"{list(shape)} for input {index}" for index, shape in wanted.items())
        raise CallError(Code.FAIL, f"the model was not built for {asked}; it has (NHWC) {known}")
    return max(fitting, key=lambda graph: sum(map(tuple.__eq__, _shapes(model, graph), now)))


def _index(model: Model, place: int, attr: dict[str, Any]) -> int:
    """By name; runtime 1.5.2 takes the place of what has no name that it knows."""
    names = [input_attr(model, 0, index)["name"] for index in range(len(model.graphs[0].inputs))]
    if attr["name"] in names:
        return names.index(attr["name"])
    return attr["index"] if not place and attr["index"] < len(names) else min(place, len(names) - 1)


def _dims(attr: dict[str, Any]) -> tuple[int, ...]:
    if attr["fmt"] not in {TensorFormat.NHWC, TensorFormat.UNDEFINED}:
        raise CallError(
            Code.PARAM_INVALID,
            f"input {attr['name']!r}: shapes are NHWC (1) or UNDEFINED (3), not format {attr['fmt']}",
        )
    return tuple(attr["dims"][: attr["n_dims"]])


def _shapes(model: Model, graph: int) -> list[tuple[int, ...]]:
    count = len(model.graphs[graph].inputs)
    return [tuple(input_attr(model, graph, index)["dims"]) for index in range(count)]
