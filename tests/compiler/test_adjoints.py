"""Adjoints against difference quotients of the operators themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from openrknn.compiler.operators import ARITHMETIC, OPERATORS, UNARY
from openrknn.compiler.quantise.backward import RULES, Tape

STEP = 1e-3
NEWER = {"Gelu", "HardSwish", "Mish", "Swish"}
"""Of opsets that older packages do not run."""
ATTRIBUTES: dict[str, dict[str, Any]] = {
    "Conv": {"pads": [1, 1, 1, 1]}, "Transpose": {"perm": [0, 2, 1, 3]}, "Softmax": {"axis": 1},
    "AveragePool": {"kernel_shape": [2, 2], "strides": [2, 2]}, "Concat": {"axis": 1},
}  # fmt: skip
OTHERS: dict[str, list[Any]] = {
    "Conv": [np.linspace(-1, 1, 2 * 2 * 9).reshape(2, 2, 3, 3)], "MatMul": [np.linspace(-1, 1, 16).reshape(4, 4)],
    "Reshape": [np.array([1, 32])], "Flatten": [], "Transpose": [], "Softmax": [], "AveragePool": [], "Concat": [],
    "GlobalAveragePool": [], "Identity": [],
}  # fmt: skip
KINDS = sorted(((UNARY & RULES.keys()) - NEWER) | (ARITHMETIC - {"Max", "Min"}) | OTHERS.keys())


def _run(nodes: list[Any], stored: dict[str, Any], feeds: dict[str, Any], output: str) -> Any:
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, array.shape) for name, array in feeds.items()],
        [helper.make_tensor_value_info(output, onnx.TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.ascontiguousarray(array), name) for name, array in stored.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run([output], feeds)[0]


@pytest.mark.parametrize("kind", KINDS)
def test_adjoint(kind: str) -> None:
    random = np.random.default_rng(0)
    x = random.uniform(0.2, 0.9, (1, 2, 4, 4)).astype(np.float32)
    usual = [random.uniform(1, 2, (1, 2, 1, 1))] if OPERATORS[kind].adjoint == "elementwise" else []
    others = {f"k{at}": np.asarray(one, np.int64 if kind == "Reshape" else np.float32)
              for at, one in enumerate(OTHERS.get(kind, usual))}  # fmt: skip
    node = helper.make_node(kind, ["x", *others], ["y"], **ATTRIBUTES.get(kind, {}))
    made = _run([node], others, {"x": x}, "y")
    weight = random.uniform(-1, 1, made.shape).astype(np.float32)

    tape = Tape(onnx, {"x": x.shape, "y": made.shape}, others)
    found = RULES[kind](tape, node, "w")
    assert found is not None
    assert found[0] is not None
    read = {name for step in tape.nodes for name in step.input} | {found[0]}
    feeds = {name: array for name, array in {"x": x, "y": made, "w": weight}.items() if name in read}
    end = helper.make_node("Identity", [found[0]], ["gradient"])
    gradient = _run([*tape.nodes, end], tape.stored, feeds, "gradient")

    along = random.uniform(-1, 1, x.shape).astype(np.float32)
    sides = [_run([node], others, {"x": x + sign * STEP * along}, "y").astype(np.float64) for sign in (1, -1)]
    measured = float(((sides[0] - sides[1]) * weight).sum() / (2 * STEP))
    assert gradient.shape == x.shape
    assert float((gradient * along).sum()) == pytest.approx(measured, rel=0.02, abs=0.02)
