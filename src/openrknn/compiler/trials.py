"""Trying a compiled model: what it is fed with for each choice of shapes, and items of a batch together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from openrknn.compiler.ir import Array, Graph, Op
from openrknn.compiler.result import Compiled, Variant
from openrknn.container.model import Model
from openrknn.runtime.io.outputs import OutputKind
from openrknn.runtime.session import Session

Feeds: TypeAlias = list[dict[str, Array]]


def trials(compiled: Compiled, feeds: Feeds | None, count: int) -> Iterator[tuple[int, Variant, Feeds]]:
    """(number of the graph, the variant, what to try it on); those without data are left out if others have some."""
    for number, variant in enumerate(compiled.variants):
        shapes = variant.item_shapes
        fitting = [feed for feed in feeds or () if all(feed[name].shape == shape for name, shape in shapes.items())]
        used = fitting if feeds else variant.samples[:count]
        if not used and not feeds and not any(other.samples for other in compiled.variants):
            used = [noise(variant.graph)]
        if used:
            yield number, variant, used


def choose_shapes(session: Session, number: int) -> None:
    """Those of the n-th graph."""
    graph = session.model.graphs[number]
    if session.model.is_dynamic:
        session.set_shapes({graph.tensors[index].name: graph.tensors[index].shape for index in graph.inputs})


def items_of(model: Model, variant: Variant) -> int:
    """How many one run takes: what the graph has, or what the runtime makes of it."""
    return variant.batch * max(1, model.batch_size)


def run_items(
    session: Session, raws: Sequence[Mapping[str, Array]], batch: int = 1, *, layout: str = "nchw",
    outputs: OutputKind = "float",
) -> list[dict[str, Array]]:  # fmt: skip
    """Run every item; a model for batches takes them in groups, the last one filled up."""
    layouts = {spec.name: layout for spec in session.inputs if len(spec.shape) == 4}
    found: list[dict[str, Array]] = []
    for group in grouped(raws, batch):
        results = session.run(group, layout=layouts or None, outputs=outputs)
        for item in range(batch):
            found.append({name: _part(array, item, batch) for name, array in results.items()})
    return found[: len(raws)]


def _part(array: Array, item: int, batch: int) -> Array:
    size = len(array) // batch
    return array[item * size : (item + 1) * size] if batch > 1 else array


def grouped(raws: Sequence[Mapping[str, Array]], batch: int) -> Iterator[dict[str, Array]]:
    """As many items together as one run takes."""
    for start in range(0, len(raws), batch):
        group = [raws[min(start + item, len(raws) - 1)] for item in range(batch)]
        yield {name: np.concatenate([raw[name] for raw in group]) if batch > 1 else group[0][name] for name in group[0]}


def named(output: str, shapes: str) -> str:
    """The name of an output in a message."""
    return f"{output} ({shapes})" if shapes else output


def shapes_text(compiled: Compiled, variant: Variant) -> str:
    """What tells this variant from the others."""
    if len(compiled.variants) == 1:
        return ""
    return ", ".join(f"{name} {'x'.join(map(str, shape))}" for name, shape in variant.shapes.items())


def raw_inputs(compiled: Compiled, feed: dict[str, Array]) -> dict[str, Array]:
    """What the ONNX model takes, as a Session takes it."""
    return {name: compiled.preprocess.undo(name, values) for name, values in feed.items()}


def noise(graph: Graph) -> dict[str, Array]:
    """Around 0, with a spread of 1; where the model says what an input's range is, all over that."""
    generator = np.random.default_rng(0)
    feed = {}
    for name in graph.inputs:
        value = graph.values[name]
        numbers = value.quantization
        if value.integer:
            feed[name] = _indices(graph, name, generator)
        elif numbers is None:
            feed[name] = generator.normal(0, 1, value.shape).astype(np.float32)
        else:
            feed[name] = generator.uniform(numbers.low, numbers.high, value.shape).astype(np.float32)
            if graph.given:  # scales that were chosen elsewhere are for data, not for the loudest noise that fits
                middle = (numbers.low + numbers.high) / 2
                feed[name] = (middle + (feed[name] - middle) * _QUIETER).astype(np.float32)
    return feed


_QUIETER = 0.4
"""Noise all over 0.4 of a range has the spread of a bell curve whose 4 sigma are the range."""
_INTEGER = {"int64": np.int64, "int32": np.int32, "bool": np.bool_}


def _indices(graph: Graph, name: str, generator: np.random.Generator) -> Array:
    """Any place of the smallest table that is read with them; truths and what reads no table are 0 and 1."""
    sizes = [_table(graph, op) for op in graph.ops if op.inputs[1:2] == [name] and _kind(op) == "Gather"]
    value = graph.values[name]
    return generator.integers(0, min(sizes, default=2), value.shape).astype(_INTEGER[value.integer])


def _kind(op: Op) -> str:
    return op.operator


def _table(graph: Graph, op: Op) -> int:
    constant = graph.constants.get(op.inputs[0])
    shape = graph.shape(op.inputs[0]) if constant is None else constant.shape
    return int(shape[int(op.attributes.get("axis", 0))])
