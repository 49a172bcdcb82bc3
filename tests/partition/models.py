"""Small ONNX models for the partitioner."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper, parser

Array = npt.NDArray[Any]
RNG = np.random.default_rng(1)


def model_of(text: str, **constants: Array) -> Any:
    """ONNX's own textual form, with initializers by name."""
    model = parser.parse_model(text)
    for name, array in constants.items():
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    onnx.checker.check_model(model)
    return model


def kernels(outputs: int, inputs: int, size: int = 3) -> Array:
    array: Array = RNG.normal(size=(outputs, inputs, size, size)) / np.sqrt(inputs * size * size)
    return array.astype(np.float32)


def interrupted(channels: int = 8, size: int = 8) -> Any:
    """Conv, an operator that the NPU does not have, Conv."""
    shape = f"1, {channels}, {size}, {size}"
    return model_of(
        f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[{shape}] x) => (float[{shape}] y) {{
            a = Conv <pads = [1, 1, 1, 1]> (x, w)
            b = Relu (a)
            c = Det (b)
            ax = Constant <value = int64[2] {{2, 3}}> ()
            d = Unsqueeze (c, ax)
            e = Tanh (d)
            f = Add (b, e)
            y = Conv <pads = [1, 1, 1, 1]> (f, v)
        }}""",
        w=kernels(channels, channels), v=kernels(channels, channels),
    )  # fmt: skip


def rows(kind: str = "apart") -> Any:
    """A network over rows whose number is open; "mixed": each row sees the others."""
    mixing = {"apart": "c = Identity (b)", "mixed": "m = ReduceMean <axes = [0], keepdims = 1> (b)\n c = Sub (b, m)"}
    return model_of(
        f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[n, 32] x) => (float[n, 16] y) {{
            a = Gemm (x, w, k)
            b = Relu (a)
            {mixing[kind]}
            y = MatMul (c, v)
        }}""",
        w=RNG.normal(size=(32, 32)).astype(np.float32) / 6, k=RNG.normal(size=32).astype(np.float32),
        v=RNG.normal(size=(32, 16)).astype(np.float32) / 6,
    )  # fmt: skip


def switched() -> Any:
    """A branch that a single integer chooses."""
    branches = [
        helper.make_graph(
            [helper.make_node("Conv", ["x", name], [f"y_{name}"], pads=[1, 1, 1, 1])], name, [],
            [helper.make_tensor_value_info(f"y_{name}", TensorProto.FLOAT, [1, 8, 8, 8])],
            [numpy_helper.from_array(kernels(8, 8), name)],
        )
        for name in ("v", "w")
    ]  # fmt: skip
    graph = helper.make_graph(
        [
            helper.make_node("Equal", ["rate", "wanted"], ["is"]),
            helper.make_node("If", ["is"], ["y"], then_branch=branches[0], else_branch=branches[1]),
        ],
        "switched",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8, 8, 8]),
            helper.make_tensor_value_info("rate", TensorProto.INT64, []),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8, 8, 8])],
        [numpy_helper.from_array(np.array(16000), "wanted")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def reference(model: Any, feed: dict[str, Array]) -> dict[str, Array]:
    """What ONNX Runtime says."""
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [entry.name for entry in session.get_outputs()]
    return dict(zip(names, session.run(names, feed), strict=True))


def decibels(found: Array, wanted: Array) -> float:
    assert found.shape == wanted.shape
    assert found.dtype == wanted.dtype
    noise = float(np.linalg.norm(found.astype(float) - wanted))
    return 20 * np.log10(float(np.linalg.norm(wanted)) / noise) if noise else 200.0
