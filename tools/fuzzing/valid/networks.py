"""Parameters as ONNX graphs of one operator that the compiler translates: decoded registers of every chip."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.compiler import CompileOptions, compile_with

__all__ = ["OPERATORS", "compiled", "cores_of"]

Task = dict[str, Any]
Array = npt.NDArray[np.float32]
OPERATORS = (
    "Conv", "Conv grouped", "Conv depthwise", "ConvTranspose", "MaxPool", "AveragePool", "GlobalAveragePool",
    "GlobalMaxPool", "Add", "Mul", "Sub", "Max", "Min", "Div", "Sigmoid", "Tanh", "HardSwish", "LeakyRelu", "Elu",
    "Softmax", "Transpose", "Resize", "Concat", "ReduceMax", "ReduceMean", "MatMul", "Gemm", "Conv picture",
    "DepthToSpace", "Slice",
)  # fmt: skip
_BINARY = {"Add", "Mul", "Sub", "Max", "Min", "Div"}
_OPSET = 17


def compiled(task: Task) -> bytes:
    """The file; `RknnError` where the chip or the compiler cannot do it."""
    rng = np.random.default_rng(task["seed"])
    graph = _Graph(task, rng)
    graph.add()
    calibration = None
    if task["format"] == "int8":
        calibration = [{name: rng.normal(0, 2, shape).astype(np.float32) for name, shape in graph.inputs.items()}
                       for _ in range(2)]  # fmt: skip
    picture = task["operator"] == "Conv picture"
    options = CompileOptions(
        target=task["chip"], calibration=calibration, fp16=task["format"] == "fp16", check=False,
        mean=100.0 if picture else None, std=50.0 if picture else None, method="minmax", adaptive_rounding=False,
        cores=cores_of(task),
    )  # fmt: skip
    return compile_with(graph.model(), options).data


def cores_of(task: Task) -> int:
    """How many cores the file has lists for: some for all of RK3588's."""
    return 3 if task["chip"] == "rk3588" and task["seed"] % 4 == 0 else 1


class _Graph:
    """One operator on a map [1, channels, height, width]."""

    def __init__(self, task: Task, rng: np.random.Generator) -> None:
        self.task, self.rng = task, rng
        self.shape = (1, task["channels"], task["height"], task["width"])
        self.inputs: dict[str, tuple[int, ...]] = {"x": self.shape}
        self.constants: dict[str, npt.NDArray[Any]] = {}
        self.nodes: list[Any] = []

    def model(self) -> Any:
        import onnx
        from onnx import helper, numpy_helper

        inputs = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
                  for name, shape in self.inputs.items()]  # fmt: skip
        outputs = [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)]
        initial = [numpy_helper.from_array(value, name) for name, value in self.constants.items()]
        graph = helper.make_graph(self.nodes, "task", inputs, outputs, initial)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=8)

    def node(self, kind: str, inputs: list[str], **attributes: Any) -> None:
        from onnx import helper

        self.nodes.append(helper.make_node(kind, inputs, ["y"], **attributes))

    def constant(self, name: str, shape: tuple[int, ...]) -> str:
        self.constants[name] = self.rng.normal(0, 0.5, shape).astype(np.float32)
        return name

    def add(self) -> None:
        task, (_, channels, height, width) = self.task, self.shape
        kind = task["operator"].split()[0]
        if kind in ("Conv", "ConvTranspose"):
            self._convolution(kind)
        elif kind in ("MaxPool", "AveragePool"):
            pads = [min(task["pad"], task["kernel"] - 1)] * 4
            window = {"kernel_shape": [task["kernel"]] * 2, "strides": [task["stride"]] * 2, "pads": pads}
            self.node(kind, ["x"], **window)
        elif kind in _BINARY:
            self._binary(kind)
        elif kind == "Resize":
            self.constants["scales"] = np.array([1, 1, 2, 2], np.float32)
            self.node(kind, ["x", "", "scales"], mode="nearest", coordinate_transformation_mode="asymmetric",
                      nearest_mode="floor")  # fmt: skip
        elif kind == "Concat":
            self.inputs["other"] = (1, task["kernels"], height, width)
            self.node(kind, ["x", "other"], axis=1)
        elif kind in ("MatMul", "Gemm"):
            self.inputs["x"] = (task["height"], channels)
            self.node(kind, ["x", self.constant("w", (channels, task["kernels"]))])
        elif kind == "Slice":
            for name, value in (("starts", channels // 2), ("ends", channels), ("axes", 1)):
                self.constants[name] = np.array([value], np.int64)
            self.node(kind, ["x", "starts", "ends", "axes"])
        else:
            self.node(kind, ["x"], **self._attributes(kind))

    def _attributes(self, kind: str) -> dict[str, Any]:
        reduction = {"axes": [1 if self.task["broadcast"] == "channel" else 3], "keepdims": 1}
        known: dict[str, dict[str, Any]] = {
            "Softmax": {"axis": 1 if self.task["broadcast"] == "channel" else -1},
            "Transpose": {"perm": [[0, 2, 3, 1], [0, 3, 1, 2], [0, 1, 3, 2]][self.task["stride"] % 3]},
            "ReduceMax": reduction, "ReduceMean": reduction, "DepthToSpace": {"blocksize": 2},
        }  # fmt: skip
        return known.get(kind, {})

    def _convolution(self, kind: str) -> None:
        task, channels = self.task, self.shape[1]
        groups = 1
        if "depthwise" in task["operator"]:
            groups = channels
        elif "grouped" in task["operator"]:
            groups = 2 if channels % 2 == 0 else 1
        if "picture" in task["operator"]:
            channels = (1, 3, 4)[task["seed"] % 3]
            self.inputs["x"] = (1, channels, *self.shape[2:])
        kernels = channels if groups == channels and groups > 1 else -(-task["kernels"] // groups) * groups
        shape = (channels, kernels // groups) if kind == "ConvTranspose" else (kernels, channels // groups)
        names = ["x", self.constant("w", (*shape, task["kernel"], task["kernel"])), self.constant("b", (kernels,))]
        dilation = 1 if kind == "ConvTranspose" else task["dilation"]
        self.node(kind, names, strides=[task["stride"]] * 2, pads=[min(task["pad"], task["kernel"] - 1)] * 4,
                  dilations=[dilation] * 2, group=groups)  # fmt: skip

    def _binary(self, kind: str) -> None:
        _, channels, height, width = self.shape
        shape = {"tensor": self.shape, "channel": (1, channels, 1, 1), "pixel": (1, 1, height, width),
                 "scalar": (), "row": (1, 1, 1, width), "input": self.shape}[self.task["broadcast"]]  # fmt: skip
        if self.task["broadcast"] == "input":
            self.inputs["other"] = shape
        else:
            self.constant("other", shape)
            self.constants["other"] = self.constants["other"] + np.float32(3 if kind == "Div" else 0)
        self.node(kind, ["x", "other"])
