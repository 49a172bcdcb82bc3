"""ONNX Runtime's own format, with ONNX Runtime as the witness: the same numbers from the same file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from openrknn.compiler import compile_model
from openrknn.compiler.errors import CompileError, ModelError
from openrknn.compiler.importer.formats.ort import read
from openrknn.compiler.importer.read import read_model
from openrknn.runtime.session import Session

GOLDENS = Path(__file__).parents[2] / "goldens"
LEVELS = ("ORT_DISABLE_ALL", "ORT_ENABLE_BASIC", "ORT_ENABLE_EXTENDED")


def stored(model: onnx.ModelProto, folder: Path, level: str = "ORT_ENABLE_BASIC") -> bytes:
    """What ONNX Runtime writes of a model."""
    runtime = pytest.importorskip("onnxruntime", reason="it writes the files: pip install onnxruntime")
    options = runtime.SessionOptions()
    options.graph_optimization_level = getattr(runtime.GraphOptimizationLevel, level)
    options.optimized_model_filepath = str(folder / "model.ort")
    options.add_session_config_entry("session.save_model_format", "ORT")
    options.log_severity_level = 4
    runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return (folder / "model.ort").read_bytes()


def run(model: bytes, feed: dict[str, Any]) -> list[Any]:
    """ONNX Runtime on either format."""
    runtime = pytest.importorskip("onnxruntime", reason="it is what is compared with: pip install onnxruntime")
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return list(session.run(None, feed))


def feed_of(model: Any) -> dict[str, Any]:
    random = np.random.default_rng(0)
    made = {}
    for entry in model.graph.input:
        shape = [size.dim_value or 1 for size in entry.type.tensor_type.shape.dim]
        made[entry.name] = random.normal(0, 1, shape).astype(np.float32)
    return made


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", ["activations", "gemm", "residual", "layer_norm", "softmax", "two_inputs"])
def test_the_same_numbers(name: str, level: str, tmp_path: Path) -> None:
    source = onnx.load(GOLDENS / f"{name}.onnx")
    data = stored(source, tmp_path, level)
    made = read_model(data)
    assert [entry.name for entry in made.graph.input] == [entry.name for entry in source.graph.input]
    assert {node.domain for node in made.graph.node} <= {""}
    feed = feed_of(source)
    for wanted, found in zip(run(data, feed), run(made.SerializeToString(), feed), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def operator(kind: str, inputs: list[str], constants: dict[str, Any], **attributes: Any) -> onnx.ModelProto:
    """One operator of ONNX Runtime's own domain on x [2, 3, 4]."""
    graph = helper.make_graph(
        [helper.make_node(kind, inputs, ["y"], name="n", domain="com.microsoft", **attributes)], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(value, np.float32), name) for name, value in constants.items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


WEIGHTS = np.random.default_rng(1).normal(0, 1, (5, 4))


@pytest.mark.parametrize(
    "model",
    [
        operator("FusedMatMul", ["x", "w"], {"w": WEIGHTS}, transB=1, alpha=0.5),
        operator("Gelu", ["x"], {}),
        operator("FastGelu", ["x", "b"], {"b": WEIGHTS[0]}),
        operator("BiasGelu", ["x", "b"], {"b": WEIGHTS[0]}),
        operator("QuickGelu", ["x"], {}, alpha=1.5),
        operator("SkipLayerNormalization", ["x", "x", "g", "b"], {"g": WEIGHTS[0], "b": WEIGHTS[1]}, epsilon=1e-5),
    ],
    ids=lambda model: str(model.graph.node[0].op_type),
)
def test_fused_operators_become_plain_ones(model: onnx.ModelProto, tmp_path: Path) -> None:
    data = stored(model, tmp_path)
    made = read(data)
    assert {node.domain for node in made.graph.node} == {""}
    feed = {"x": np.random.default_rng(0).normal(0, 1, (2, 3, 4)).astype(np.float32)}
    np.testing.assert_allclose(run(made.SerializeToString(), feed)[0], run(data, feed)[0], atol=1e-5)


def test_graphs_inside_graphs(tmp_path: Path) -> None:
    def branch(kind: str) -> onnx.GraphProto:
        out = helper.make_tensor_value_info(f"{kind}_out", TensorProto.FLOAT, [3])
        return helper.make_graph([helper.make_node(kind, ["x"], [f"{kind}_out"])], kind, [], [out])

    graph = helper.make_graph(
        [helper.make_node("If", ["c"], ["y"], then_branch=branch("Abs"), else_branch=branch("Neg"))], "g",
        [helper.make_tensor_value_info("c", TensorProto.BOOL, []),
         helper.make_tensor_value_info("x", TensorProto.FLOAT, [3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])],
    )  # fmt: skip
    source = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    made = read(stored(source, tmp_path, "ORT_DISABLE_ALL")).SerializeToString()
    x = np.array([-1, 2, -3], np.float32)
    assert run(made, {"c": np.array(True), "x": x})[0].tolist() == [1, 2, 3]
    assert run(made, {"c": np.array(False), "x": x})[0].tolist() == [1, -2, 3]


def test_it_compiles_and_runs(tmp_path: Path) -> None:
    source = onnx.load(GOLDENS / "residual.onnx")
    data = stored(source, tmp_path, "ORT_ENABLE_EXTENDED")
    (tmp_path / "model.ort").write_bytes(data)
    feed = feed_of(source)
    with Session(compile_model(tmp_path / "model.ort", fp16=True).model, "software") as session:
        found = session.run(next(iter(feed.values())), layout="nchw")
    wanted = run(data, feed)
    assert len(found) == len(wanted)
    for name, expected in zip([entry.name for entry in source.graph.output], wanted, strict=True):
        np.testing.assert_allclose(found[name], expected, atol=0.02 * float(np.abs(expected).max()))


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    """Cut anywhere, and with any byte changed: an error with a name, or a model."""
    data = stored(onnx.load(GOLDENS / "activations.onnx"), tmp_path)
    random = np.random.default_rng(4)
    refused = 0
    for number in range(120):
        hurt = bytearray(data[: int(random.integers(0, len(data)))] if number % 3 == 0 else data)
        for _ in range(0 if number % 3 == 0 else 4):
            hurt[int(random.integers(0, len(hurt)))] = int(random.integers(0, 256))
        try:
            read(bytes(hurt))
        except CompileError:
            refused += 1
    assert refused >= 40
    with pytest.raises(ModelError, match="no model of ONNX Runtime"):
        read(b"\x08\0\0\0ORTM" + b"\xff" * 64)
