"""A small writer of ONNX graphs: one line an operator, so that a model's structure can be read off its module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

_OPSET = 20
_IR = 9


class GraphWriter:
    """Nodes and constants in the order in which they are asked for; every method gives the name of what it makes."""

    def __init__(self, name: str) -> None:
        import onnx

        self._onnx = onnx
        self.name = name
        self._nodes: list[Any] = []
        self._constants: dict[str, Any] = {}
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []
        self._count = 0

    def input(self, name: str, shape: Sequence[int | str]) -> str:
        """Numbers from outside; a dimension that is a word stays open."""
        self._inputs.append(self._onnx.helper.make_tensor_value_info(name, 1, list(shape)))
        return name

    def output(self, name: str, value: str, shape: Sequence[int | str]) -> None:
        """Give a value to the outside, under this name."""
        self._nodes.append(self._onnx.helper.make_node("Identity", [value], [name]))
        self._outputs.append(self._onnx.helper.make_tensor_value_info(name, 1, list(shape)))

    def constant(self, array: npt.NDArray[Any], name: str = "") -> str:
        """Weights, shapes, axes."""
        name = name or f"constant_{len(self._constants)}"
        self._constants[name] = self._onnx.numpy_helper.from_array(np.ascontiguousarray(array), name)
        return name

    def op(self, kind: str, *inputs: str | npt.NDArray[Any], name: str = "", count: int = 1, **attributes: Any) -> str:
        """An operator; arrays among its inputs become constants. With several outputs: the name of the first."""
        words = [entry if isinstance(entry, str) else self.constant(entry) for entry in inputs]
        self._count += 1
        name = name or f"{kind.lower()}_{self._count}"
        outputs = [name] if count == 1 else [f"{name}.{part}" for part in range(count)]
        self._nodes.append(self._onnx.helper.make_node(kind, words, outputs, name=name, **attributes))
        return outputs[0]

    def reshape(self, value: str, *shape: int) -> str:
        """0 keeps a dimension, -1 works one out."""
        return self.op("Reshape", value, np.array(shape, np.int64))

    def model(self) -> Any:
        """What was written, as a `ModelProto`."""
        helper = self._onnx.helper
        graph = helper.make_graph(
            self._nodes, self.name, self._inputs, self._outputs, initializer=list(self._constants.values())
        )
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], producer_name="openrknn")
        made.ir_version = _IR
        return made
