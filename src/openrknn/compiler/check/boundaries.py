"""Every operator of a file against the float model: alone on the float model's numbers, or in a whole run.

Only tensors that hold a value of the ONNX model are compared, as it is or moved around in memory. What the compiler
adds in between (half of a sum, the power in a norm) has a range and a meaning of its own: it belongs to the next
operator that can be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import NamedTuple

import numpy as np

from openrknn.compiler.errors import CalibrationError
from openrknn.compiler.float_model import FloatModel
from openrknn.compiler.ir import Array, Graph
from openrknn.compiler.program import Step
from openrknn.compiler.quantise.statistics import derive, names_for
from openrknn.compiler.repeat import tensor_suffix
from openrknn.compiler.result import Compiled, Variant
from openrknn.compiler.trials import grouped, items_of, raw_inputs
from openrknn.distance import Distance, measure
from openrknn.runtime.inspector import Captured, Inspector, Window


class Boundary(NamedTuple):
    """One result of an operator."""

    value: str
    """The graph's name of it."""
    operator: str
    """In words."""
    distance: Distance
    step: float
    """Of the quantisation; 0 for fp16."""


def teacher_of(graph: Graph, source: FloatModel, feed: dict[str, Array]) -> dict[str, Array]:
    """The float model's numbers by the names of the graph, where both mean the same."""
    seen = dict(source.run(feed))
    named = set(seen)
    derive(graph, seen)
    moved = {name for name in seen if name not in named and _only_moves(graph, name, seen)}
    return {name: values for name, values in seen.items() if name in named or name in moved}


def _only_moves(graph: Graph, name: str, seen: dict[str, Array]) -> bool:
    """Whether a derived value has the numbers of its source, in whatever order: odd numbers stay odd numbers."""
    if name in graph.addends:
        return False
    source, function = graph.derived[name]
    odd = np.arange(1, 2 * seen[source].size, 2, dtype=np.float64).reshape(seen[source].shape)
    made = np.asarray(function(odd))
    with np.errstate(invalid="ignore"):
        rest = made - 2 * np.floor(made * 0.5)  # made % 2, whose division of doubles takes twenty times as long
        return bool(((rest == 1) & (made > 0) | (made == 0)).all())


def compared(
    compiled: Compiled, number: int, feed: dict[str, Array], teacher: dict[str, Array], *, alone: bool,
    shared: Inspector | None = None, tell: Callable[[int, int], None] = lambda done, of: None,
) -> Iterator[Boundary]:  # fmt: skip
    """In the order in which operators run. `shared`: of an open session, whose decoded tasks are used again."""
    variant = compiled.variants[number]
    program = variant.program or variant.lowering.program
    items = range(variant.batch)
    owner = {f"{name}{tensor_suffix(item)}" if variant.batch > 1 else name: name for name in teacher for item in items}
    steps = {name: step for step in program.steps for name in step.outputs}
    with ExitStack() as stack:
        if shared is None:
            inspector = stack.enter_context(
                Inspector(compiled.model, "software", graph=number, windows=windows_of(variant))
            )
        else:
            inspector = shared
            inspector.clear()
        raw = [raw_inputs(compiled, feed)] * items_of(compiled.model, variant)
        inspector.feed(next(grouped(raw, variant.batch)), "nchw")
        count = len(inspector.operators)
        sizes = {tensor.name: int(np.prod(tensor.shape)) for entry in inspector.operators for tensor in entry.inputs}
        known = {name: teacher[value] for name, value in owner.items() if sizes.get(name) == teacher[value].size}
        for item in inspector.isolated(known) if alone else inspector.captured():
            if item.operator is None:
                continue
            tell(item.operator.index, count)
            value = owner.get(item.tensor.name, "")
            reference = teacher.get(value)
            if reference is not None and reference.size == item.stored.size and np.isfinite(reference).any():
                yield _boundary(item, value, reference, steps.get(item.tensor.name))


def _boundary(item: Captured, value: str, reference: Array, step: Step | None) -> Boundary:
    numbers = item.tensor.quantization
    scale = max(numbers.scale, default=0.0) if numbers is not None else 0.0
    return Boundary(value, label_of(step, item.tensor.name), measure(item.real, reference), float(scale))


def label_of(step: Step | None, name: str) -> str:
    """An operator of the file in the words of the ONNX model."""
    fused = ", ".join(dict.fromkeys(step.fused)) if step is not None else ""
    return f"{step.type if step is not None else 'operator'} {fused or name!r}"


def windows_of(variant: Variant) -> dict[str, Window]:
    """Parts of concatenations and slices: their surfaces are as far apart as those of the whole."""
    program = variant.program or variant.lowering.program
    found = {}
    for name, tensor in program.tensors.items():
        if tensor.parent is not None and tensor.layout == "feature":
            root, start = program.root(name)
            found[name] = Window(root.name, start, root.pitch)
    return found


def float_model_of(variant: Variant) -> FloatModel:
    """The float model with every value that the graph knows; with the outputs alone where ONNX Runtime refuses that."""
    try:
        return FloatModel(variant.source, names_for(variant.graph))
    except CalibrationError:
        return FloatModel(variant.source, variant.graph.outputs)
