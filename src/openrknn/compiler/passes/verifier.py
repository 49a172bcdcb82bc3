"""What holds of a graph between two passes, and after certain ones: a pass that breaks it is named at once.

Always: every name is a value or a constant, and not both; every value is an input or the result of exactly one
operator; shapes follow from operands where the operator says how. `Property` has what only some passes need or give.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from math import prod
from typing import NamedTuple

import numpy as np

from openrknn.compiler.forms import FORMS, Conv
from openrknn.compiler.ir import Graph, Op, Value
from openrknn.compiler.operators import OPERATORS, Family

_SHOWN = 5
_UNTYPED = {"Convert", "Cpu", "Reshape"}
"""Operators of which `lower` needs to know nothing but their operands."""


class GraphError(AssertionError):
    """A pass left a graph that cannot be right."""


class Property(NamedTuple):
    """What a pass may need or give beyond what always holds."""

    text: str
    exceptions: Callable[[Graph], Iterable[str]]
    """Who does not have it."""


def verify_graph(graph: Graph, where: str, properties: Iterable[Property] = ()) -> None:
    """GraphError that says `where`, and what does not hold."""
    wrong = [*_names(graph), *(line for op in graph.ops for line in _shapes(graph, op))]
    for each in properties:
        wrong += [f"{each.text}: not so for {line}" for line in each.exceptions(graph)]
    if wrong:
        more = f" and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        raise GraphError(f"{where}: {'; '.join(wrong[:_SHOWN])}{more}")


def _names(graph: Graph) -> Iterator[str]:
    made = Counter(name for op in graph.ops for name in op.outputs if name)
    known = made.keys() | set(graph.inputs)
    for name, count in made.items():
        if count > 1:
            yield f"{name!r} is computed {count} times"
        if name in graph.inputs:
            yield f"{name!r} is an input and computed"
        if name not in graph.values:
            yield f"{name!r} is computed, but no value"
    for name in graph.values.keys() & graph.constants.keys():
        yield f"{name!r} is a value and a constant"
    for op in graph.ops:
        if op.form is not None and not isinstance(op.form, FORMS.get(op.type, ())):
            yield f"{op.type} {op.name!r} has the form of a {type(op.form).__name__}"
        for name in op.inputs:
            if name and name not in known and name not in graph.constants:
                yield f"{op.type} {op.name!r} reads {name!r}, which nothing computes"
    yield from (f"input {name!r} is no value" for name in graph.inputs if name not in graph.values)
    for name in graph.outputs:
        if name not in known and name not in graph.constants:
            yield f"output {name!r} is not computed"
    empty = [value for value in graph.values.values() if 0 in value.shape]
    yield from (f"{value.name!r} has the shape {list(value.shape)}" for value in empty)


def _shapes(graph: Graph, op: Op) -> Iterator[str]:
    """Of operators whose results follow from the shapes of their operands alone."""
    shapes = [graph.shape(name) for name in op.inputs if name in graph.values or name in graph.constants]
    if len(op.outputs) != 1 or op.output not in graph.values or not shapes:
        return
    made = graph.shape(op.output)
    row = OPERATORS.get(op.type)
    family = row.family if row is not None else None
    is_right = True
    if op.type == "Activation":  # [1, C] may be the end of [1, C, 1, 1]
        is_right = Value("", shapes[0]).cube == Value("", made).cube
    elif family in {Family.UNARY, Family.IDENTITY, Family.CAST}:
        is_right = made == shapes[0]
    elif family is Family.BROADCAST:
        try:
            is_right = np.broadcast_shapes(*shapes) == made
        except ValueError:
            is_right = False
    elif family is Family.VIEW:
        is_right = prod(shapes[0]) == prod(made)
    elif op.type == "Transpose":
        order = op.attributes.get("perm") or range(len(shapes[0]))[::-1]
        is_right = tuple(shapes[0][axis] for axis in order) == made
    elif op.type == "Conv" and op.form is not None and op.inputs[1] in graph.constants:
        is_right = _is_convolution(graph, op)
    if not is_right:
        yield f"{op.type} {op.name!r} makes {list(made)} of {', '.join(str(list(shape)) for shape in shapes)}"


def _is_convolution(graph: Graph, op: Op) -> bool:
    """Whether channels and windows of a normalised Conv fit."""
    (channels, *sizes), (outputs, *made) = graph.values[op.inputs[0]].cube, graph.values[op.output].cube
    weight, given = graph.shape(op.inputs[1]), op.get(Conv)
    top, left, bottom, right = given.pads
    reach = [step * (size - 1) + 1 for step, size in zip(given.dilations, given.kernel, strict=True)]
    room = [size + pads - taps for size, pads, taps in zip(sizes, (top + bottom, left + right), reach, strict=True)]
    windows = [space // step + 1 for space, step in zip(room, given.strides, strict=True)]
    fits = all(most >= size for most, size in zip(windows, made, strict=True))  # a Slice leaves the last ones out
    return fits and weight[:2] == (outputs, channels // given.group)


def _unordered(graph: Graph) -> Iterator[str]:
    done = {*graph.inputs, *graph.constants, ""}
    for op in graph.ops:
        if not done.issuperset(op.inputs):
            yield f"{op.type} {op.name!r}"
        done.update(op.outputs)


def _orphans(graph: Graph) -> Iterator[str]:
    read = {name for op in graph.ops for name in op.inputs} | set(graph.outputs)
    made = {name for op in graph.ops for name in op.outputs} | set(graph.inputs)
    yield from (f"{op.type} {op.name!r}" for op in graph.ops if read.isdisjoint(op.outputs))
    yield from (repr(name) for name in graph.values if name not in read | made)
    yield from (repr(name) for name in graph.constants if name not in read)


def _several_reshapes(graph: Graph) -> Iterator[str]:
    makers = graph.producers()
    for op in graph.ops:
        row = OPERATORS.get(op.type)
        before = makers.get(op.inputs[0]) if op.inputs else None
        twice = op.type == "Reshape" and before is not None and before.type == "Reshape"
        if twice or (row is not None and row.family is Family.VIEW and op.type != "Reshape"):
            yield f"{op.type} {op.name!r}"


def is_ready(op: Op) -> bool:
    """Whether the operator is in the form that `lower` has; the same name can mean an unsupported form."""
    return op.type in _UNTYPED or op.form is not None


ORDERED = Property("everything is computed before it is read", _unordered)
NO_ORPHANS = Property("every operator, value and constant is used", _orphans)
ONE_RESHAPE = Property("every change of shape is called Reshape, and none follows another", _several_reshapes)
READY = Property(
    "`lower` or the CPU has every operator",
    lambda graph: (f"{op.type} {op.name!r}" for op in graph.ops if not is_ready(op)),
)
