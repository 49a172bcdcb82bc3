"""Small helpers of the passes: replacing operators, reading attributes and constants."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from openrknn.compiler.errors import UnsupportedOperatorError
from openrknn.compiler.ir import Array, Graph, Op

_MOST_DIMENSIONS = 4


def alias(graph: Graph, op: Op, source: str) -> None:
    """Remove an operator whose output is its input."""
    target = op.output
    graph.ops.remove(op)
    if target not in graph.outputs:
        graph.replace_uses(target, source)
        return
    producer = next((other for other in graph.ops if source in other.outputs), None)
    if producer is None or source in graph.outputs:
        # An input that is an output, or two outputs with the same content: it has to be moved after all.
        graph.ops.append(Op("Reshape", op.name, [source], [target], fused=op.fused))
        graph.sort()
        return
    producer.outputs = [target if name == source else name for name in producer.outputs]
    graph.replace_uses(source, target)


def replace_op(graph: Graph, op: Op, *others: Op) -> None:
    """Put other operators in the place of one."""
    at = graph.ops.index(op)
    graph.ops[at : at + 1] = others


def sole_reader(graph: Graph, name: str) -> Op | None:
    """The only operator that reads a value, if there is one and the value is no output of the graph."""
    if name in graph.outputs:
        return None
    readers = [op for op in graph.ops if name in op.inputs]
    return readers[0] if len(readers) == 1 and readers[0].inputs.count(name) == 1 else None


def constant(graph: Graph, op: Op, index: int) -> Array | None:
    """A constant operand; None if it is left out or not constant."""
    name = op.inputs[index] if index < len(op.inputs) else ""
    return graph.constants.get(name) if name else None


def axes_of(graph: Graph, op: Op, rank: int, index: int = 1) -> tuple[int, ...] | None:
    """The axes of a reduction: an attribute in old models, an input in new ones; not negative."""
    given = op.attributes.get("axes")
    array = constant(graph, op, index)
    if given is None and array is not None:
        given = [int(axis) for axis in array.reshape(-1)]
    return None if given is None else tuple(sorted(int(axis) % rank for axis in given))


def channel_constant(graph: Graph, name: str, shape: Sequence[int]) -> Array | None:
    """A constant that is one number per channel (or one at all) next to an activation of this shape, as [C]."""
    array = graph.constants.get(name)
    if array is None or array.dtype.kind not in "fiu" or not 2 <= len(shape) <= _MOST_DIMENSIONS:
        return None  # beyond four dimensions the NPU's channels are not those of the model
    if array.size == 1:
        return np.full(shape[1], array.reshape(-1)[0], np.float64)
    full = (1,) * (len(shape) - array.ndim) + tuple(array.shape)
    if len(full) != len(shape) or full[1] != shape[1] or any(size != 1 for at, size in enumerate(full) if at != 1):
        return None
    return array.reshape(-1).astype(np.float64)


def pair(op: Op, name: str, default: int) -> tuple[int, int]:
    """An attribute of a window as (height, width); 1-D operators work on height 1."""
    values = [int(value) for value in op.attributes.get(name) or ()]
    if not values:
        return default, default
    if len(values) == 1:
        return 1, values[0]
    if len(values) != 2:
        refuse(op, f"{name} of {len(values)} dimensions; the NPU works on one or two")
    return values[0], values[1]


def refuse(op: Op, why: str) -> None:
    """Say that this form of the operator cannot be compiled."""
    raise UnsupportedOperatorError(f"{op.type} {op.name!r}: {why}", operators=(op.name, op.output))
