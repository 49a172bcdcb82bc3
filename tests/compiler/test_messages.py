"""Messages name what the user's model has, and say what to do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from openrknn.compiler import compile_onnx
from openrknn.compiler.errors import CalibrationError, CompileError, ModelError, UnsupportedOperatorError, in_terms_of
from openrknn.compiler.float_model import FloatModel
from openrknn.runtime.session import Session

onnx = pytest.importorskip("onnx", reason="the extra 'compile' (onnx) is not installed")
helper, numpy_helper, TensorProto = onnx.helper, onnx.numpy_helper, onnx.TensorProto


def model(nodes: list[Any], shape: list[int], **constants: Any) -> bytes:
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return bytes(made.SerializeToString())


KERNEL = np.ones((4, 2, 3, 3), np.float32)


def test_an_inner_dimension_is_no_batch() -> None:
    """ "a batch of 22; compile for batch 1 with --shapes", where the model takes one item."""
    nodes = [
        helper.make_node("Transpose", ["x"], ["turned"], perm=[1, 0, 2, 3]),
        helper.make_node("Conv", ["turned", "w"], ["y"], name="late"),
    ]
    kernel = np.ones((4, 1, 3, 3), np.float32)
    with pytest.raises(UnsupportedOperatorError) as caught:
        compile_onnx(model(nodes, [1, 22, 8, 8], w=kernel), "rk3588", check=False)
    text = str(caught.value)
    assert "Conv 'late': it reads 'turned' of shape [22, 1, 8, 8]" in text
    assert "--shapes" not in text
    assert "--outputs turned" in text


def test_names_of_the_compiler_are_not_shown() -> None:
    """ "--outputs t26_moved": a name that no model has."""
    text = "Softmax 'late_base_2': no. Cut the model before it (--outputs t26_moved; a detector: --outputs heads)"
    error = CompileError(text, operators=("t26_moved",))
    in_terms_of(error, {"t26", "late"})
    assert str(error) == "Softmax 'late': no. Cut the model before it (--outputs t26; a detector: --outputs heads)"
    error = CompileError("cut it (--outputs inner_1_moved). It's 'as it is', and --outputs t26.")
    in_terms_of(error, {"t26", "late"})
    assert str(error) == "cut it (--outputs NAME). It's 'as it is', and --outputs t26."


def test_a_float_model_that_does_not_run_names_its_inputs() -> None:
    """ONNX Runtime's text, "on the calibration data", where none was given."""
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"])]
    float_model = FloatModel(onnx.load_from_string(model(nodes, [1, 2, 8, 8], w=KERNEL)), ["y"])
    with pytest.raises(CalibrationError) as caught:
        list(float_model.run({"x": np.zeros((1, 3, 8, 8), np.float32)}))
    assert "the model cannot be run in float on x [1, 3, 8, 8] (" in str(caught.value)
    assert "calibration data" not in str(caught.value)
    assert "\n" not in str(caught.value)


def constant(**value: Any) -> bytes:
    nodes = [
        helper.make_node("Constant", [], ["Alpha__1"], name="Alpha__1", **value),
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("Mul", ["c", "Alpha__1"], ["y"], name="scaled"),
    ]
    return model(nodes, [1, 2, 8, 8], w=KERNEL)


def sparse(*places: int) -> Any:
    values = helper.make_tensor("v", TensorProto.FLOAT, [len(places)], [2.0] * len(places))
    indices = helper.make_tensor("i", TensorProto.INT64, [len(places)], places)
    return helper.make_sparse_tensor(values, indices, [4, 1, 1])


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({}, "No constant is defined"),
        ({"value_string": "a"}, "it holds texts"),
    ],
    ids=["nothing", "text"],
)
def test_a_constant_is_named_by_what_reads_it(value: dict[str, Any], reason: str) -> None:
    """ "Constant 'Alpha__1' is constant, but cannot be computed"; texts were a ValueError of NumPy."""
    with pytest.raises(ModelError) as caught:
        compile_onnx(constant(**value), "rk3588", check=False)
    text = str(caught.value)
    assert "the constant 'Alpha__1' (Constant), which Mul 'scaled' reads, cannot be computed" in text
    assert reason in text
    assert "--outputs c)" in text


def test_sparse_constants_are_numbers() -> None:
    made = compile_onnx(constant(sparse_value=sparse(1, 3)), "rk3588", check=False)
    with Session(made) as session:
        found = session.run(np.ones((1, 2, 8, 8), np.float32), layout="nchw")["y"]
    assert found[0, :, 0, 0].tolist() == [0, 36, 0, 36]
