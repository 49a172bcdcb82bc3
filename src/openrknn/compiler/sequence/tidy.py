"""What exporters put around attention and a step does not need.

Heads that are filled up with zeros (36 numbers to 40) before their products, and cut again behind them; guards against
NaN behind a Softmax, whose masks are finite here. Both would read the whole cache once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from openrknn.compiler.float_model import onnx_package
from openrknn.compiler.ir import Array
from openrknn.onnxgraph import makers_of


@dataclass(frozen=True, slots=True)
class _Filled:
    """A value with zeros behind it: which value, on which dimension, how many, and what it is filled with."""

    inner: str
    axis: int
    """Counted from the end: -1 is the last."""
    count: int
    node: Any
    """The Pad, to be written where somebody wants the zeros."""


class _Tidy:
    def __init__(self, model: Any) -> None:
        self.onnx, self.graph = onnx_package(), model.graph
        self.constants = {entry.name: entry for entry in self.graph.initializer}
        self.made = makers_of(self.graph.node)
        self.filled: dict[str, _Filled] = {}
        self.instead: dict[str, str] = {}
        self.nodes: list[Any] = []
        self._count = 0

    def run(self) -> None:
        for node in list(self.graph.node):
            node.input[:] = [self.instead.get(name, name) for name in node.input]
            handler = getattr(self, f"_{node.op_type.lower()}", None)
            if handler is None or not handler(node):
                self._write(node)
        for name in [entry.name for entry in self.graph.output]:
            self._whole(name)
        del self.graph.node[:]
        self.graph.node.extend(self.nodes)

    # -- each gives back whether nothing is left to do -------------------------------------------------------------

    def _pad(self, node: Any) -> bool:
        pads = self._array(node.input[1]) if len(node.input) > 1 else None
        if pads is None or len(node.input) > 3 or any(entry.name == "mode" and entry.s != b"constant"
                                                      for entry in node.attribute):  # fmt: skip
            return False
        value = self._array(node.input[2]) if len(node.input) > 2 and node.input[2] else np.zeros(1)
        rank = len(pads) // 2
        behind = [number for number in range(rank) if pads[rank + number]]
        if value is None or value.any() or pads[:rank].any() or (pads < 0).any() or len(behind) > 1:
            return False
        if not behind:
            self.instead[node.output[0]] = node.input[0]
        else:
            count = int(pads[rank + behind[0]])
            self.filled[node.output[0]] = _Filled(node.input[0], behind[0] - rank, count, node)
        return True

    def _mul(self, node: Any) -> bool:
        """By one number."""
        for place in (0, 1):
            found, factor = self.filled.get(node.input[place]), self._array(node.input[1 - place])
            if found is not None and factor is not None and factor.size == 1 and factor.ndim <= 1:
                inputs = [found.inner, node.input[1]] if place == 0 else [node.input[0], found.inner]
                self.filled[node.output[0]] = _Filled(self._again(node, inputs), found.axis, found.count, found.node)
                return True
        return False

    def _transpose(self, node: Any) -> bool:
        found = self.filled.get(node.input[0])
        order = next((list(entry.ints) for entry in node.attribute if entry.name == "perm"), None)
        if found is None or order is None:
            return False
        axis = order.index(found.axis % len(order)) - len(order)
        self.filled[node.output[0]] = _Filled(self._again(node, [found.inner]), axis, found.count, found.node)
        return True

    def _matmul(self, node: Any) -> bool:
        one, other = (self.filled.get(name) for name in node.input)
        if one is not None and other is not None and one.axis == -1 and other.axis == -2 and one.count == other.count:
            node.input[:] = [one.inner, other.inner]
            self.nodes.append(node)
            return True
        if one is None and other is not None and other.axis == -1:
            made = self._again(node, [node.input[0], other.inner])
            self.filled[node.output[0]] = _Filled(made, -1, other.count, other.node)
            return True
        return False

    def _add(self, node: Any) -> bool:
        one, other = (self.filled.get(name) for name in node.input)
        if one is None or other is None or (one.axis, one.count) != (other.axis, other.count):
            return False
        made = self._again(node, [one.inner, other.inner])
        self.filled[node.output[0]] = _Filled(made, one.axis, one.count, one.node)
        return True

    def _slice(self, node: Any) -> bool:
        """Exactly the zeros are cut off again."""
        found = self.filled.get(node.input[0])
        if found is None or len(node.input) < 4:
            return False
        rank = self._rank(found.node)
        given = [self._array(name) for name in node.input[1:5]]
        if any(one is None or one.size != 1 for one in given):
            return False
        start, end, axis, *step = (int(one.reshape(-1)[0]) for one in given if one is not None)
        size = self._size(found)
        if axis % rank - rank != found.axis or start != 0 or any(one != 1 for one in step) or size is None:
            return False
        if end not in (size, -found.count):
            return False
        self.instead[node.output[0]] = found.inner
        return True

    def _where(self, node: Any) -> bool:
        guard = self.made.get(node.input[0])
        if guard is None or guard.op_type != "IsNaN" or guard.input[0] != node.input[2]:
            return False
        source = self.made.get(node.input[2])
        while source is not None and source.op_type == "Slice":
            source = self.made.get(source.input[0])
        if source is None or source.op_type != "Softmax":
            return False
        self.instead[node.output[0]] = node.input[2]
        return True

    # -- helpers -------------------------------------------------------------------------------------------------

    def _size(self, found: _Filled) -> int | None:
        """How many numbers there are before the zeros, by what the Pad was given."""
        shapes = self._shapes()
        shape = shapes.get(found.node.input[0])
        pads = self._array(found.node.input[1])
        if shape is None or pads is None:
            return None
        rank = len(pads) // 2
        place = next(number for number in range(rank) if pads[rank + number])
        return shape[place]

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        if not hasattr(self, "_known"):
            self._known = {
                entry.name: tuple(int(dim.dim_value) for dim in entry.type.tensor_type.shape.dim)
                for entry in (*self.graph.value_info, *self.graph.input, *self.graph.output)
            }
        return self._known

    def _rank(self, node: Any) -> int:
        pads = self._array(node.input[1])
        return 0 if pads is None else len(pads) // 2

    def _array(self, name: str) -> Array | None:
        found = self.constants.get(name)
        return None if found is None else self.onnx.numpy_helper.to_array(found)

    def _again(self, node: Any, inputs: Sequence[str]) -> str:
        self._count += 1
        copy = self.onnx.NodeProto()
        copy.CopyFrom(node)
        copy.input[:] = list(inputs)
        copy.output[:] = [f"{node.output[0]}/bare{self._count}"]
        self.nodes.append(copy)
        return str(copy.output[0])

    def _write(self, node: Any) -> None:
        for name in node.input:
            self._whole(name)
        self.nodes.append(node)

    def _whole(self, name: str) -> None:
        """Somebody wants the zeros."""
        found = self.filled.pop(name, None)
        if found is None:
            return
        rank = self._rank(found.node)
        pads = np.zeros(2 * rank, np.int64)
        pads[rank + found.axis % rank] = found.count
        amount = f"{name}/zeros"
        self.graph.initializer.append(self.onnx.numpy_helper.from_array(pads, amount))
        self.nodes.append(self.onnx.helper.make_node("Pad", [found.inner, amount], [name], name=f"{name}/zeros"))


def tidy(model: Any) -> Any:
    """Remove what a step need not compute, and unused results; the model is changed in place."""
    onnx = onnx_package()
    inferred = onnx.shape_inference.infer_shapes(model)
    del model.graph.value_info[:]
    model.graph.value_info.extend(inferred.graph.value_info)
    _Tidy(model).run()
    del model.graph.value_info[:]
    needed, nodes = {entry.name for entry in model.graph.output}, []
    for node in reversed(list(model.graph.node)):
        if any(name in needed for name in node.output):
            nodes.append(node)
            needed.update(node.input)
    del model.graph.node[:]
    model.graph.node.extend(reversed(nodes))
    kept = [entry for entry in model.graph.initializer if entry.name in needed]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    return model
