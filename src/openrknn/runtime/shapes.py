"""Dynamic shapes: which there are, and which graph belongs to the ones that a user asks for."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from openrknn.container.model import Model
from openrknn.container.parts import Graph
from openrknn.container.specs import Specs

Shapes = Mapping[str, tuple[int, ...]]


def specs(model: Model, graph: Graph, *, inputs: bool) -> Specs:
    """Inputs or outputs of one graph, with the batch that one run takes."""
    single = dataclasses.replace(model, graphs=(graph,))
    found = single.inputs if inputs else single.outputs
    if model.batch_size <= 1:
        return found
    return Specs(
        dataclasses.replace(spec, shape=(spec.shape[0] * model.batch_size, *spec.shape[1:]) if spec.shape else ())
        for spec in found
    )


def allowed_shapes(model: Model) -> tuple[dict[str, tuple[int, ...]], ...]:
    """The sets of input shapes that the model was built for, in the order of its graphs."""
    return tuple({spec.name: spec.shape for spec in specs(model, graph, inputs=True)} for graph in model.graphs)


def graph_for(model: Model, wanted: object) -> int:
    """The graph with these input shapes. A dict by name, a list of shapes, or one shape; NHWC or NCHW."""
    for graph in model.graphs:
        described = specs(model, graph, inputs=True)
        shapes = _in_order(wanted, [spec.name for spec in described])
        originals = [graph.tensors[index].shape for index in graph.inputs]
        rows = zip(shapes, described, originals, strict=True)
        if all(shape in {spec.shape, original} for shape, spec, original in rows):
            return graph.index
    allowed = "; ".join(
        ", ".join(f"{name} {shape}" for name, shape in entry.items()) for entry in allowed_shapes(model)
    )
    raise ValueError(f"the model was not built for the shapes {wanted}; it has {allowed}")


def _in_order(wanted: object, names: Sequence[str]) -> list[tuple[int, ...]]:
    if isinstance(wanted, Mapping):
        if set(wanted) != set(names):
            raise ValueError(f"shapes are needed for {', '.join(names)}; {', '.join(map(str, wanted))} were given")
        return [tuple(wanted[name]) for name in names]
    if not isinstance(wanted, list | tuple) or not wanted:
        raise TypeError(f"shapes are a dict by name, a list of shapes or one shape, not {wanted!r}")
    shapes = [wanted] if isinstance(wanted[0], int) else wanted
    if len(shapes) != len(names):
        raise ValueError(f"{len(shapes)} shapes were given; the model has {len(names)} inputs: {', '.join(names)}")
    return [tuple(shape) for shape in shapes]
