"""Caches as the NPU has them: heads in channels, rows beside each other.

    cache [1, H, C, d]  ->  [1, H * room, 1, C],   room: d filled up to a whole group of channels

A product of attention takes them from there as they are, and a new row is a column of atoms, so a step is one submit
and nothing of a cache is ever moved. The graph itself stays as it is: what it sees is a Reshape, a Slice and a
Transpose of the new input, which cost nothing. Rows of tables and masks become channels, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from openrknn.compiler.float_model import onnx_package
from openrknn.compiler.sequence.cross import Cross
from openrknn.compiler.sequence.rewrite import Step

GROUP = 16
"""Channels of a group, and rows of a cache: multiples of it are products without anything to fill up."""
_ROWS = 2
_COLUMNS = 3
_RANK = 4


class _Ends:
    """Inputs and outputs of a model get other shapes."""

    def __init__(self, model: Any) -> None:
        self.onnx = onnx_package()
        self.model, self.graph = model, model.graph
        self.front: list[Any] = []
        self.back: list[Any] = []
        self._count = 0

    def input(self, entry: Any, shape: Sequence[int | str], *steps: tuple[str, Sequence[Sequence[int]]]) -> None:
        """A new shape, and what makes the old one of it."""
        name = entry.name
        for node in self.graph.node:
            node.input[:] = [f"{name}/rows" if one == name else one for one in node.input]
        self._chain(self.front, name, f"{name}/rows", steps)
        self._set(entry, shape)

    def output(self, entry: Any, shape: Sequence[int], *steps: tuple[str, Sequence[Sequence[int]]]) -> None:
        """A new shape, and what makes it of the old one."""
        name = entry.name
        for node in self.graph.node:
            node.input[:] = [f"{name}/rows" if one == name else one for one in node.input]
            node.output[:] = [f"{name}/rows" if one == name else one for one in node.output]
        self._chain(self.back, f"{name}/rows", name, steps)
        self._set(entry, shape)

    def finish(self) -> Any:
        nodes = [*self.front, *self.graph.node, *self.back]
        del self.graph.node[:]
        self.graph.node.extend(nodes)
        del self.graph.value_info[:]
        return self.model

    def _set(self, entry: Any, shape: Sequence[int | str]) -> None:
        entry.CopyFrom(self.onnx.helper.make_tensor_value_info(entry.name, self.onnx.TensorProto.FLOAT, list(shape)))

    def _chain(self, nodes: list[Any], source: str, target: str, steps: Sequence[tuple[str, Any]]) -> None:
        for number, (kind, numbers) in enumerate(steps):
            made = target if number == len(steps) - 1 else f"{target}/{kind.lower()}"
            if kind == "Transpose":
                nodes.append(self.onnx.helper.make_node(kind, [source], [made], name=made, perm=list(numbers[0])))
            else:
                constants = [self._constant(one) for one in numbers]
                nodes.append(self.onnx.helper.make_node(kind, [source, *constants], [made], name=made))
            source = made

    def _constant(self, numbers: Sequence[int]) -> str:
        self._count += 1
        name = f"arrange/{self._count}"
        self.graph.initializer.append(self.onnx.numpy_helper.from_array(np.array(numbers, np.int64), name))
        return name


def arranged(step: Step) -> Step:
    """The step with caches, bound inputs, rows, masks and logits in the NPU's layout; where they have another form
    than [1, heads, rows, numbers], it stays as it is."""
    graph = step.model.graph
    shapes = {entry.name: shape_of(entry) for entry in (*graph.input, *graph.output)}
    kept = [*step.caches, *step.caches.values(), *step.bound]
    if any(len(shapes[name]) != _RANK or shapes[name][0] != 1 for name in kept):
        return step
    if any(axis != _ROWS for axis in step.axes.values()):
        return step
    ends = _Ends(step.model)
    for entry in list(graph.input):
        if entry.name in step.axes:
            _, heads, rows, size = shapes[entry.name]
            room = -(-size // GROUP) * GROUP
            ends.input(
                entry, (1, heads * room, 1, rows), ("Reshape", [(1, heads, room, _size(rows))]),
                ("Slice", [(0,), (size,), (2,)]), ("Transpose", [(0, 1, 3, 2)]),
            )  # fmt: skip
        else:
            opened = next((size for size in shapes[entry.name] if isinstance(size, str)), None)
            numbers = opened or prod(_size(size) for size in shapes[entry.name])
            ends.input(entry, (1, numbers, 1, 1), ("Reshape", [tuple(_size(size) for size in shapes[entry.name])]))
    for entry in list(graph.output):
        if entry.name in step.caches.values():
            _, heads, _, size = shapes[entry.name]
            room = -(-size // GROUP) * GROUP
            filled = (("Pad", [(0,) * 7 + (room - size,)]),) if room > size else ()
            ends.output(entry, (1, heads * room, 1, 1), *filled, ("Reshape", [(1, heads * room, 1, 1)]))
        else:
            numbers = prod(shapes[entry.name])
            ends.output(entry, (1, numbers, 1, 1), ("Reshape", [(1, numbers, 1, 1)]))
    tables = {name: replace(table, shape=(1, prod(table.shape), 1, 1)) for name, table in step.tables.items()}
    return replace(step, model=ends.finish(), tables=tables, axes=dict.fromkeys(step.axes, _COLUMNS))


def arranged_cross(cross: Cross, shapes: dict[str, tuple[int, ...]]) -> Cross:
    """Keys and values come out as the step takes them; `shapes` are those that they have in the exported model."""
    ends = _Ends(cross.model)
    for entry in list(cross.model.graph.output):
        _, heads, rows, size = shapes[entry.name]
        room = -(-size // GROUP) * GROUP
        filled = (("Pad", [(0,) * 7 + (room - size,)]),) if room > size else ()
        ends.output(
            entry, (1, heads * room, 1, rows), *filled, ("Transpose", [(0, 1, 3, 2)]),
            ("Reshape", [(1, heads * room, 1, rows)]),
        )  # fmt: skip
    return replace(cross, model=ends.finish())


def shape_of(entry: Any) -> tuple[Any, ...]:
    """Sizes; rows that are open have a name."""
    sizes = entry.type.tensor_type.shape.dim
    return tuple(int(size.dim_value) if size.HasField("dim_value") else str(size.dim_param) for size in sizes)


def _size(size: int | str) -> int:
    """As Reshape takes it."""
    return size if isinstance(size, int) else -1
