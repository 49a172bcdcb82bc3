"""Inputs that are always the same: `--constant`, `constants=` (the oracle is the model with the input fed)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the extra `compile` is not installed")

from openrknn.compiler import bind_shapes, compile_model, fix_inputs, model_inputs  # noqa: E402
from openrknn.compiler.errors import CompileError, OptionError, UnsupportedOperatorError, in_terms_of  # noqa: E402
from openrknn.compiler.float_model import FloatModel  # noqa: E402
from openrknn.compiler.importer import import_model  # noqa: E402
from tests.compiler.nets import Net  # noqa: E402

TYPES = onnx.TensorProto


def masked(*shape: int | str, kind: int = TYPES.INT64) -> tuple[Any, str]:
    """y = x * mask + 1"""
    net = Net()
    kept = net.add("Mul", "x", net.add("Cast", "mask", to=TYPES.FLOAT))
    out = net.add("Add", kept, net.constant(np.float32(1.0)))
    model = net.model({"x": (1, 8, "n") if len(shape) == 3 else ("b", "n"), "mask": shape}, [out])
    model.graph.input[1].type.tensor_type.elem_type = kind
    return model, out


def ran(model: Any, out: str, feed: dict[str, Any]) -> Any:
    return dict(FloatModel(model, [out]).run(feed))[out]


@pytest.mark.parametrize(
    ("value", "wanted"),
    [(1, [1, 1, 1]), ([[1, 0, 1]], [1, 0, 1]), ([1, 0, 1], [1, 0, 1]), (np.array([[0, 0, 1]]), [0, 0, 1])],
)
def test_an_input_becomes_a_constant(value: Any, wanted: list[int]) -> None:
    model, out = masked("b", "n")
    fix_inputs(model, {"mask": value}, {"x": (1, 3)})
    onnx.checker.check_model(model)
    bind_shapes(model, {"x": (1, 3)})
    assert [entry.name for entry in model_inputs(model)] == ["x"]
    x = np.array([[5.0, 6.0, 7.0]], np.float32)
    assert (ran(model, out, {"x": x}) == x * np.array(wanted) + 1).all()


def test_one_number_fits_whatever_is_fed() -> None:
    """The model stays open: the mask is as long as the other input that has its dimensions."""
    model, out = masked("b", "n")
    fix_inputs(model, {"mask": 2})
    onnx.checker.check_model(model)
    for length in (2, 7):
        x = np.ones((1, length), np.float32)
        assert (ran(model, out, {"x": x}) == np.full((1, length), 3.0)).all()


def test_an_array_says_how_long_the_other_inputs_are() -> None:
    model, _ = masked("b", "n")
    graph = import_model(model, constants={"mask": np.ones((1, 6))}).graph
    assert graph.inputs == ["x"]
    assert graph.shape("x") == (1, 6)


def test_a_file_and_an_input_with_a_value_of_its_own(tmp_path: Path) -> None:
    model, out = masked(1, 3)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros((1, 3), np.int64), "mask"))
    np.save(tmp_path / "mask.npy", np.array([[1, 1, 0]], np.uint8))
    fix_inputs(model, {"mask": tmp_path / "mask.npy"})
    bind_shapes(model, {"x": (1, 3)})
    assert ran(model, out, {"x": np.ones((1, 3), np.float32)}).tolist() == [[2.0, 2.0, 1.0]]


@pytest.mark.parametrize(
    ("name", "value", "kind", "message"),
    [
        ("musk", 1, TYPES.INT64, r"'musk', which is not an input; .* x \(float \[b, n\]\), mask \(int64 \[1, 3\]\)"),
        ("mask", [1, 2], TYPES.INT64, r"has the shape \[2\], the input \[1, 3\]; the model has the inputs x"),
        ("mask", 1.5, TYPES.INT64, "is int64, which does not have 1.5"),
        ("mask", 300, TYPES.UINT8, "is uint8, which does not have 300"),
        ("mask", -1, TYPES.UINT8, "is uint8, which does not have -1"),
        ("mask", 2, TYPES.BOOL, "is bool, which does not have 2"),
        ("mask", float("nan"), TYPES.INT64, "is int64, which does not have nan"),
        ("mask", 1e300, TYPES.FLOAT, r"is float, which does not have 1e\+300"),
        ("mask", "nowhere.npy", TYPES.INT64, r"'nowhere.npy' is not a .npy file"),
        ("mask", [[1], [1, 2]], TYPES.INT64, "a number, a list of numbers or an array"),
        ("mask", None, TYPES.INT64, "a number, a list of numbers or an array"),
    ],
)
def test_what_cannot_be_says_what_there_is(name: str, value: Any, kind: int, message: str) -> None:
    model, _ = masked(1, 3, kind=kind)
    with pytest.raises(OptionError, match=message):
        fix_inputs(model, {name: value})


def test_a_file_that_announces_a_terabyte(tmp_path: Path) -> None:
    path = tmp_path / "mask.npy"
    with path.open("wb") as file:
        header = {"descr": "<f8", "fortran_order": False, "shape": (1, 1 << 37)}
        np.lib.format.write_array_header_1_0(file, header)
    with pytest.raises(OptionError, match=r"is not a .npy file"):
        fix_inputs(masked(1, 3)[0], {"mask": path})


def test_one_number_for_a_length_that_nobody_knows() -> None:
    model, _ = masked("b", "m")
    with pytest.raises(OptionError, match=r"--shapes mask=1,1\), or an array"):
        fix_inputs(model, {"mask": 1})
    model, _ = masked("b", "m")
    fix_inputs(model, {"mask": 1}, {"mask": (1, 4)})
    assert next(tensor for tensor in model.graph.initializer if tensor.name == "mask").dims == [1, 4]


def test_a_large_constant_stays_one_number() -> None:
    model, _ = masked(1, 8, 20000, kind=TYPES.FLOAT)
    fix_inputs(model, {"mask": 1})
    assert model.ByteSize() < 4000


def test_compile_takes_constants() -> None:
    net = Net()
    scaled = net.add("Mul", net.conv("x", 16, 16), "factor")
    model = net.model({"x": (1, 16, 4, 4), "factor": ()}, [scaled])
    compiled = compile_model(model, constants={"factor": 2.0})
    assert [spec.name for spec in compiled.model.inputs] == ["x"]
    assert "dB" in compiled.checked
    with pytest.raises(OptionError, match="dict of values by input name"):
        compile_model(model, constants=[2.0])  # type: ignore[arg-type]


def test_errors_name_operators_of_the_given_model() -> None:
    net = Net()
    hard = net.add("NonZero", net.add("Cast", net.conv("x", 3, 8), to=TYPES.BOOL))
    model = net.model({"x": (1, 3, 8, 8)}, [hard])
    with pytest.raises(CompileError) as caught:
        compile_model(model)
    assert f"NonZero_{hard}" in caught.value.operators


def test_names_that_rules_wrote_are_those_they_were_written_for() -> None:
    error = UnsupportedOperatorError("no", operators=("LSTM_t3_Conv_2_node", "nothing", "LSTM_t3"))
    in_terms_of(error, {"LSTM_t3", "t3"})
    assert error.operators == ("LSTM_t3",)


def test_one_name_for_two_lengths() -> None:
    """A mask of samples and states of steps, both called "n" by the exporter: what was given for each counts."""
    net = Net()
    shorter = net.add("Slice", "mask", *(net.constant([value], np.int64) for value in (0, 1 << 40, 1, 4)))
    out = net.add("Mul", "x", net.add("Cast", shorter, to=TYPES.FLOAT))
    model = net.model({"x": (1, "n"), "mask": (1, "n")}, [out])
    model.graph.input[1].type.tensor_type.elem_type = TYPES.INT64
    graph = import_model(model, shapes={"x": (1, 5), "mask": (1, 20)}, constants={"mask": 1}).graph
    assert graph.shape("x") == graph.shape(out) == (1, 5)


def test_a_recording_that_is_no_whole_number_of_steps() -> None:
    """What is cut off of 20007 samples is the CPU's: as a selection of channels it has 400 M weights."""
    net = Net()
    sound = net.add("Unsqueeze", "x", net.constant([1], np.int64))
    out = net.add("Tanh", net.add("Conv", sound, net.weights(16, 1, 127), kernel_shape=[127], strides=[64]))
    compiled = compile_model(net.model({"x": (1, 20007)}, [out]))
    assert "dB" in compiled.checked
    assert "Slice" in {step.type for step in compiled.lowering.program.steps if step.is_cpu}


def test_an_output_that_is_constant_says_which_ones_are_not() -> None:
    net = Net()
    out, known = net.conv("x", 3, 8), net.add("Identity", "factor")
    model = net.model({"x": (1, 3, 8, 8), "factor": (2,)}, [out, net.add("Neg", known)])
    model.graph.output.append(onnx.helper.make_tensor_value_info("factor", TYPES.FLOAT, [2]))
    with pytest.raises(CompileError, match="leave it out with --outputs") as caught:
        compile_model(model, constants={"factor": 2})
    assert caught.value.operators
