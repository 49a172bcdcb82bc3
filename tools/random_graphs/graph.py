"""A graph that grows operator by operator, and the numbers it is drawn from.

A value is a name with a shape. Every operator takes values that exist and makes new ones, so that a graph is correct by
construction; weights are scaled by their fan-in so that numbers stay near one and int8 has something to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = npt.NDArray[Any]
T = TypeVar("T")
OPSET = 17
"""LayerNormalization came with 17; HardSwish with 14."""
MOST_ELEMENTS = 96 * 32 * 32
"""Larger tensors only make the vendor's build slow; tiling has models of its own."""


class Value:
    """A tensor of the graph: its name and its shape."""

    def __init__(self, name: str, shape: Sequence[int]) -> None:
        self.name = name
        self.shape = tuple(int(size) for size in shape)

    @property
    def channels(self) -> int:
        """The second dimension."""
        return self.shape[1]

    @property
    def is_map(self) -> bool:
        """Batch, channels, rows, columns."""
        return len(self.shape) == 4

    @property
    def size(self) -> int:
        """Elements."""
        return int(np.prod(self.shape))


class Graph:
    """Nodes, constants and values so far, and the chance that chooses the next."""

    def __init__(self, seed: int) -> None:
        self.chance = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.inputs: list[Value] = []
        self.pictures: dict[str, bool] = {}
        self.values: list[Value] = []
        self.used: set[str] = set()
        self.count = 0

    def name(self, letter: str) -> str:
        """A new name."""
        self.count += 1
        return f"{letter}{self.count}"

    def input(self, shape: Sequence[int], picture: bool = False) -> Value:
        """A new input of the graph; a picture is given as bytes from 0 to 255."""
        value = Value(self.name("x"), shape)
        self.inputs.append(value)
        self.values.append(value)
        self.pictures[value.name] = picture
        return value

    def constant(self, array: npt.ArrayLike) -> str:
        """A new constant."""
        name = self.name("c")
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def numbers(self, *values: int) -> str:
        """A constant of whole numbers: shapes, axes, bounds."""
        return self.constant(np.array(values, np.int64))

    def normal(self, *shape: int, scale: float = 1.0, mean: float = 0.0) -> str:
        """A constant of normal numbers."""
        return self.constant(self.chance.normal(mean, scale, shape).astype(np.float32))

    def add(self, kind: str, inputs: Sequence[Value | str], shape: Sequence[int], **attributes: Any) -> Value:
        """One node with one output."""
        return self.several(kind, inputs, [shape], **attributes)[0]

    def several(
        self, kind: str, inputs: Sequence[Value | str], shapes: Sequence[Sequence[int]], **attributes: Any
    ) -> list[Value]:
        """One node with as many outputs as shapes."""
        made = [Value(self.name("t"), shape) for shape in shapes]
        names = [item.name if isinstance(item, Value) else item for item in inputs]
        self.used.update(names)
        self.nodes.append(helper.make_node(kind, names, [value.name for value in made], **attributes))
        self.values.extend(made)
        return made

    def integer(self, low: int, high: int) -> int:
        """A whole number, both ends possible."""
        return int(self.chance.integers(low, high + 1))

    def one_of(self, items: Sequence[T]) -> T:
        """One of them."""
        return items[int(self.chance.integers(len(items)))]

    def often(self, share: float) -> bool:
        """True in this share of the cases."""
        return bool(self.chance.random() < share)

    def model(self) -> onnx.ModelProto:
        """The model: outputs are the values that nothing reads."""
        loose = [value for value in self.values if value.name not in self.used and value not in self.inputs]
        graph = helper.make_graph(
            self.nodes,
            "random",
            [self.info(value) for value in self.inputs],
            [self.info(value) for value in loose],
            self.constants,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
        model.ir_version = 8
        return model

    @staticmethod
    def info(value: Value) -> onnx.ValueInfoProto:
        """Name, type and shape."""
        return helper.make_tensor_value_info(value.name, TensorProto.FLOAT, value.shape)
