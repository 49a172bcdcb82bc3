"""A model's nodes by what they make and read, and parts of it as models of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["OnnxGraph"]

Shape = tuple[int | str, ...]


class OnnxGraph:
    """An ONNX graph, read only."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.nodes: list[Any] = list(model.graph.node)
        self.constants: dict[str, Any] = {tensor.name: tensor for tensor in model.graph.initializer}
        self.inputs: dict[str, Any] = {
            entry.name: entry for entry in model.graph.input if entry.name not in self.constants
        }
        self.outputs: list[str] = [entry.name for entry in model.graph.output]

    @cached_property
    def makers(self) -> dict[str, int]:
        """Value -> number of the node that makes it."""
        return {name: number for number, node in enumerate(self.nodes) for name in node.output if name}

    @cached_property
    def readers(self) -> dict[str, list[int]]:
        """Value -> numbers of the nodes that read it."""
        found: dict[str, list[int]] = {}
        for number, node in enumerate(self.nodes):
            for name in dict.fromkeys(node.input):
                found.setdefault(name, []).append(number)
        return found

    def maker(self, name: str) -> Any | None:
        """The node that makes a value; None for inputs and weights."""
        number = self.makers.get(name)
        return None if number is None else self.nodes[number]

    def above(self, names: Iterable[str], stop: Iterable[str] = ()) -> set[int]:
        """Numbers of all nodes that these values depend on, up to the values of `stop`."""
        known, found, ahead = set(stop), set[int](), list(names)
        while ahead:
            name = ahead.pop()
            if name in known:
                continue
            known.add(name)
            number = self.makers.get(name)
            if number is not None and number not in found:
                found.add(number)
                ahead.extend(self.nodes[number].input)
        return found

    def below(self, name: str) -> set[int]:
        """Numbers of all nodes that depend on a value."""
        found, ahead = set[int](), [name]
        while ahead:
            for number in self.readers.get(ahead.pop(), ()):
                if number not in found:
                    found.add(number)
                    ahead.extend(self.nodes[number].output)
        return found

    def depends(self, name: str, source: str) -> bool:
        """Whether a value is computed from another."""
        return name == source or self.makers.get(name, -1) in self.below(source)

    def constant(self, name: str) -> npt.NDArray[Any] | None:
        """A weight, or what a node `Constant` says."""
        from onnx import numpy_helper

        if name in self.constants:
            return np.asarray(numpy_helper.to_array(self.constants[name]))
        node = self.maker(name)
        if node is not None and node.op_type == "Identity":
            return self.constant(node.input[0])
        if node is not None and node.op_type == "Constant":
            for entry in node.attribute:
                if entry.name == "value":
                    return np.asarray(numpy_helper.to_array(entry.t))
        return None

    def up(self, name: str, through: Callable[[Any], bool]) -> str:
        """The value that is reached going up as long as nodes of the kind are met."""
        while (node := self.maker(name)) is not None and through(node):
            name = node.input[0]
        return name

    def between(self, inputs: Mapping[str, tuple[str, Shape]], outputs: Mapping[str, str]) -> tuple[Any, list[str]]:
        """(The model from these values to those, values from outside that were not listed).

        `inputs`: value -> (its new name, shape); `outputs`: value -> its new name.
        """
        from onnx import TensorProto, helper

        numbers = sorted(self.above(outputs, stop=inputs))
        names = {name: new for name, (new, _) in inputs.items()} | dict(outputs)
        nodes, used, made = [], set[str](), set[str]()
        for number in numbers:
            node = type(self.nodes[number])()
            node.CopyFrom(self.nodes[number])
            used.update(node.input)
            made.update(node.output)
            node.input[:] = [names.get(name, name) for name in node.input]
            node.output[:] = [names.get(name, name) for name in node.output]
            nodes.append(node)
        loose = sorted(used - made - set(inputs) - set(self.constants) - {""})
        graph = helper.make_graph(
            nodes,
            "part",
            [helper.make_tensor_value_info(new, TensorProto.FLOAT, list(shape)) for new, shape in inputs.values()],
            [helper.make_tensor_value_info(new, TensorProto.FLOAT, None) for new in outputs.values()],
        )
        graph.initializer.extend(self.constants[name] for name in sorted(used & set(self.constants)))
        model = helper.make_model(graph, opset_imports=list(self.model.opset_import))
        model.ir_version = self.model.ir_version
        return model, loose
