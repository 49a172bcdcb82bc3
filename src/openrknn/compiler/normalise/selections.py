"""Convolutions that only pick channels become part of the convolution before or behind them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from openrknn.compiler.forms import Conv, Slice
from openrknn.compiler.ir import Array, Graph, Op
from openrknn.compiler.normalise.common import sole_reader
from openrknn.compiler.normalise.layouts import derived_from

_ATOM = 16
"""Channels that lie together in both formats."""
_BOTH = {"Add", "Mul"}
_MOST_GROWTH = 1.5
"""Zeros between the parts cost time too."""


def fold_selections(graph: Graph) -> None:
    """Channels in another order, or with zeros between them, cost nothing next to a convolution over all channels."""
    waiting = list(graph.ops)
    while waiting:
        op = waiting.pop(0)
        is_pick = op.type == "Conv" and op.origin == "Pick" and _is_pick(graph, op)
        if is_pick and not (_into_reader(graph, op) or _into_maker(graph, op)):
            waiting = [*_before_maker(graph, op), *waiting]
    _stack(graph)
    graph.prune()


def _stack(graph: Graph) -> None:
    """Several picks of one convolution: it makes its channels in their order, and they become slices of it.

    So query, key and value of a stacked projection, head by head, cost nothing.
    """
    readers, makers = graph.readers(), graph.producers()
    picked = {op.inputs[0] for op in graph.ops if op.type == "Conv" and op.origin == "Pick"}
    for name in picked:
        maker, users = makers.get(name), readers.get(name, [])
        rows = [row for row in (_picked(graph, op) for op in users) if row is not None]
        if maker is None or name in graph.outputs or len(users) < 2 or len(rows) < len(users):
            continue
        if not _is_whole(graph, maker) or len(maker.inputs) > 3 or maker.get(Conv).edges:
            continue
        starts, total = [], 0
        for row in rows:
            starts.append(total)
            total += -(-len(row) // _ATOM) * _ATOM
        weight, bias = graph.constants[maker.inputs[1]], graph.constants[maker.inputs[2]]
        holes = any((row < 0).any() for row in rows) or total != sum(map(len, rows))
        if total > _MOST_GROWTH * len(weight) or (holes and maker.activation):
            continue
        order = np.full(total, -1)
        for start, row in zip(starts, rows, strict=True):
            order[start : start + len(row)] = row
        there = (order >= 0).reshape(-1, 1, 1, 1)
        maker.inputs[1] = graph.add_constant(f"{maker.inputs[1]}_stacked", np.where(there, weight[order], 0))
        maker.inputs[2] = graph.add_constant(f"{maker.inputs[2]}_stacked", np.where(there[:, 0, 0, 0], bias[order], 0))
        stacked = graph.add_derived(f"{name}_stacked", (1, total, *graph.shape(name)[2:]), name)
        maker.outputs = [stacked]
        for user, start in zip(users, starts, strict=True):
            user.become("Slice", Slice(start), [stacked])
            user.origin = ""


def _picked(graph: Graph, op: Op) -> Array | None:
    """The channels that an operator takes, -1 for zeros; None if it does something else."""
    if isinstance(op.form, Slice) and not op.form.along_pixels:
        return np.arange(op.form.start, op.form.start + graph.values[op.output].cube[0])
    if op.type != "Conv" or op.origin not in {"Pick", "Slice"} or not _is_pick(graph, op):
        return None
    matrix = graph.constants[op.inputs[1]][:, :, 0, 0]
    if not np.isin(matrix, (0, 1)).all() or graph.constants[op.inputs[2]].any():
        return None
    return np.where(matrix.any(1), matrix.argmax(1), -1)


def _is_pick(graph: Graph, op: Op) -> bool:
    weight, conv = graph.constants[op.inputs[1]], op.get(Conv)
    is_plain = conv.group == 1 and len(op.inputs) == 3 and not conv.activation
    if not is_plain or weight.shape[2:] != (1, 1) or conv.strides != (1, 1) or any(conv.pads):
        return False
    return bool((np.count_nonzero(weight, axis=(1, 2, 3)) <= 1).all())


def _into_reader(graph: Graph, op: Op) -> bool:
    """W * P: the reader's weights with their inputs in the order before the pick."""
    reader = sole_reader(graph, op.output)
    if reader is None or not _is_whole(graph, reader) or reader.inputs[0] != op.output:
        return False
    if reader.get(Conv).pad_value:
        return False
    matrix = graph.constants[op.inputs[1]][:, :, 0, 0]
    weight = graph.constants[reader.inputs[1]]
    reader.inputs[1] = graph.add_constant(f"{reader.inputs[1]}_picked", np.einsum("oihw,ij->ojhw", weight, matrix))
    reader.inputs[0] = op.inputs[0]
    _drop(graph, op, reader)
    return True


def _into_maker(graph: Graph, op: Op) -> bool:
    """P * W, with the bias picked too; zeros stay zeros only where no activation follows."""
    maker = graph.producers().get(op.inputs[0])
    if maker is None or not _is_whole(graph, maker) or sole_reader(graph, op.inputs[0]) is not op:
        return False
    matrix: Array = graph.constants[op.inputs[1]][:, :, 0, 0]
    if maker.activation and not matrix.any(1).all():
        return False
    if len(maker.inputs) > 3 or maker.get(Conv).edges:
        return False
    weight, bias = graph.constants[maker.inputs[1]], graph.constants[maker.inputs[2]]
    maker.inputs[1] = graph.add_constant(f"{maker.inputs[1]}_picked", np.einsum("po,oihw->pihw", matrix, weight))
    maker.inputs[2] = graph.add_constant(f"{maker.inputs[2]}_picked", matrix @ bias)
    maker.outputs = [op.output]
    _drop(graph, op, maker)
    return True


def _before_maker(graph: Graph, op: Op) -> list[Op]:
    """P * (a + b) is P * a + P * b, and so it is with products: worth it where convolutions take all the picks."""
    maker = graph.producers().get(op.inputs[0])
    if maker is None or maker.type not in _BOTH or sole_reader(graph, op.inputs[0]) is not op:
        return []
    picks = _picked(graph, op)
    shape = graph.shape(maker.output)
    if picks is None or not _takes_picks(graph, maker):
        return []
    made: list[Op] = []
    for at, name in enumerate(maker.inputs):
        array = graph.constants.get(name)
        if array is not None and array.size > 1:
            full = np.broadcast_to(array, (1, shape[1], *array.shape[2:]))
            there = (picks >= 0).reshape(1, -1, *(1 for _ in shape[2:]))
            key = f"{name}_picked_{len(picks)}"
            chosen = np.where(there, full[:, picks], 0)
            if not (key in graph.constants and np.array_equal(graph.constants[key], chosen)):
                key = graph.add_constant(key, chosen)
            maker.inputs[at] = key
        elif array is None:
            part = graph.add_value(f"{name}_picked", (1, len(picks), *shape[2:]))
            graph.derived[part] = derived_from(graph, name, lambda x: x)
            made.append(replace(op, name=part, inputs=[name, *op.inputs[1:]], outputs=[part]))
            maker.inputs[at] = part
    maker.outputs = [op.output]
    at = graph.ops.index(maker)
    graph.ops[at:at] = made
    graph.ops.remove(op)
    return made


def _takes_picks(graph: Graph, op: Op) -> bool:
    """Whether all that a sum or product is made of ends in convolutions without other readers, or in constants."""
    shape = graph.shape(op.output)
    for name in op.inputs:
        array = graph.constants.get(name)
        if array is not None:
            if array.size > 1 and (array.ndim != len(shape) or array.shape[:2] != (1, shape[1])):
                return False
            if array.size == 1 and op.type == "Add" and array.any():
                return False  # zeros would not stay zeros
            continue
        maker = graph.producers().get(name)
        if maker is None or graph.shape(name) != shape or sole_reader(graph, name) is not op:
            return False
        if maker.type in _BOTH:
            if not _takes_picks(graph, maker):
                return False
        elif not _is_whole(graph, maker) or len(maker.inputs) > 3 or maker.activation or maker.get(Conv).edges:
            return False
    return True


def _is_whole(graph: Graph, op: Op) -> bool:
    """A convolution of its own over all channels, whose weights may be rearranged."""
    if op.type != "Conv" or op.get(Conv).group != 1 or op.inputs[1] in graph.stored:
        return False
    return op.inputs[1] in graph.constants and op.inputs[2] in graph.constants


def _drop(graph: Graph, op: Op, into: Op) -> None:
    into.fused = (*into.fused, *(name for name in op.fused if name not in into.fused))
    graph.ops.remove(op)
