"""A Reshape wherever the model's shape and the NPU's four dimensions meet: at converts, on the CPU, at ends."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from openrknn.compiler.ir import Graph, Op, Value
from openrknn.compiler.passes import Property

_LIKE_FOUR = {"Softmax": (2,), "Exp": (1, 2), "Sin": (1, 2), "Sqrt": (1, 2)}
"""Operators to which [1, C] (or [C]) and [1, C, 1, 1] are the same -> numbers of dimensions."""


def takes_plain(op: Op) -> bool:
    """Whether the CPU does it, on plain arrays."""
    return op.type in {"Cpu", "Reshape"}


def fit_converts(graph: Graph) -> None:
    """A change of format does not care what the first dimension is, a map of the NPU does: it becomes channels."""
    for op in _several_items(graph):
        shape, ends = graph.shape(op.output), (op.inputs[0], op.output)
        cube = (1, shape[0], prod(shape[1:-1]), shape[-1])
        item = graph.add_like(f"{op.output}_item", ends[0], cube)
        made = graph.add_like(f"{op.output}_made", ends[1], cube)
        op.inputs, op.outputs = [item], [made]
        at = graph.ops.index(op)
        graph.ops.insert(at, Op("Reshape", item, [ends[0]], [item], {}, op.fused))
        graph.ops.insert(at + 2, Op("Reshape", ends[1], [made], [ends[1]], {}, op.fused))


def _several_items(graph: Graph) -> list[Op]:
    """Converts of several items."""
    shapes = [(op, graph.shape(op.output)) for op in graph.ops if op.type == "Convert"]
    return [op for op, shape in shapes if len(shape) > 1 and shape[0] != 1]


def fit_cpu(graph: Graph) -> None:
    """The NPU keeps all shapes as four dimensions; the CPU's operators see the model's, so a Reshape stands between."""
    for op in [entry for entry in graph.ops if entry.type == "Cpu"]:
        for name in dict.fromkeys(graph.activations(op)):
            if not _is_four(graph, op, name) and not _is_plain(graph, name):
                plain = graph.add_like(f"{name}_plain", name)
                graph.replace_uses(name, plain, [op])
                graph.ops.insert(graph.ops.index(op), Op("Reshape", plain, [name], [plain]))
        for at, name in enumerate(op.outputs):
            if (not _is_four(graph, op, name) or _is_cut_off(graph, op)) and not _is_plain(graph, name):
                plain = graph.add_like(f"{name}_plain", name)
                op.outputs[at] = plain
                graph.ops.insert(graph.ops.index(op) + 1, Op("Reshape", name, [plain], [name]))


def _is_four(graph: Graph, op: Op, name: str) -> bool:
    """Whether the operator may see the value as the NPU has it."""
    rank = len(graph.shape(name))
    return rank == 4 or rank in _LIKE_FOUR.get(op.operator, ())


def _is_cut_off(graph: Graph, op: Op) -> bool:
    """Runtime 1.5.2 cuts int8 results of Softmax off, instead of rounding, where it writes them in the NPU's layout."""
    return op.operator == "Softmax" and graph.values[op.output].quantization is not None


def _is_plain(graph: Graph, name: str) -> bool:
    """Whether only the CPU touches a value."""
    maker = graph.producer(name)
    return (maker is None or takes_plain(maker)) and all(takes_plain(op) for op in graph.ops if name in op.inputs)


def _unlike_maps(graph: Graph) -> Iterator[str]:
    for op in graph.ops:
        for name in (*graph.activations(op), *op.outputs) if op.type == "Cpu" else ():
            if not _is_four(graph, op, name) and not _is_plain(graph, name):
                yield repr(name)


def fit_ends(graph: Graph) -> None:
    """Inputs and outputs of two, three or more dimensions that are not one run of channels get a Reshape in between."""
    for name in graph.inputs:
        readers = [op for op in graph.ops if name in op.inputs and not takes_plain(op)]
        if readers and not _is_natural(graph.values[name]):  # the CPU's operators see the model's own shape
            _read_as_map(graph, name, readers, 0)
    for name in graph.outputs:
        maker = graph.producer(name)
        if maker is None or _is_natural(graph.values[name]):
            continue
        readers = [op for op in graph.ops if name in op.inputs and not takes_plain(op)]
        if takes_plain(maker):  # a plain array
            if readers:
                _read_as_map(graph, name, readers, graph.ops.index(maker) + 1)
            continue
        inner = graph.add_like(f"{name}_cube", name, (1, *graph.values[name].cube))
        by_cpu = [op for op in graph.ops if op.type == "Cpu" and name in op.inputs]
        if by_cpu:
            seen = graph.add_like(f"{name}_plain", name)
            graph.replace_uses(name, seen, by_cpu)
            graph.ops.insert(graph.ops.index(maker) + 1, Op("Reshape", seen, [inner], [seen]))
        graph.replace_uses(name, inner)
        maker.outputs = [inner if entry == name else entry for entry in maker.outputs]
        graph.ops.append(Op("Reshape", name, [inner], [name]))


def _read_as_map(graph: Graph, name: str, readers: list[Op], at: int) -> None:
    inner = graph.add_like(f"{name}_cube", name, (1, *graph.values[name].cube))
    graph.replace_uses(name, inner, readers)
    graph.ops.insert(at, Op("Reshape", inner, [name], [inner]))


def _is_natural(value: Value) -> bool:
    """Four dimensions, or one pixel: memory is what people expect."""
    return len(value.shape) == 4 or (len(value.shape) == 2 and value.shape[0] == 1)


def _unlike_ends(graph: Graph) -> Iterator[str]:
    for name in (*graph.inputs, *graph.outputs):
        maker = graph.producer(name)
        users = [*(op for op in graph.ops if name in op.inputs), *([maker] if maker is not None else [])]
        if not _is_natural(graph.values[name]) and not all(takes_plain(op) for op in users):
            yield repr(name)


ONE_ITEM = Property("a change of format is of one item", lambda graph: (repr(op.name) for op in _several_items(graph)))
CPU_SHAPES = Property("what the CPU and the NPU share has four dimensions", _unlike_maps)
ENDS = Property("an input or output that is no map is a plain array", _unlike_ends)
