"""Files that name types, shapes and sizes which cannot be: a named error, before any memory is taken."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from openrknn.compiler import compile_model, read_model
from openrknn.compiler.budget import LARGEST_CONSTANT, MOST_TASKS, check_array, filled, memory_for
from openrknn.compiler.errors import ModelError
from openrknn.compiler.formats import Format
from openrknn.compiler.importer.rewrite.interpolation import matrix
from openrknn.compiler.targets import TARGETS
from openrknn.compiler.tile import LONGEST, Axis, Band, Columns, Shape, convolution, tile
from tools.fuzzing_importers.judge import Judge
from tools.fuzzing_importers.mutate import mutated
from tools.fuzzing_importers.seeds import Seed, seeds

EMPTY = struct.pack("<3iq", 0, 2, 5, 0)


def model(kind: str, *constants: Any, shape: tuple[int, ...] = (1, 8), **attributes: Any) -> Any:
    tensors = [numpy_helper.from_array(np.asarray(one, np.float32), f"c{at}") for at, one in enumerate(constants)]
    node = helper.make_node(kind, ["x", *(tensor.name for tensor in tensors)], ["y"], name="n", **attributes)
    values = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape),
              helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]  # fmt: skip
    graph = helper.make_graph([node], "g", values[:1], values[1:], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("change", [
    lambda tensor: tensor.dims.append(3),
    lambda tensor: tensor.dims.__setitem__(0, -1),
    lambda tensor: tensor.dims.__setitem__(0, 1 << 40),
    lambda tensor: setattr(tensor, "raw_data", tensor.raw_data[:-1]),
    lambda tensor: setattr(tensor, "data_type", 65536),
    lambda tensor: setattr(tensor, "data_type", 0),
    lambda tensor: tensor.ClearField("raw_data"),
])  # fmt: skip
def test_tensors_that_contradict_themselves(change: Any) -> None:
    made = model("MatMul", np.ones((8, 3)))
    change(made.graph.initializer[0])
    with pytest.raises(ModelError, match="the tensor 'c0' has"):
        compile_model(made.SerializeToString(), check=False)


def test_types_that_onnx_does_not_have() -> None:
    made = model("Relu")
    made.graph.input[0].type.tensor_type.elem_type = 1048576
    with pytest.raises(ModelError, match="'x' has numbers of the type 1048576"):
        compile_model(made.SerializeToString(), check=False)
    made = model("Cast", to=1)
    made.graph.node[0].domain = ""
    del made.graph.node[0].attribute[:]
    with pytest.raises(ModelError, match=r"does not say to which type|is not a valid ONNX model"):
        compile_model(made.SerializeToString(), check=False)


def test_a_cast_without_a_type_beside_an_unknown_operator() -> None:
    """ONNX's checker does not run then."""
    made = model("Cast")
    made.graph.node.append(helper.make_node("Other", ["y"], ["z"], domain="com.example"))
    with pytest.raises(ModelError, match="does not say to which type"):
        read_model(made.SerializeToString())


def test_gemm_with_a_bias_that_does_not_fit() -> None:
    with pytest.raises(ModelError):
        compile_model(model("Gemm", np.ones((8, 5)), np.ones(3)).SerializeToString(), check=False)


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf")])
def test_resize_scales_are_positive_numbers(scale: float) -> None:
    how = {"coordinate_transformation_mode": "half_pixel", "mode": "linear", "antialias": 1, "exclude_outside": 0}
    with pytest.raises(ModelError, match="scale"):
        matrix(8, 4, scale, how, (0.0, 1.0))
    with pytest.raises(ModelError, match="more than"):
        matrix(8, 4, 1e-9, how, (0.0, 1.0))
    with pytest.raises(ModelError, match="more than"):
        matrix(1 << 20, 1 << 20, 1.0, how, (0.0, 1.0))


@pytest.mark.parametrize("body", [
    "width=8192\nheight=8192\nchannels=3\n[reorg3d]\nstride=1024\n",
    "width=30000\nheight=30000\nchannels=1\n[activation]\nactivation=elu\n",
    "width=20000\nheight=20000\nchannels=1\n[avgpool]\n",
])  # fmt: skip
def test_small_texts_that_ask_for_gigabytes(body: str) -> None:
    with pytest.raises(ModelError):
        compile_model((f"[net]\n{body}".encode(), EMPTY), check=False)


def test_an_operator_of_too_many_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one operator: a model of many operators is not limited. 32 channels in 2160p need 8,640 on RK3566."""
    assert MOST_TASKS > 8640
    picture = model("Conv", np.ones((16, 16, 3, 3)), shape=(1, 16, 256, 256))
    for module in ("budget", "lower.context"):
        monkeypatch.setattr(f"openrknn.compiler.{module}.MOST_TASKS", 2)
    with pytest.raises(ModelError, match="n needs more than 2 tasks of the NPU"):
        compile_model(picture.SerializeToString(), check=False)


def test_the_budget_is_asked_before_memory_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    check_array((LARGEST_CONSTANT,), "x")
    for shape in ((LARGEST_CONSTANT + 1,), (1 << 40, 1 << 40)):
        with pytest.raises(ModelError, match="x needs a constant of the shape"):
            filled(shape, "x")
    assert memory_for(0) < 2 << 30
    assert memory_for(1 << 20) - memory_for(0) == 8 << 20
    monkeypatch.setenv("OPENRKNN_IMPORT_MEMORY", "3G")
    assert memory_for(1 << 40) == 3 * 10**9


def test_weights_in_other_places_are_not_read(tmp_path: Path) -> None:
    made = model("MatMul", np.ones((8, 3)))
    tensor = made.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", "weights.bin"
    (tmp_path / "weights.bin").write_bytes(bytes(96))
    for given in (made, made.SerializeToString()):  # no folder
        with pytest.raises(ModelError, match="external data"):
            read_model(given)
    (tmp_path / "net.onnx").write_bytes(made.SerializeToString())
    assert read_model(tmp_path / "net.onnx").graph.initializer[0].raw_data == bytes(96)
    (tmp_path / "weights.bin").unlink()
    os.mkfifo(tmp_path / "weights.bin")
    with pytest.raises(ModelError, match="not a regular file"):
        read_model(tmp_path / "net.onnx")


@pytest.mark.parametrize("kind", ["onnx", "tflite", "darknet", "caffe"])
def test_mutants_are_compiled_or_refused(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few of `tools/fuzz_importers.py`, each in a fork."""
    import random
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", tempfile.tempdir)
    for name in ("OPENRKNN_CACHE", "OPENRKNN_IMPORT_SECONDS"):
        monkeypatch.setenv(name, os.environ.get(name, ""))
    judge = Judge(tmp_path, seconds=60, memory=2 << 30, is_checked=False)
    found = seeds(kind)
    for number in range(8):
        rng = random.Random(f"{kind}{number}")
        seed: Seed = found[rng.randrange(len(found))]
        verdict = judge.judge(seed, mutated(seed.files, rng, judge.secret, str(judge.sentinel)))
        assert verdict.outcome in {"compiled", "refused"}, f"{seed.name}: {verdict}"


def test_windows_of_different_numbers_of_axes_are_refused() -> None:
    weight = numpy_helper.from_array(np.zeros((4, 4, 3, 3), np.float32), "w")
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="conv", pads=[1, 1])
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4, 8, 8]) for name in ("x", "y")]
    model = helper.make_model(helper.make_graph([node], "g", ends[:1], ends[1:], [weight]))
    with pytest.raises(ModelError, match="of Conv 'conv' are for different numbers of axes"):
        compile_model(model)


def test_a_pad_that_reflects_more_than_there_is_is_refused() -> None:
    pads = numpy_helper.from_array(np.array([0, 0, 0, 9, 0, 0, 0, 0], np.int64), "pads")
    node = helper.make_node("Pad", ["x", "pads"], ["y"], name="pad", mode="reflect")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 8, 8])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 8, 17])
    model = helper.make_model(helper.make_graph([node], "g", [x], [y], [pads]))
    with pytest.raises(ModelError, match="Pad 'pad' reflects more than there is"):
        compile_model(model)


@pytest.mark.parametrize("equation", ["abij,jk-", "abij,jk\x02", "abij,jk.->a", "abij,jk->a->b", "ab1j,jk->ab"])
def test_equations_that_shape_inference_would_not_finish(equation: str) -> None:
    made = model("Einsum", np.ones((8, 3)), shape=(1, 4, 8, 8), equation=equation)
    with pytest.raises(ModelError, match="Einsum 'n' has the equation"):
        compile_model(made.SerializeToString(), check=False)


def test_equations_that_functions_are_given() -> None:
    inner = helper.make_node("Einsum", ["a", "b"], ["c"], name="inner")
    entry = inner.attribute.add()
    entry.name, entry.ref_attr_name, entry.type = "equation", "how", 3
    function = helper.make_function(
        "own", "Sum", ["a", "b"], ["c"], [inner], [helper.make_opsetid("", 17)], attributes=["how"]
    )
    for equation, is_right in (("ab,bc->ac", True), ("ab,bc-", False)):
        made = model("Sum", np.ones((8, 3)), domain="own", how=equation)
        made.functions.append(function)
        made.opset_import.append(helper.make_opsetid("own", 1))
        if is_right:
            read_model(made.SerializeToString())
            continue
        with pytest.raises(ModelError, match="has the equation 'ab,bc-'"):
            read_model(made.SerializeToString())


def test_the_tasks_of_a_repeated_picture_are_counted_before_they_are_made() -> None:
    body = "[net]\nwidth=8\nheight=8\nchannels=1048576\n[upsample]\nstride=2\n"
    with pytest.raises(ModelError, match=r"upsample_0 needs more than 16384 tasks .*--shapes"):
        compile_model((body.encode(), EMPTY), check=False)


def test_the_number_of_cuts_that_are_compared_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """It grew with the square of the width: upsampling by 255 took minutes."""
    target = TARGETS["rk3588"]
    shape = Shape(
        channels=16, height=16, width=20 * LONGEST, out_height=16, kernel=(1, 1), stride=1, dilation=1, pad_top=0,
        depthwise=False, stored_kernels=16, kernel_channels=16, picture_row=0, pixels=16 * 20 * LONGEST,
        buffer=target.buffer, axis=Axis(20 * LONGEST, 20 * LONGEST, 1), can_skip=False,
    )  # fmt: skip
    cuts: list[int] = []
    original = convolution._stripes

    def counted(shape: Shape, windows: list[Columns], how: Format) -> list[Band] | None:
        cuts.append(len(windows))
        return original(shape, windows, how)

    monkeypatch.setattr(convolution, "_stripes", counted)
    monkeypatch.setattr(convolution, "_MOST_TRIED", 1000)
    assert len(tile(shape, target.fp16, "x")) == 20 * 16
    assert cuts == [20, 21, 22]
    monkeypatch.setattr(convolution, "MOST_TASKS", 100)
    with pytest.raises(ModelError, match="x needs more than"):
        tile(shape, target.fp16, "x")
