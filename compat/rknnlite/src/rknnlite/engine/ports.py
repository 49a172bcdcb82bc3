"""Inputs and outputs of a model for its current shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from openrknn import Model, TensorSpec
from openrknn.container import Graph, Layout, Tensor
from openrknn.runtime import graph_for, specs, stored_type
from rknnlite.engine.outputs import Array, OutputPort

__all__ = ["FEATURE_RANK", "InputPort", "Ports"]

FEATURE_RANK = 4
_PICTURE_CHANNELS = 4


@dataclass(frozen=True, slots=True)
class InputPort:
    """One input as a program feeds it."""

    name: str
    tensor: Tensor
    shape: tuple[int, ...]
    """In the order of `layout`, with the batch of one run."""
    layout: str
    """nhwc or nchw for four dimensions, else undefined."""
    elements: int
    dtype: np.dtype[Any]
    native_shape: tuple[int, ...]
    """As the elements lie in memory, without the ends of padded rows: what pass-through takes."""
    planes: tuple[int, ...] | None = None
    """The shape with the channels first, of an input that has them last."""
    _scratch: dict[np.dtype[Any], Array] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, spec: TensorSpec, tensor: Tensor) -> InputPort:
        """From what the session and the file say."""
        batch = spec.shape[0] if spec.shape else 1
        native = tensor.native_shape if tensor.layout is Layout.NC1HWC2 else tensor.shape
        if tensor.row_alignment and tensor.layout is Layout.NC1HWC2:
            _, channels, height, width = tensor.shape
            native = (batch, height, width, channels)
        layout = spec.layout if len(spec.shape) == FEATURE_RANK else "undefined"
        planes = (spec.shape[0], spec.shape[3], *spec.shape[1:3]) if layout == "nhwc" else None
        return cls(
            name=spec.name,
            tensor=tensor,
            shape=spec.shape,
            layout=layout,
            planes=planes,
            elements=prod(spec.shape),
            dtype=stored_type(tensor),
            native_shape=(batch, *native[1:]),
        )

    def reordered(self, array: Array) -> Array:
        """From the other one of NHWC and NCHW: a view, or for pictures memory that the next call overwrites.

        NumPy copies a transposed picture pixel by pixel; channel by channel it is four times as fast.
        """
        if self.layout == "nchw":
            return array.transpose(0, 3, 1, 2)
        batches, channels, height, width = array.shape
        if channels > _PICTURE_CHANNELS or (batches, height, width, channels) != self.shape:
            return array.transpose(0, 2, 3, 1)
        picture = self._scratch.get(array.dtype)
        if picture is None:
            picture = self._scratch[array.dtype] = np.empty(self.shape, array.dtype)
        for channel in range(channels):
            np.copyto(picture[..., channel], array[:, channel])
        return picture


class Ports:
    """All of them, for one graph of the model."""

    def __init__(self, model: Model, graph: Graph) -> None:
        described = specs(model, graph, inputs=True)
        self.graph = graph
        self.inputs = tuple(
            InputPort.of(spec, graph.tensors[index]) for spec, index in zip(described, graph.inputs, strict=True)
        )
        self.outputs = tuple(OutputPort(graph.tensors[index], model.batch_size) for index in graph.outputs)
        self.shapes = tuple(port.shape for port in self.inputs)
        layouts = {port.name: port.layout for port in self.inputs if port.layout != "undefined"}
        self.layouts: str | dict[str, str] | None = layouts
        if len(set(layouts.values())) <= 1:
            self.layouts = next(iter(layouts.values()), None)

    @classmethod
    def for_shapes(cls, model: Model, wanted: Sequence[tuple[int, ...]]) -> Ports:
        """For these input shapes; ValueError says which ones the model has."""
        return cls(model, model.graphs[graph_for(model, list(wanted))])
