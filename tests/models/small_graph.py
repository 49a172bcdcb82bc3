"""A small network of the family, as TensorFlow.js stores it, and what it computes by TensorFlow's rules: slowly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
CLASSES = 3
_CHANNELS = 4
_NAME = "Preprocessor/sub"


class SmallGraph:
    """One convolution per grid, with everything that the real one has: products, sums, residuals, normalisation."""

    def __init__(self, seed: int = 1) -> None:
        self._random = np.random.default_rng(seed)
        self.nodes: list[dict[str, Any]] = []
        self.weights: dict[str, npt.NDArray[np.float32]] = {}
        self._node("image_tensor", "Placeholder")
        self._node(_NAME, "Sub", "Preprocessor/mul", "Preprocessor/sub/y")
        self._conv("stem/conv", "Conv2D", _NAME, (3, 3, 3, _CHANNELS), 4)
        self._node("stem/relu", "Relu6", "stem/conv")
        value, channels = "stem/relu", _CHANNELS
        for grid in range(6):
            value = self._grid(grid, value, channels)
            count = 3 if grid == 0 else 6
            for head, size in (("BoxEncodingPredictor", 4 * count), ("ClassPredictor", CLASSES * count)):
                name = f"BoxPredictor_{grid}/{head}"
                self._conv(f"{name}/Conv2D", "Conv2D", value, (1, 1, channels, size), 1)
                self._node(f"{name}/BiasAdd", "BiasAdd", f"{name}/Conv2D", self._constant(f"{name}/biases", size))
            self._node(f"BoxPredictor_{grid}/Shape", "Shape", value)

    def _grid(self, grid: int, value: str, channels: int) -> str:
        stride, at = (4 if grid == 0 else 2), f"grid{grid}"
        self._conv(f"{at}/conv", "Conv2D", value, (3, 3, channels, _CHANNELS), stride)
        self._node(f"{at}/mul", "Mul", f"{at}/conv", self._constant(f"{at}/factor", _CHANNELS))
        self._node(f"{at}/add", "Add", f"{at}/mul", self._constant(f"{at}/term", _CHANNELS))
        self._node(f"{at}/relu", "Relu6", f"{at}/add")
        self._conv(f"{at}/deep", "DepthwiseConv2dNative", f"{at}/relu", (3, 3, _CHANNELS, 1), 1)
        names = [self._constant(f"{at}/{part}", _CHANNELS) for part in ("gamma", "beta", "mean")]
        names.append(self._constant(f"{at}/variance", _CHANNELS, positive=True))
        self._node(f"{at}/norm", "FusedBatchNorm", f"{at}/deep", *names, attr={"epsilon": {"f": 0.001}})
        self._node(f"{at}/relu2", "Relu6", f"{at}/norm")
        # The optimiser of graphs has moved the sum of the normalisation behind the residual one.
        self._conv(f"{at}/project", "Conv2D", f"{at}/relu2", (1, 1, _CHANNELS, _CHANNELS), 1)
        self._node(f"{at}/sum", "AddN", f"{at}/project", f"{at}/relu")
        self._node(f"{at}/shifted", "Add", self._constant(f"{at}/shift", _CHANNELS), f"{at}/sum")
        return f"{at}/shifted"

    def _constant(self, name: str, *shape: int, positive: bool = False) -> str:
        values = self._random.normal(0, 0.5, shape).astype(np.float32)
        self.weights[name] = np.abs(values) + np.float32(0.5) if positive else values
        self._node(name, "Const")
        return name

    def _conv(self, name: str, op: str, value: str, shape: tuple[int, ...], stride: int) -> None:
        padding = {"s": list(b"SAME")}
        strides = {"list": {"i": ["1", str(stride), str(stride), "1"]}}
        weights = self._constant(f"{name}/weights", *shape)
        attr = {"padding": padding, "strides": strides, "data_format": {"s": "TkhXQw=="}}
        self._node(name, op, value, weights, attr=attr)

    def _node(self, name: str, op: str, *inputs: str, attr: dict[str, Any] | None = None) -> None:
        self.nodes.append({"name": name, "op": op, "input": list(inputs), "attr": attr or {}})

    def write(self, folder: Path) -> Path:
        """`model.json` and two shards, cut in the middle of a tensor."""
        folder.mkdir(parents=True, exist_ok=True)
        body = b"".join(array.tobytes() for array in self.weights.values())
        (folder / "group1-shard1of2").write_bytes(body[:1001])
        (folder / "group1-shard2of2").write_bytes(body[1001:])
        rows = [{"name": name, "shape": list(array.shape), "dtype": "float32"} for name, array in self.weights.items()]
        manifest = [{"paths": ["group1-shard1of2", "group1-shard2of2"], "weights": rows}]
        path = folder / "model.json"
        path.write_text(json.dumps({"modelTopology": {"node": self.nodes}, "weightsManifest": manifest}))
        return path

    def compute(self, picture: Floats) -> dict[str, Floats]:
        """Every node for a picture [rows, columns, 3], channels last, as TensorFlow defines it."""
        values: dict[str, Floats] = {name: array.astype(np.float64) for name, array in self.weights.items()}
        values[_NAME] = picture
        for node in self.nodes:
            name, op = node["name"], node["op"]
            if name in values or op in ("Placeholder", "Shape"):
                continue
            given = [values[one] for one in node["input"]]
            if op in ("Conv2D", "DepthwiseConv2dNative"):
                stride = int(node["attr"]["strides"]["list"]["i"][1])
                values[name] = _convolved(given[0], given[1], stride, is_depthwise=op != "Conv2D")
            elif op == "FusedBatchNorm":
                value, gamma, beta, mean, variance = given
                values[name] = (value - mean) / np.sqrt(variance + 0.001) * gamma + beta
            elif op == "Relu6":
                values[name] = np.clip(given[0], 0, 6)
            else:
                values[name] = given[0] * given[1] if op == "Mul" else given[0] + given[1]
        return values


def _convolved(value: Floats, weights: Floats, stride: int, *, is_depthwise: bool) -> Floats:
    height, width = weights.shape[:2]
    rows, columns = (-(-size // stride) for size in value.shape[:2])
    above = max((rows - 1) * stride + height - value.shape[0], 0)
    left = max((columns - 1) * stride + width - value.shape[1], 0)
    padded = np.pad(value, ((above // 2, above - above // 2), (left // 2, left - left // 2), (0, 0)))
    result = np.zeros((rows, columns, weights.shape[2] * weights.shape[3] if is_depthwise else weights.shape[3]))
    for y in range(height):
        for x in range(width):
            part = padded[y : y + rows * stride : stride, x : x + columns * stride : stride][:rows, :columns]
            result += part * weights[y, x, :, 0] if is_depthwise else part @ weights[y, x]
    return result
