"""Models with something changed in them."""

import dataclasses

from openrknn.analysis.explain import describe
from openrknn.analysis.reports import Severity
from openrknn.container.model import Model
from openrknn.container.parts import Graph


def with_tensor(model: Model, name: str, **changes: object) -> Model:
    """The model with one tensor of its first graph changed."""
    graph = model.graphs[0]
    tensors = tuple(
        dataclasses.replace(tensor, **changes) if tensor.name == name else tensor  # type: ignore[arg-type]
        for tensor in graph.tensors
    )
    return with_graph(model, tensors=tensors)


def with_graph(model: Model, **changes: object) -> Model:
    graph: Graph = dataclasses.replace(model.graphs[0], **changes)  # type: ignore[arg-type]
    return dataclasses.replace(model, graphs=(graph, *model.graphs[1:]))


def codes(model: Model) -> dict[str, Severity]:
    return {finding.code: finding.severity for finding in describe(model).findings}
