"""Several shapes in one file: one graph for each, and weights stored once.

As in the vendor's files: the largest shape is graph 0; every graph has all tensors, and a constant that is the same in
all of them has its bytes in graph 0 only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

from openrknn.container.model import Model
from openrknn.container.parts import DynamicInput, Graph, Kind, MemoryPlan, Tensor, sorted_groups

_ALIGNMENT = 64
_SHAREABLE = {Kind.WEIGHT}


def join_models(models: Sequence[Model]) -> Model:
    """One model of several that have the same inputs and outputs in different shapes."""
    if len(models) == 1:
        return models[0]
    models = [models[0], *(_named_alike(model, models[0]) for model in models[1:])]
    shared = _shared(models)
    graphs, blob = [], 0
    for number, model in enumerate(models):
        graph, blob = _renumbered(model.graphs[0], number, blob, shared if number else frozenset())
        graphs.append(graph)
    inputs = [[graph.tensors[index].shape for index in graph.inputs] for graph in graphs]
    stored = sum(
        -(-len(tensor.data) // _ALIGNMENT) * _ALIGNMENT
        for graph in graphs for tensor in graph.tensors if tensor.data is not None
    )  # fmt: skip
    internal = max(model.memory.internal_bytes for model in models)
    return replace(
        models[0],
        graphs=tuple(graphs),
        shape_mode="dynamic_shape",
        dynamic_inputs=tuple(DynamicInput(tuple(shapes)) for shapes in zip(*inputs, strict=True)),
        shared_weights=tuple(tensor.name for tensor in graphs[0].tensors if tensor.name in shared),
        memory=MemoryPlan(stored, internal, 0),
    )


def _named_alike(model: Model, first: Model) -> Model:
    """Weights with the bytes of the first model's get their names: the same product can end under another name."""
    known = {tensor.name for tensor in first.graphs[0].tensors}
    used = {tensor.name for tensor in model.graphs[0].tensors}
    free = {_content(tensor): tensor.name for tensor in first.graphs[0].tensors
            if tensor.kind in _SHAREABLE and tensor.data and tensor.name not in used}  # fmt: skip
    names: dict[str, str] = {}
    for tensor in model.graphs[0].tensors:
        if tensor.kind in _SHAREABLE and tensor.data and tensor.name not in known:
            name = free.pop(_content(tensor), None)
            if name is not None:
                names[tensor.name] = name
    graph = model.graphs[0]
    renamed = replace(
        graph,
        tensors=tuple(replace(tensor, name=names.get(tensor.name, tensor.name)) for tensor in graph.tensors),
        relocations=sorted_groups(replace(one, tensor=names.get(one.tensor, one.tensor)) for one in graph.relocations),
    )
    return replace(model, graphs=(renamed, *model.graphs[1:])) if names else model


def _content(tensor: Tensor) -> tuple[Any, ...]:
    return tensor.dtype, tensor.layout, tuple(tensor.shape), sha256(tensor.data or b"").digest()


def _shared(models: Sequence[Model]) -> frozenset[str]:
    """Constants of graph 0 that have the same bytes wherever there is one of that name."""
    first, *others = ({tensor.name: tensor for tensor in model.graphs[0].tensors} for model in models)
    found = set()
    for name, tensor in first.items():
        if tensor.kind not in _SHAREABLE or not tensor.data:
            continue
        twins = [tensors[name] for tensors in others if name in tensors]
        if twins and all(_is_same(tensor, twin) for twin in twins):
            found.add(name)
    return frozenset(found)


def _is_same(left: Tensor, right: Tensor) -> bool:
    return (left.dtype, left.layout, left.shape, left.data) == (right.dtype, right.layout, right.shape, right.data)


def _renumbered(graph: Graph, index: int, blob: int, shared: frozenset[str]) -> tuple[Graph, int]:
    tensors = []
    for tensor in graph.tensors:
        if tensor.data is None:
            tensors.append(tensor)
            continue
        blob += 1
        tensors.append(replace(tensor, blob=blob, data=memoryview(b"") if tensor.name in shared else tensor.data))
    return replace(graph, index=index, tensors=tuple(tensors)), blob
