"""Operators that do nothing at run time, and different spellings of the same."""

from __future__ import annotations

from openrknn.compiler.ir import Graph, Op
from openrknn.compiler.normalise.common import alias, axes_of, constant, replace_op
from openrknn.compiler.operators import IDENTITIES, VIEWS

_NOTHING = IDENTITIES | {"Cast"}
"""Casts between float types: activations have the NPU's own type anyway."""


def clean(graph: Graph) -> None:
    """Drop what only renames, and call every change of shape Reshape."""
    for op in list(graph.ops):
        if op.type == "Dropout" and not _is_nothing(graph, op):
            op.attributes["reason"] = "it makes a mask, or drops numbers at random; export the model for inference"
        elif op.type in _NOTHING or _is_neutral(graph, op):
            alias(graph, op, next(iter(graph.activations(op)), op.inputs[0]))
        elif op.type == "Transpose" and _keeps_order(graph, op):
            _as_reshape(op)
        elif op.type in VIEWS:
            _as_reshape(op)
            if graph.shape(op.inputs[0]) == graph.shape(op.output):
                alias(graph, op, op.inputs[0])
    _reduce_before_transposing(graph)
    _join_reshapes(graph)
    _cancel_transposes(graph)
    graph.prune()


def _is_neutral(graph: Graph, op: Op) -> bool:
    """A mask that hides nothing: zeros added to something of the same shape."""
    if op.type != "Add" or len(graph.activations(op)) != 1 or op.output in graph.given:
        return False
    array = graph.constants.get(next((name for name in op.inputs if name in graph.constants), ""))
    source = graph.activations(op)[0]
    return array is not None and not array.any() and graph.shape(source) == graph.shape(op.output)


def _is_nothing(graph: Graph, op: Op) -> bool:
    """A Dropout of inference without its mask."""
    ratio, training = (constant(graph, op, at) for at in (1, 2))
    is_off = training is None and len(op.inputs) < 3
    is_off = is_off or (training is not None and not training.any()) or (ratio is not None and not ratio.any())
    return is_off and len(op.outputs) == 1


def _cancel_transposes(graph: Graph) -> None:
    """There and back again is nothing, also with a Reshape between that only adds or drops ones."""
    for op in list(graph.ops):
        if op.type != "Transpose" or op not in graph.ops:
            continue
        before = graph.producer(op.inputs[0])
        if before is None or before.type != "Transpose":
            continue
        rank = len(graph.shape(op.inputs[0]))
        first, second = (entry.attributes.get("perm") or list(range(rank))[::-1] for entry in (before, op))
        if [first[axis] for axis in second] == list(range(rank)):
            alias(graph, op, before.inputs[0])


def _as_reshape(op: Op) -> None:
    op.type = "Reshape"
    op.inputs = op.inputs[:1]
    op.attributes = {}


def _keeps_order(graph: Graph, op: Op) -> bool:
    """A transposition that only moves dimensions of size 1."""
    shape = graph.shape(op.inputs[0])
    order = op.attributes.get("perm") or list(range(len(shape)))[::-1]
    moved = [axis for axis in order if shape[axis] != 1]
    return moved == sorted(moved)


def _reduce_before_transposing(graph: Graph) -> None:
    """A reduction of a transposed map is one of the map itself, over the axes that came from there."""
    for op in list(graph.ops):
        if op.type not in {"ReduceMean", "ReduceMax", "ReduceSum", "ReduceMin"}:
            continue
        before = graph.producer(op.inputs[0])
        rank = len(graph.shape(op.inputs[0]))
        axes = axes_of(graph, op, rank)
        if before is None or before.type != "Transpose" or axes is None:
            continue
        order = before.attributes.get("perm") or list(range(rank))[::-1]
        left = [axis for at, axis in enumerate(order) if at not in axes]
        if left != sorted(left):
            continue
        source = before.inputs[0]
        reduced = tuple(sorted(order[axis] for axis in axes))
        shape = [1 if at in reduced else size for at, size in enumerate(graph.shape(source))]
        inner = graph.add_derived(f"{op.output}_kept", shape, op.output)
        reduction = Op(op.type, op.name, [source], [inner], {"axes": list(reduced), "keepdims": 1}, op.fused)
        replace_op(graph, op, reduction, Op("Reshape", f"{op.name}_shape", [inner], [op.output], {}, op.fused))


def _join_reshapes(graph: Graph) -> None:
    makers = graph.producers()
    for op in graph.ops:
        if op.type == "Reshape":
            while op.inputs[0] in makers and makers[op.inputs[0]].type == "Reshape":
                op.inputs[0] = makers[op.inputs[0]].inputs[0]
    for op in list(graph.ops):
        if op.type == "Reshape" and graph.shape(op.inputs[0]) == graph.shape(op.output):
            alias(graph, op, op.inputs[0])


def split_final_concats(graph: Graph) -> None:
    """Make the parts of a Concat that is an output the outputs, until no output is one."""
    while True:
        makers = graph.producers()
        joined = next(
            (
                name
                for name in graph.outputs
                if name in makers
                and makers[name].type == "Concat"
                and not any(part in graph.constants or part in graph.inputs for part in makers[name].inputs)
            ),
            None,
        )
        if joined is None:
            break
        at = graph.outputs.index(joined)
        parts = [part for part in dict.fromkeys(makers[joined].inputs) if part not in graph.outputs]
        graph.outputs[at : at + 1] = parts
    graph.prune()
