"""Small ONNX models, made on the spot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

Array = npt.NDArray[Any]
FLOAT = onnx.TensorProto.FLOAT


class Net:
    """Grows a model node by node; names are t1, t2 ..."""

    def __init__(self, seed: int = 0) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._count = 0

    def constant(self, array: npt.ArrayLike, dtype: Any = np.float32) -> str:
        name = f"k{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array, dtype), name))
        return name

    def weights(self, *shape: int) -> str:
        fan = int(np.prod(shape[1:])) or 1
        return self.constant(self.random.normal(0, fan**-0.5, shape))

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        self._count += 1
        name = f"t{self._count}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=f"{kind}_{name}", **attributes))
        return name

    def conv(
        self, source: str, inputs: int, outputs: int, kernel: int = 1, *, group: int = 1, **attributes: Any
    ) -> str:
        weight = self.weights(outputs, inputs // group, kernel, kernel)
        bias = self.constant(self.random.normal(0, 0.1, outputs))
        return self.add("Conv", source, weight, bias, kernel_shape=[kernel, kernel], group=group, **attributes)

    def model(
        self, inputs: Mapping[str, Sequence[int | str]], outputs: Sequence[str], *, opset: int = 17
    ) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "net",
            [helper.make_tensor_value_info(name, FLOAT, list(shape)) for name, shape in inputs.items()],
            [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs],
            self.constants,
        )
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
        return onnx.shape_inference.infer_shapes(made)


def feeds(shape: Sequence[int], count: int = 3, seed: int = 1) -> list[Array]:
    random = np.random.default_rng(seed)
    return [random.normal(0, 1, shape).astype(np.float32) for _ in range(count)]


def small_cnn() -> tuple[onnx.ModelProto, tuple[int, ...]]:
    """Picture input, depthwise, residual, table activation, pooling, concatenation, upsampling, mean, classifier."""
    net = Net()
    x = net.add("Relu", net.conv("x", 3, 16, 3, pads=[1, 1, 1, 1], strides=[2, 2]))
    d = net.add("Clip", net.conv(x, 16, 16, 3, group=16, pads=[1] * 4), net.constant(0.0), net.constant(6.0))
    r = net.add("Relu", net.add("Add", net.conv(d, 16, 16), x))
    s = net.conv(r, 16, 32)
    silu = net.add("Mul", s, net.add("Sigmoid", s))
    pooled = net.add("MaxPool", silu, kernel_shape=[2, 2], strides=[2, 2])
    sizes = net.constant([1, 1, 2, 2])
    up = net.add("Resize", pooled, "", sizes, mode="nearest", nearest_mode="floor",
                 coordinate_transformation_mode="asymmetric")  # fmt: skip
    joined = net.add("Concat", up, silu, axis=1)
    head = net.add("LeakyRelu", net.conv(joined, 64, 24, 3, pads=[1] * 4), alpha=0.1)
    mean = net.add("GlobalAveragePool", head)
    flat = net.add("Flatten", mean)
    out = net.add("Gemm", flat, net.weights(10, 24), net.constant(np.zeros(10)), transB=1)
    return net.model({"x": (1, 3, 32, 32)}, [out]), (1, 3, 32, 32)
