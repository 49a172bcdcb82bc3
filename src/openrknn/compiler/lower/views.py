"""Concatenations and slices without tasks: tensors that are windows into others."""

from __future__ import annotations

from openrknn.compiler.ir import Graph, Op
from openrknn.compiler.lower.context import Lowering

__all__ = ["place_views"]


def place_views(low: Lowering) -> dict[str, list[str]]:
    """Give slices and the parts of concatenations their parents.

    Returns, for each concatenation by its output, the parts that have to be copied after all.
    """
    graph = low.graph
    for op in graph.ops:
        if op.type == "Slice":
            _window(low, op.output, op.inputs[0], op.attributes["start"])
        elif op.type == "Reshape" and _is_same_memory(low, op):
            _window(low, op.output, op.inputs[0], 0)
    copies: dict[str, list[str]] = {}
    for op in graph.ops:
        if op.type == "Concat":
            copies[op.output] = _concat(low, op)
    for name in graph.values:
        root, _ = low.program.root(name)
        low.tensor(name).pitch = root.pitch
    return copies


def _is_same_memory(low: Lowering, op: Op) -> bool:
    """Rows and columns only, between two operators of the NPU: pixels lie one after the other in any case."""
    graph = low.graph
    source, target = low.tensor(op.inputs[0]), low.tensor(op.output)
    (channels, *before), (others, *after) = source.cube, target.cube
    if channels != others or before[0] * before[1] != after[0] * after[1] or op.output in graph.outputs:
        return False
    maker = graph.producers().get(op.inputs[0])
    by_npu = maker is not None and maker.type not in {"Cpu", "Reshape"}
    to_npu = all(reader.type not in {"Cpu", "Reshape"} for reader in graph.ops if op.output in reader.inputs)
    is_map = source.layout == target.layout == "feature" and source.element_bytes == target.element_bytes
    return by_npu and to_npu and is_map and len(graph.shape(op.inputs[0])) == len(graph.shape(op.output)) == 4


def _window(low: Lowering, name: str, parent: str, channel: int) -> None:
    tensor = low.tensor(name)
    surface = channel // low.format_of(name).atom
    tensor.parent = parent
    tensor.parent_offset = surface * low.tensor(parent).pitch * low.target.atom_bytes


def _concat(low: Lowering, op: Op) -> list[str]:
    target = op.output
    copied = []
    placed: dict[str, int] = {}
    for number, (name, start) in enumerate(zip(op.inputs, op.attributes["starts"], strict=True)):
        if op.inputs.count(name) > 1 or not _may_move(low, name, target):
            source = _whole_source(low, op, number)
            if source is not None and placed.get(source[0], source[1]) == source[1]:
                if source[0] not in placed:
                    _window(low, source[0], target, source[1])
                    placed[source[0]] = source[1]
                continue
            copied.append(name)
        elif not _ascending(low, op, number):
            copied.append(name)
        else:
            _window(low, name, target, start)
    return copied


def _may_move(low: Lowering, name: str, target: str) -> bool:
    """A tensor of its own that nobody has placed yet, and that the outside does not see."""
    graph = low.graph
    tensor = low.tensor(name)
    outside = name in graph.inputs or name in graph.outputs
    makers = graph.producers()
    by_cpu = name in makers and makers[name].type in {"Cpu", "Reshape"}
    return tensor.parent is None and not outside and tensor.layout == "feature" and not by_cpu and name != target


def _whole_source(low: Lowering, op: Op, number: int) -> tuple[str, int] | None:
    """Where all slices of a tensor stand in the concatenation side by side, the tensor itself can live there."""
    graph = low.graph
    slices = {entry.output: entry for entry in graph.ops if entry.type == "Slice"}
    name = op.inputs[number]
    if name not in slices or op.inputs.count(name) > 1:
        return None
    source = slices[name].inputs[0]
    tensor = low.tensor(source)
    first = op.attributes["starts"][number] - slices[name].attributes["start"]
    covered = 0
    for other, start in zip(op.inputs, op.attributes["starts"], strict=True):
        if other in slices and slices[other].inputs[0] == source:
            if start - slices[other].attributes["start"] != first:
                return None
            covered += low.tensor(other).cube[0]
    is_free = tensor.parent is None or tensor.parent == op.output
    outside = source in graph.inputs or source in graph.outputs
    if first < 0 or covered != tensor.cube[0] or not is_free or outside or tensor.layout != "feature":
        return None
    return source, first


def _ascending(low: Lowering, op: Op, number: int) -> bool:
    """A convolution may write up to the end of its last group: what follows must be written later.

    Whether it really does is not known (only a board can tell), so the order has to be safe.
    """
    graph = low.graph
    order = {name: at for at, entry in enumerate(graph.ops) for name in entry.outputs}
    name = op.inputs[number]
    maker = graph.producer(name)
    channels = low.tensor(name).cube[0]
    if maker is None or maker.type not in {"Conv", "ConvTranspose"}:
        return True
    form = low.format_of(name)
    group = form.depthwise_group if maker.attributes["group"] > 1 else form.group
    if channels % group == 0 or number == len(op.inputs) - 1:
        return True
    return all(_written(graph, other, order) > order[name] for other in op.inputs[number + 1 : number + 2])


def _written(graph: Graph, name: str, order: dict[str, int]) -> int:
    makers = graph.producers()
    while name in makers and makers[name].type == "Slice":
        name = makers[name].inputs[0]
    return order.get(name, -1)

