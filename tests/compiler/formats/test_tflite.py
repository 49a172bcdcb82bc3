"""TFLite models, with TensorFlow's interpreter as the witness: its outputs are stored beside the models."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import openrknn
from openrknn.compiler import compile_model
from openrknn.compiler.errors import CompileError, ModelError, UnsupportedOperatorError
from openrknn.compiler.importer.formats import tflite
from openrknn.compiler.importer.formats.tflite.schema import Operator, Options, Subgraph, Tensor, parse
from openrknn.compiler.importer.formats.tflite.states import open_states
from openrknn.runtime.session import Session
from rknn.api import RKNN

FOLDER = Path(__file__).parent / "tflite"
MODELS = sorted(path.name.removesuffix(".int8.tflite") for path in FOLDER.glob("*.int8.tflite"))
SINGLE = [name for name in MODELS if not name.startswith(("net_", "lstm"))]
NETWORKS = {
    "net_attention": 0.95,  # scores and products in fp16, where TFLite rounds them to 8 bits
    "net_deeplab": 0.999, "net_keywords": 0.999, "net_mobilenet_v1": 0.999, "net_mobilenet_v2": 0.999,
    "net_mobilenet_v3": 0.999, "net_pose": 0.999, "net_ssd": 0.999, "net_yolo": 0.98,
}  # fmt: skip
"""The share of numbers within one step; errors of layers add up."""


def model_of(name: str, kind: str = "int8") -> tuple[bytes, Subgraph, dict[str, Any]]:
    """The file, what is in it, and what the interpreter computed."""
    data = (FOLDER / f"{name}.{kind}.tflite").read_bytes()
    with np.load(FOLDER / f"{name}.{kind}.npz") as stored:
        return data, parse(data, name).subgraphs[0], dict(stored)


def real(tensor: Tensor, numbers: Any) -> Any:
    """What integers with a scale stand for."""
    if not tensor.is_quantised:
        return numbers
    return ((numbers.astype(np.int64) - tensor.zero[0]) * tensor.scale[0]).astype(np.float32)


def steps(tensor: Tensor, found: Any, wanted: Any) -> Any:
    """How many steps of the output lie between two results."""
    assert found.shape == wanted.shape
    if not tensor.is_quantised:
        return np.abs(found.astype(np.float64) - wanted)
    ends = np.iinfo(tensor.dtype)
    stored = np.clip(np.rint(found / tensor.scale[0]) + tensor.zero[0], ends.min, ends.max)
    return np.abs(stored - wanted.astype(np.int64))


def on_npu(data: bytes, graph: Subgraph, arrays: dict[str, Any]) -> list[Any]:
    """Compiled with the scales of the file, on the software NPU, with arrays as TFLite has them."""
    inputs = [real(graph.tensors[index], arrays[f"x{number}"]) for number, index in enumerate(graph.inputs)]
    names = [graph.tensors[index].name for index in graph.outputs]
    with Session(compile_model(data).model, "software") as session:
        found = session.run(inputs if len(inputs) > 1 else inputs[0])
    return [found[name] for name in names]


@pytest.mark.parametrize("name", SINGLE)
def test_one_operator_is_within_one_step_of_the_interpreter(name: str) -> None:
    data, graph, arrays = model_of(name)
    for number, found in enumerate(on_npu(data, graph, arrays)):
        far = steps(graph.tensors[graph.outputs[number]], found, arrays[f"y{number}"])
        assert np.mean(far <= 1) >= 0.999


def test_there_are_as_many_models_as_promised() -> None:
    assert len(SINGLE) >= 60


@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_networks(name: str) -> None:
    data, graph, arrays = model_of(name)
    for number, found in enumerate(on_npu(data, graph, arrays)):
        far = steps(graph.tensors[graph.outputs[number]], found, arrays[f"y{number}"])
        assert np.mean(far <= 1) >= NETWORKS[name]
        assert far.max() <= 3


@pytest.mark.parametrize("kind", ["float", "half", "dynamic", "uint8"])
def test_the_other_kinds_of_models(kind: str) -> None:
    data, graph, arrays = model_of("net_keywords", kind)
    (found,) = on_npu(data, graph, arrays)
    far = steps(graph.tensors[graph.outputs[0]], found, arrays["y0"])
    assert far.max() <= (1 if kind == "uint8" else 0.002)


@pytest.mark.parametrize("kind", ["float", "int8"])
def test_recurrent_layers(kind: str) -> None:
    data, graph, arrays = model_of("lstm", kind)
    assert graph.operators[0].kind == "UNIDIRECTIONAL_SEQUENCE_LSTM"
    (found,) = on_npu(data, graph, arrays)
    assert steps(graph.tensors[graph.outputs[0]], found, arrays["y0"]).max() <= (1 if kind == "int8" else 0.002)


def test_loops() -> None:
    """WHILE becomes Loop, which is for the CPU: ONNX Runtime runs it."""
    runtime = pytest.importorskip("onnxruntime", reason="it is what runs loops: pip install onnxruntime")
    data, graph, arrays = model_of("net_loop", "float")
    assert [op.kind for op in graph.operators] == ["WHILE"]
    made = tflite.read(data)
    onnx.checker.check_model(made, full_check=True)
    session = runtime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(None, {"x0": arrays["x0"]})[0], arrays["y0"], atol=1e-5)


def test_variables_become_inputs_and_outputs() -> None:
    """x is appended to what is remembered; the sum of both is the result."""

    def operator(kind: str, inputs: list[int], outputs: list[int]) -> Operator:
        return Operator(kind, inputs, outputs, Options(None), b"", kind)

    names = ("x", "states", "read", "sum", "again", "total")
    tensors = [Tensor(name, (1, 4), np.float32) for name in names]
    operators = [
        operator("CALL_ONCE", [], []), operator("VAR_HANDLE", [], [1]), operator("READ_VARIABLE", [1], [2]),
        operator("ADD", [0, 2], [3]), operator("ASSIGN_VARIABLE", [1, 3], []), operator("READ_VARIABLE", [1], [4]),
        operator("MUL", [4, 0], [5]),
    ]  # fmt: skip
    found = open_states(Subgraph("g", tensors, [0], [5], operators), "model")
    assert [found.tensors[index].name for index in found.inputs] == ["x", "states"]
    assert [found.tensors[index].name for index in found.outputs] == ["total", "states_next"]
    assert [(op.kind, op.inputs) for op in found.operators] == [("ADD", [0, 2]), ("MUL", [3, 0])]


def test_names_and_shapes_are_those_of_the_file() -> None:
    data, graph, _ = model_of("net_yolo")
    made = tflite.read(data)
    onnx.checker.check_model(made, full_check=True)
    assert [entry.name for entry in made.graph.input] == [graph.tensors[index].name for index in graph.inputs]
    assert [entry.name for entry in made.graph.output] == [graph.tensors[index].name for index in graph.outputs]
    assert [size.dim_value for size in made.graph.input[0].type.tensor_type.shape.dim] == [1, 3, 32, 32]
    for entry, index in zip(made.graph.output, graph.outputs, strict=True):
        assert [size.dim_value for size in entry.type.tensor_type.shape.dim] == list(graph.tensors[index].shape)
    compiled = compile_model(data).model
    assert list(compiled.inputs[0].shape) == [1, 32, 32, 3]


def test_pictures_stay_as_the_npu_has_them() -> None:
    """No transposition but at the ends."""
    for name in ("net_mobilenet_v2", "net_mobilenet_v3", "net_deeplab"):
        made = tflite.read(model_of(name)[0])
        assert sum(node.op_type == "Transpose" for node in made.graph.node) <= 1


def test_an_input_that_has_its_channels_in_front_already() -> None:
    made = tflite.read(model_of("net_mobilenet_v1")[0], input_is_nchw=True)
    assert [size.dim_value for size in made.graph.input[0].type.tensor_type.shape.dim] == [1, 32, 32, 3]


def test_a_model_can_begin_and_end_inside() -> None:
    data, graph, _ = model_of("net_mobilenet_v1")
    names = [graph.tensors[op.outputs[0]].name for op in graph.operators]
    made = tflite.read(data, inputs=[names[1]], outputs=[names[4]])
    assert [entry.name for entry in made.graph.input] == [names[1]]
    assert [entry.name for entry in made.graph.output] == [names[4]]
    assert sum(node.op_type == "Conv" for node in made.graph.node) == 3
    with pytest.raises(ModelError, match="has no tensor 'nowhere'"):
        tflite.read(data, inputs=["nowhere"])


def test_an_operator_that_is_not_there_is_named_with_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    data, graph, _ = model_of("net_mobilenet_v1")
    monkeypatch.delitem(tflite.RULES, "SOFTMAX")
    before = graph.tensors[graph.operators[-1].inputs[0]].name
    with pytest.raises(UnsupportedOperatorError) as caught:
        tflite.read(data)
    assert f"SOFTMAX (operator {len(graph.operators) - 1})" in str(caught.value)
    assert f"--outputs {before}" in str(caught.value)
    assert compile_model(data, outputs=[before]).model.outputs[0].name == before


def test_the_vendors_way(tmp_path: Path) -> None:
    rknn = RKNN()
    assert rknn.load_tflite(model=str(FOLDER / "net_mobilenet_v1.int8.tflite")) == -1, "config comes first"
    assert rknn.config(target_platform="rk3588") == 0
    assert rknn.load_tflite(model=str(tmp_path / "nothing.tflite")) == -1
    assert rknn.load_tflite(model=str(FOLDER / "net_mobilenet_v1.int8.tflite")) == 0
    assert rknn.build(do_quantization=False) == 0
    assert rknn.export_rknn(str(tmp_path / "made.rknn")) == 0
    _, graph, arrays = model_of("net_mobilenet_v1")
    assert rknn.init_runtime() == 0
    found = rknn.inference(inputs=[real(graph.tensors[graph.inputs[0]], arrays["x0"])])
    assert found is not None
    assert steps(graph.tensors[graph.outputs[0]], found[0], arrays["y0"]).max() <= 1
    rknn.release()
    assert list(openrknn.load(tmp_path / "made.rknn").inputs[0].shape) == [1, 32, 32, 3]


def test_files_are_found_by_what_is_in_them(tmp_path: Path) -> None:
    shutil.copy(FOLDER / "conv_same.int8.tflite", tmp_path / "model.bin")
    assert compile_model(os.fspath(tmp_path / "model.bin")).model.inputs[0].name == "x0"


def test_damaged_files_are_refused() -> None:
    """Cut anywhere, and with any bytes changed: an error with a name, or a model."""
    random = np.random.default_rng(5)
    refused = 0
    for number in range(300):
        data = model_of(("net_ssd", "softmax", "strided_slice", "net_mobilenet_v3")[number % 4])[0]
        hurt = bytearray(data[: int(random.integers(0, len(data)))] if number % 3 == 0 else data)
        for _ in range(0 if number % 3 == 0 else 6):
            hurt[int(random.integers(0, len(hurt)))] = int(random.integers(0, 256))
        try:
            tflite.read(bytes(hurt))
        except CompileError:
            refused += 1
    assert refused > 100


def test_every_word_of_a_small_file_as_a_huge_number() -> None:
    """Offsets, lengths, shapes and indices that point anywhere; no memory is taken for what they promise."""
    data, refused = model_of("split")[0], 0
    for value in (0x7FFFFFFF, 0xFFFFFFFF, 0x01000000):
        for at in range(0, min(len(data), 1200) - 4, 4):
            hurt = bytearray(data)
            hurt[at : at + 4] = value.to_bytes(4, "little")
            try:
                tflite.read(bytes(hurt))
            except CompileError:
                refused += 1
    assert refused > 100


@pytest.mark.parametrize("data", [b"", b"TFL3", b"\x1c\0\0\0TFL3", b"\x08\0\0\0TFL3" + b"\xff" * 40, bytes(64)])
def test_what_is_no_model(data: bytes) -> None:
    with pytest.raises(ModelError):
        tflite.read(data)
