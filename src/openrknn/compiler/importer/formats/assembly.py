"""An ONNX model, put together node by node; readers of other formats write through it.

Shapes are known at every step: readers need them (Darknet's and Caffe's rules are rules about sizes), and a hostile
file is refused by them before anything is allocated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.compiler.errors import ModelError
from openrknn.compiler.float_model import onnx_package

Array = npt.NDArray[Any]
Shape = tuple[int, ...]

_OPSET, _IR_VERSION = 17, 8
_MOST_NUMBERS = 1 << 31
"""Of one value: no chip has the memory for more."""


class Assembly:
    """Grows a model; every value has a name and a shape."""

    def __init__(self, name: str, what: str) -> None:
        self.name = name
        self.what = what
        """The file, for messages."""
        self.shapes: dict[str, Shape] = {}
        self._onnx = onnx_package()
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._inputs: list[str] = []
        self._taken: set[str] = set()

    def input(self, name: str, shape: Sequence[int]) -> str:
        """A value that has to be fed."""
        self._inputs.append(self._record(self.fresh(name), shape, name))
        return self._inputs[-1]

    def fresh(self, wanted: str) -> str:
        """A name that no other value has."""
        name, number = wanted, 1
        while name in self._taken:
            number += 1
            name = f"{wanted}_{number}"
        self._taken.add(name)
        return name

    def constant(self, name: str, array: npt.ArrayLike, dtype: Any = np.float32) -> str:
        """Weights, or a list of numbers that an operator takes as an input."""
        made = np.ascontiguousarray(array, dtype)
        chosen = self.fresh(name)
        self._constants.append(self._onnx.numpy_helper.from_array(made, chosen))
        self.shapes[chosen] = made.shape
        return chosen

    def add(self, kind: str, inputs: Sequence[str], output: str, shape: Sequence[int], **attributes: Any) -> str:
        """One operator with one result."""
        return self.add_many(kind, inputs, {output: shape}, **attributes)[0]

    def add_many(
        self, kind: str, inputs: Sequence[str], outputs: Mapping[str, Sequence[int]], **attributes: Any
    ) -> list[str]:
        """One operator with several results."""
        names = [self._record(self.fresh(output), shape, output) for output, shape in outputs.items()]
        self._nodes.append(self._onnx.helper.make_node(kind, list(inputs), names, name=names[0], **attributes))
        return names

    def reshape(self, source: str, output: str, shape: Sequence[int]) -> str:
        """A Reshape."""
        if math.prod(shape) != math.prod(self.shapes[source]):
            raise ModelError(
                f"{self.what}: {output}: {list(self.shapes[source])} cannot be reshaped to {list(shape)}: the numbers "
                "of elements differ"
            )
        return self.add("Reshape", [source, self.constant(f"{output}.shape", shape, np.int64)], output, shape)

    def cut(self, source: str, output: str, axis: int, start: int, stop: int, step: int = 1) -> str:
        """A Slice along one axis."""
        shape = list(self.shapes[source])
        shape[axis] = len(range(start, stop, step))
        bounds = [
            self.constant(f"{output}.{part}", [number], np.int64)
            for part, number in (("start", start), ("stop", stop), ("axis", axis), ("step", step))
        ]
        return self.add("Slice", [source, *bounds], output, shape)

    def model(self, outputs: Sequence[str]) -> Any:
        """What was put together, as a `ModelProto`."""
        helper, float32 = self._onnx.helper, self._onnx.TensorProto.FLOAT
        graph = helper.make_graph(
            self._nodes,
            self.name,
            [helper.make_tensor_value_info(name, float32, self.shapes[name]) for name in self._inputs],
            [helper.make_tensor_value_info(name, float32, self.shapes[name]) for name in outputs],
            self._constants,
        )
        return helper.make_model(
            graph, producer_name="openrknn", opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION
        )

    def _record(self, name: str, shape: Sequence[int], wanted: str) -> str:
        sizes = tuple(int(size) for size in shape)
        if any(size < 1 for size in sizes):
            raise ModelError(f"{self.what}: {wanted} would have the shape {list(sizes)}; the input is too small for it")
        if math.prod(sizes) > _MOST_NUMBERS:
            raise ModelError(f"{self.what}: {wanted} would have the shape {list(sizes)}: more than 2^31 numbers")
        self.shapes[name] = sizes
        return name
