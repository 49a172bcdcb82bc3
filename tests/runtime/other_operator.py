"""Goldens with another operator of the CPU in the place of their own: what no converter of today writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import replace as changed
from types import MappingProxyType

import openrknn
from openrknn.container.model import Model
from openrknn.container.parts import Parameters, Tensor
from tests.runtime.cases import GOLDENS

Scale = tuple[float, int]


@dataclass(frozen=True)
class Other:
    """An operator: its name, the number of its parameters, the axis, and (scale, zero point) of input and output."""

    type: str
    number: int
    parameters: Mapping[str, int]
    input: Scale
    output: Scale

    @property
    def label(self) -> str:
        return "_".join([self.type, *(f"{name}{value}" for name, value in self.parameters.items())])


CUT = (
    Other("Softmax", 18, {"axis": 3}, (0.05, 0), (1 / 256, -128)),
    Other("Softmax", 18, {"axis": 2}, (0.05, 0), (1 / 256, -128)),
    Other("Softmax", 18, {"axis": 1}, (0.05, 0), (1 / 900, -128)),
    Other("exSoftmax13", 61, {"axis": 1}, (0.05, 0), (1 / 256, -100)),
    Other("Sin", 73, {}, (0.05, 3), (1 / 127, 0)),
)
"""For `cpu_sin_rk3588_i8`, whose operator has its input and output in atoms of channels (NC1HWC2)."""
ROUNDED = Other("Concat", 19, {"axis": 1}, (0.0504, -22), (0.0557, 23))
"""The same for an operator that only moves numbers, to another scale."""


def with_other(name: str, old: str, other: Other) -> Model:
    """The golden with `other` instead of its only operator of type `old`."""
    model = openrknn.load(GOLDENS / f"{name}.rknn")
    graph = model.graphs[0]
    (node,) = [node for node in graph.nodes if node.type == old]
    scales = {node.inputs[0]: other.input, node.outputs[0]: other.output}

    def scaled(tensor: Tensor) -> Tensor:
        if tensor.index not in scales or tensor.quantization is None:
            return tensor
        scale, zero = scales[tensor.index]
        return changed(tensor, quantization=changed(tensor.quantization, scale=(scale,), zero_point=(zero,)))

    parameters = Parameters(other.number, MappingProxyType(dict(other.parameters)))
    mine = changed(node, type=other.type, parameters=parameters, attribute_bytes=memoryview(b""))
    nodes = tuple(mine if entry is node else entry for entry in graph.nodes)
    return changed(model, graphs=(changed(graph, nodes=nodes, tensors=tuple(map(scaled, graph.tensors))),))
