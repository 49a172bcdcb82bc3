"""The comparison itself: the file on the software NPU, the ONNX graph beside it, tensor by tensor.

free        both run from the inputs to the outputs; errors add up
isolated    every operator gets the reference's numbers, stored as the file says: its own error shows

The reference is the ONNX model as it is ("float"), or the same graph with the weights of the file and every tensor
rounded to the steps of the file ("quantized"): then only the arithmetic differs. The vendor's simulator computes the
second one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.analysis.accuracy.metrics import Cloud, Metrics, cloud_of, compare
from openrknn.analysis.accuracy.reference import Arrays, Reference
from openrknn.analysis.accuracy.weights import FileWeights
from openrknn.container.model import Operator
from openrknn.container.parts import Tensor
from openrknn.runtime.inspector import Captured, Inspector, stored_as
from openrknn.runtime.io.values import decode

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Layer:
    """One tensor that both have."""

    tensor: str
    operator: int | None
    """Index in the graph; None for inputs."""
    op_type: str
    op_name: str
    dtype: str
    shape: tuple[int, ...]
    sources: tuple[str, ...]
    """The compared tensors that it is made from."""
    hidden: int
    """Operators between them and it whose results the ONNX model does not have."""
    metrics: Metrics
    pruned: int
    """Channels that the compiler removed; they are left out."""
    cloud: Cloud | None = None
    """Where the pairs (reference, ours) lie; for pictures."""


@dataclass
class Bench:
    """Everything that is needed to compare one model on one input."""

    inspector: Inspector
    reference: Reference
    weights: FileWeights
    feeds: Arrays
    """Inputs as the ONNX model takes them."""
    clouds: bool = False
    """Whether to count where the pairs lie."""
    teacher: Arrays = field(init=False)
    """The float reference of every tensor that both have."""
    matched: dict[str, Tensor] = field(init=False)
    names: list[str] = field(init=False)
    """Every tensor of the .rknn that is an input or is made by an operator."""
    outputs: list[str] = field(init=False)

    def __post_init__(self) -> None:
        graph = self.inspector.graph
        tensors = [graph.tensors[index] for index in graph.inputs]
        tensors += [tensor for operator in self.inspector.operators for tensor in operator.outputs]
        self.names = list(dict.fromkeys(tensor.name for tensor in tensors))
        self.outputs = [graph.tensors[index].name for index in graph.outputs]
        there = {tensor.name: tensor for tensor in tensors if tensor.name in self.reference.tensors}
        found = self.reference.run(self.feeds, there)
        self.teacher = {name: found[name] for name, tensor in there.items() if found[name].size == tensor.elements}
        self.matched = {name: there[name] for name in self.teacher}
        self._makers = {tensor.name: operator for operator in self.inspector.operators for tensor in operator.outputs}

    def free(self, arrays: Mapping[str, Array], layout: str | None, *, quantized: bool) -> list[Layer]:
        """Both run freely."""
        self.inspector.feed(arrays, layout)
        captured = [item for item in self.inspector.captured() if item.tensor.name in self.matched]
        reference = self.rounded_run() if quantized else self.teacher
        return [self._layer(item, reference[item.tensor.name]) for item in captured if item.tensor.name in reference]

    def isolated(self, *, quantized: bool) -> list[Layer]:
        """Every operator on the teacher's numbers."""
        graph = self.reference.with_constants(self.weights.values) if quantized else self.reference
        rounded = {name: self._rounded(values, self.matched[name]) for name, values in self.teacher.items()}
        layers = []
        for item in self.inspector.isolated(self.teacher):
            if item.tensor.name not in self.matched or item.operator is None:
                continue
            sources, _ = self._origin(item.operator)
            value = graph.run_part({name: rounded[name] for name in sources}, item.tensor.name)
            if value is not None:
                layers.append(self._layer(item, self._rounded(value, item.tensor) if quantized else value))
        return layers

    def rounded_run(self, change: Callable[[Array, Tensor], Array] | None = None) -> Arrays:
        """The reference with the weights of the file, every tensor rounded to the steps of the file as it is made.

        `change` may disturb each tensor that an operator makes, to see what comes of it.
        """
        graph = self.reference.with_constants(self.weights.values)
        values: Arrays = {}
        for name, tensor in self.matched.items():
            operator = self._makers.get(name)
            if operator is None:
                values[name] = self._rounded(self.feeds[name], tensor)
                continue
            feeds = {source: values[source] for source in self._origin(operator)[0] if source in values}
            part = graph.run_part(feeds, name)
            if part is not None:
                rounded = self._rounded(part, tensor)
                values[name] = change(rounded, tensor) if change else rounded
        return values

    def _rounded(self, values: Array, tensor: Tensor) -> Array:
        """What is left of real numbers in the format of a tensor, in the shape and type of the ONNX model."""
        real = decode(stored_as(values, tensor), tensor).reshape(values.shape)
        return real.astype(values.dtype)

    def _origin(self, operator: Operator) -> tuple[tuple[str, ...], int]:
        """The nearest tensors before an operator that both have, and how many operators lie between."""
        found: dict[str, None] = {}
        waiting, seen = [operator], {operator.index}
        while waiting:
            for tensor in waiting.pop().inputs:
                maker = self._makers.get(tensor.name)
                if tensor.name in self.matched:
                    found[tensor.name] = None
                elif maker is not None and maker.index not in seen:
                    seen.add(maker.index)
                    waiting.append(maker)
        return tuple(found), len(seen) - 1

    def _layer(self, item: Captured, reference: Array) -> Layer:
        operator = item.operator
        sources, hidden = self._origin(operator) if operator else ((), 0)
        real, stored, right = item.real, item.stored, reference.reshape(item.stored.shape)
        pruned = self.weights.pruned.get(item.tensor.name, ())
        if pruned and stored.ndim > 1:
            kept = np.setdiff1d(np.arange(stored.shape[1]), pruned)
            real, stored, right = real[:, kept], stored[:, kept], right[:, kept]
        return Layer(
            tensor=item.tensor.name,
            operator=None if operator is None else operator.index,
            op_type="input" if operator is None else operator.type,
            op_name="" if operator is None else operator.name,
            dtype=item.tensor.dtype.label,
            shape=item.tensor.shape,
            sources=sources,
            hidden=hidden,
            metrics=compare(real, stored, right, item.tensor),
            pruned=len(pruned),
            cloud=cloud_of(real, right) if self.clouds else None,
        )
