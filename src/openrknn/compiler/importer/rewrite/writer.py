"""What a rule sees of the model, and how it writes nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.compiler.float_model import onnx_package
from openrknn.compiler.importer.shapes import integer_values
from openrknn.compiler.ir import Array
from openrknn.onnxgraph import makers_of, readers_of

_WIDEST = 1024
"""Pixels of a row that every block of the NPU takes."""


class Facts:
    """One look at the model, shared by all rules of a round."""

    def __init__(self, model: Any, constants: Mapping[str, Array], shapes: Mapping[str, tuple[int, ...]]) -> None:
        self.model = model
        self.constants = constants
        self.shapes = shapes
        self.opset = max((entry.version for entry in model.opset_import if entry.domain in {"", "ai.onnx"}), default=1)
        self.outputs = {entry.name for entry in model.graph.output}
        self.added: list[Any] = []
        self.shared: dict[tuple[str, ...], str] = {}
        """What was made of a constant already: the masks of all layers are one."""
        self._integers: set[str] | None = None
        self._taken = {name for node in model.graph.node for name in (*node.input, *node.output)} | set(constants)

    @cached_property
    def readers(self) -> dict[str, list[Any]]:
        return readers_of(self.model.graph.node)

    @cached_property
    def makers(self) -> dict[str, Any]:
        return makers_of(self.model.graph.node)

    def is_whole(self, node: Any) -> bool:
        """Whether a node works on indices or truths."""
        if self._integers is None:
            self._integers = set(integer_values(self.model)) - set(self.constants)
        return not self._integers.isdisjoint(node.input)

    def fresh(self, base: str) -> str:
        """A name that nothing has yet; the same model gets the same names."""
        name, number = base, 0
        while name in self._taken:
            number += 1
            name = f"{base}_{number}"
        self._taken.add(name)
        return name


class Writer:
    """Nodes in the place of one node."""

    def __init__(self, facts: Facts, node: Any) -> None:
        self.facts = facts
        self.name = node.name or next(iter(node.output), node.op_type)
        self._first = next(iter(node.output), "")
        self.nodes: list[Any] = []
        self.is_done = False

    def shape(self, name: str) -> tuple[int, ...] | None:
        """Of a value or a constant, where it is known."""
        array = self.facts.constants.get(name)
        return self.facts.shapes.get(name) if array is None else tuple(array.shape)

    def constant(self, name: str) -> Array | None:
        """A constant operand; None if it is left out or computed."""
        return self.facts.constants.get(name) if name else None

    def element_type(self, name: str) -> str:
        """ONNX's name for the type of a value or a constant; empty if it is not known."""
        graph, names = self.facts.model.graph, onnx_package().TensorProto.DataType
        for tensor in graph.initializer:
            if tensor.name == name:
                return str(names.Name(tensor.data_type))
        for entry in (*graph.input, *graph.value_info, *graph.output):
            if entry.name == name and entry.type.tensor_type.elem_type:
                return str(names.Name(entry.type.tensor_type.elem_type))
        return ""

    def operand(self, node: Any, index: int) -> Array | None:
        return self.constant(node.input[index]) if index < len(node.input) else None

    def new(self, array: npt.ArrayLike, dtype: Any = np.float32) -> str:
        """A new constant."""
        onnx = onnx_package()
        name = self.facts.fresh(f"{self.name}_k")
        self.facts.added.append(onnx.numpy_helper.from_array(np.asarray(array, dtype, order="C"), name))
        return name

    def of(self, sources: Sequence[str], what: str, array: npt.ArrayLike) -> str:
        """A new constant that is `what` of others; the same for all nodes of a round."""
        key = (what, *sources)
        if key not in self.facts.shared:
            self.facts.shared[key] = self.new(array)
        return self.facts.shared[key]

    def add(self, kind: str, *inputs: str, to: str = "", **attributes: Any) -> str:
        """A node with one output: `to`, or a new value."""
        onnx = onnx_package()
        output = to or self.facts.fresh(f"{self.name}_{kind}")
        self.nodes.append(onnx.helper.make_node(kind, list(inputs), [output], name=f"{output}_node", **attributes))
        if to and to == self._first:
            self.nodes[-1].name = self.name
        self.is_done = True
        return output

    def put(self, node: Any) -> None:
        """A node that is made already."""
        self.nodes.append(node)
        self.is_done = True

    def reshape(self, name: str, shape: Sequence[int], to: str = "") -> str:
        return self.add("Reshape", name, self.new(shape, np.int64), to=to)

    def transpose(self, name: str, order: Sequence[int], to: str = "") -> str:
        if not to and list(order) == sorted(order):
            return name
        return self.add("Transpose", name, to=to, perm=list(order))

    def mean(self, name: str, axes: Sequence[int], kind: str = "ReduceMean", to: str = "") -> str:
        """A mean, or another reduction, over axes that stay as 1."""
        if self.facts.opset >= (13 if kind == "ReduceSum" else 18):
            return self.add(kind, name, self.new(list(axes), np.int64), to=to, keepdims=1)
        return self.add(kind, name, to=to, axes=list(axes), keepdims=1)

    def undo(self) -> None:
        """Nothing was written after all: the node stays."""
        self.nodes.clear()
        self.is_done = False

    def pad(self, name: str, before: Sequence[int], after: Sequence[int]) -> str:
        """Zeros around."""
        pads = [*before, *after]
        if self.facts.opset < 11:
            return self.add("Pad", name, pads=pads)
        return self.add("Pad", name, self.new(pads, np.int64))

    def cut(self, name: str, axis: int, start: int, stop: int, to: str = "") -> str:
        """A slice along one axis."""
        if self.facts.opset < 10:
            return self.add("Slice", name, to=to, axes=[axis], starts=[start], ends=[stop])
        numbers = [self.new([value], np.int64) for value in (start, stop, axis)]
        return self.add("Slice", name, *numbers, to=to)


def rectangle(count: int) -> tuple[int, int]:
    """(rows, columns) of so many pixels, where only their number matters."""
    columns = next((width for width in range(min(count, _WIDEST), 0, -1) if count % width == 0), 1)
    return count // columns, columns


def attribute(node: Any, name: str, default: Any = None) -> Any:
    """Of a node, in Python's types."""
    onnx = onnx_package()
    for entry in node.attribute:
        if entry.name == name:
            value = onnx.helper.get_attribute_value(entry)
            if isinstance(value, bytes):
                return value.decode(errors="replace")
            return list(value) if not isinstance(value, int | float | str) and hasattr(value, "__iter__") else value
    return default
