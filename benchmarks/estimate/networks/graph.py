"""A small builder of ONNX graphs: tensors are (name, channels, height, width), weights are random.

Weights are drawn so that the spread of the numbers stays the same from layer to layer: calibration then finds ranges
as usual as those of a trained network.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

__all__ = ["Cube", "Graph"]


class Cube(NamedTuple):
    """One feature map."""

    name: str
    channels: int
    height: int
    width: int


class Graph:
    """Nodes in order; `save` writes the file."""

    def __init__(self, height: int, width: int, channels: int = 3, seed: int = 0) -> None:
        self.input = Cube("images", channels, height, width)
        self._random = np.random.default_rng(seed)
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._outputs: list[Any] = []

    def node(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> list[str]:
        names = [f"{kind.lower()}_{len(self._nodes)}_{i}" for i in range(outputs)]
        self._nodes.append(helper.make_node(kind, list(inputs), names, name=names[0], **attributes))
        return names

    def constant(self, values: Any) -> str:
        name = f"c{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def random(self, *shape: int, spread: float = 0.1) -> str:
        return self.constant(self._random.normal(0, spread, shape).astype(np.float32))

    def conv(
        self, x: Cube, channels: int, kernel: int = 1, stride: int = 1, act: str | None = "silu", *, groups: int = 1,
        pad: int | None = None, bias: bool = True, size: tuple[int, int] | None = None,
        strides: tuple[int, int] | None = None, pads: tuple[int, int] | None = None,
    ) -> Cube:  # fmt: skip
        """A convolution with its activation."""
        high, wide = size or (kernel, kernel)
        down, right = strides or (stride, stride)
        top, left = pads or ((pad, pad) if pad is not None else (high // 2, wide // 2))
        taps = x.channels // groups * high * wide
        inputs = [x.name, self.random(channels, x.channels // groups, high, wide, spread=(1.6 / taps) ** 0.5)]
        if bias:
            inputs.append(self.random(channels))
        name = self.node("Conv", *inputs, kernel_shape=[high, wide], strides=[down, right],
                         pads=[top, left, top, left], group=groups)[0]  # fmt: skip
        out = Cube(name, channels, (x.height + 2 * top - high) // down + 1, (x.width + 2 * left - wide) // right + 1)
        return self.act(out, act)

    def act(self, x: Cube, kind: str | None) -> Cube:
        match kind:
            case None:
                return x
            case "silu":
                name = self.node("Mul", x.name, self.node("Sigmoid", x.name)[0])[0]
            case "relu":
                name = self.node("Relu", x.name)[0]
            case "relu6":
                name = self.node("Clip", x.name, self.constant(np.float32(0)), self.constant(np.float32(6)))[0]
            case "leaky":
                name = self.node("LeakyRelu", x.name, alpha=0.1)[0]
            case "sigmoid":
                name = self.node("Sigmoid", x.name)[0]
            case _:
                raise ValueError(kind)
        return x._replace(name=name)

    def normalise(self, x: Cube) -> Cube:
        """Batch normalisation that no convolution can take in."""
        ones = self.constant(np.ones(x.channels, np.float32))
        names = [self.random(x.channels, spread=0.2) for _ in range(2)]
        name = self.node("BatchNormalization", x.name, ones, *names, ones)[0]
        return x._replace(name=name)

    def deconv(self, x: Cube, channels: int, kernel: int = 2, stride: int = 2) -> Cube:
        weights = self.random(x.channels, channels, kernel, kernel, spread=(1.6 / x.channels) ** 0.5)
        name = self.node("ConvTranspose", x.name, weights, self.random(channels), kernel_shape=[kernel, kernel],
                         strides=[stride, stride])[0]  # fmt: skip
        return Cube(name, channels, x.height * stride, x.width * stride)

    def pool(self, x: Cube, kernel: int, stride: int = 1, pad: int | None = None, kind: str = "MaxPool") -> Cube:
        edge = kernel // 2 if pad is None else pad
        name = self.node(kind, x.name, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[edge] * 4)[0]
        sizes = ((side + 2 * edge - kernel) // stride + 1 for side in (x.height, x.width))
        return Cube(name, x.channels, *sizes)

    def mean(self, x: Cube) -> Cube:
        return Cube(self.node("GlobalAveragePool", x.name)[0], x.channels, 1, 1)

    def up(self, x: Cube, factor: int = 2) -> Cube:
        scales = self.constant(np.array([1, 1, factor, factor], np.float32))
        name = self.node("Resize", x.name, "", scales, mode="nearest", nearest_mode="floor",
                         coordinate_transformation_mode="asymmetric")[0]  # fmt: skip
        return Cube(name, x.channels, x.height * factor, x.width * factor)

    def cat(self, *parts: Cube) -> Cube:
        name = self.node("Concat", *(part.name for part in parts), axis=1)[0]
        return parts[0]._replace(name=name, channels=sum(part.channels for part in parts))

    def split(self, x: Cube) -> tuple[Cube, Cube]:
        half = x.channels // 2
        names = self.node("Split", x.name, self.constant(np.array([half, half], np.int64)), outputs=2, axis=1)
        return x._replace(name=names[0], channels=half), x._replace(name=names[1], channels=half)

    def add(self, a: Cube, b: Cube) -> Cube:
        return a._replace(name=self.node("Add", a.name, b.name)[0])

    def output(self, x: Cube | str, shape: Sequence[int] = ()) -> None:
        name, dims = (x.name, [1, *x[1:]]) if isinstance(x, Cube) else (x, list(shape))
        self._outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, dims))

    def save(self, path: str) -> None:
        image = helper.make_tensor_value_info(self.input.name, TensorProto.FLOAT, [1, *self.input[1:]])
        graph = helper.make_graph(self._nodes, "network", [image], self._outputs, self._constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
        model.ir_version = 8
        onnx.checker.check_model(model)
        onnx.save(model, path)
