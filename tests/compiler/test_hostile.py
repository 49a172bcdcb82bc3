"""Files that somebody made up: a named error with a reason, never a traceback, and never half a `.rknn`."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from openrknn.cli.main import main
from openrknn.compiler import compile_model
from openrknn.compiler.errors import CompileError, ModelError, UnsupportedOperatorError
from openrknn.compiler.forms import Activation
from openrknn.errors import RknnError
from tests.compiler.nets import Net


def small() -> onnx.ModelProto:
    net = Net()
    a = net.add("Relu", net.conv("x", 4, 8, 3, pads=[1, 1, 1, 1], strides=[1, 1], dilations=[1, 1]))
    b = net.add("Concat", a, net.conv(a, 8, 16), axis=1)
    c = net.add("Transpose", net.add("MaxPool", b, kernel_shape=[2, 2], strides=[2, 2]), perm=[0, 2, 3, 1])
    return net.model({"x": (1, 4, 8, 8)}, [net.add("Reshape", c, net.constant([1, 16, 24], np.int64))])


BYTES = small().SerializeToString()


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.integers(0, len(BYTES) - 1), st.integers(0, 255)), max_size=5), st.integers(0, len(BYTES)))
def test_broken_bytes(changes: list[tuple[int, int]], kept: int) -> None:
    data = bytearray(BYTES)
    for place, value in changes:
        data[place] = value
    with contextlib.suppress(RknnError):
        compile_model(bytes(data[:kept] if kept % 3 else data))


NUMBERS = (-(2**40), -1, 0, 1, 2, 3, 7, 100, 2**31)


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 6), st.integers(0, 3), st.integers(0, 3), st.sampled_from(NUMBERS))
def test_attributes_out_of_their_minds(node: int, attribute: int, place: int, number: int) -> None:
    model = small()
    given_attributes = model.graph.node[node].attribute
    if attribute < len(given_attributes):
        entry = given_attributes[attribute]
        if entry.type == onnx.AttributeProto.INT:
            entry.i = number
        elif place < len(entry.ints):
            entry.ints[place] = number
    with contextlib.suppress(RknnError):
        compile_model(model)


def test_weights_that_do_not_fit_their_input() -> None:
    net = Net()
    model = net.model({"x": (1, 4, 8, 8)}, [net.conv("x", 3, 8)])
    with pytest.raises(ModelError, match=r"weights \[8, 3, 1, 1\] in 1 groups do not fit an input of the shape \[1, 4"):
        compile_model(model)


def test_a_kernel_that_its_weights_do_not_have() -> None:
    net = Net()
    model = net.model({"x": (1, 4, 8, 8)}, [net.conv("x", 4, 8, 3)])
    entry = next(entry for entry in model.graph.node[0].attribute if entry.name == "kernel_shape")
    entry.ints[0] = 2
    with pytest.raises(ModelError, match=r"kernel_shape \[2, 3\], and weights \[8, 4, 3, 3\]"):
        compile_model(model)


def test_a_cast_to_narrow_numbers_is_not_left_out() -> None:
    net = Net()
    whole = net.add("Cast", net.conv("x", 4, 8), to=TensorProto.INT16)
    with pytest.raises(UnsupportedOperatorError, match=r"Cast 'Cast_t2' makes int16 numbers.*--outputs t1"):
        compile_model(net.model({"x": (1, 4, 8, 8)}, [net.add("Cast", whole, to=TensorProto.FLOAT)]))


@pytest.mark.parametrize("shape", [(1, 4, 2**40, 8), (2**34, 4, 8, 8)])
def test_more_memory_than_the_npu_addresses(shape: tuple[int, ...]) -> None:
    net = Net()
    with pytest.raises(CompileError, match=r"4 GB|rows of|a batch"):
        compile_model(net.model({"x": shape}, [net.conv("x", 4, 8)]))


@pytest.mark.parametrize("kind", ["ConstantOfShape", "Expand", "Tile"])
def test_constants_that_explode(kind: str) -> None:
    net = Net()
    sizes = net.constant([2**20, 2**20], np.int64)
    inputs = [sizes] if kind == "ConstantOfShape" else [net.constant([[1.0]]), sizes]
    with pytest.raises(ModelError, match=f"{kind} .* makes more than"):
        compile_model(net.model({"x": (1, 4, 8, 8)}, [net.add("Add", "x", net.add(kind, *inputs))]))


@pytest.mark.parametrize("location", ["../secret.bin", "/etc/hostname", "link.bin", "missing.bin"])
def test_weights_beside_the_file_stay_beside_the_file(location: str, tmp_path: Path) -> None:
    folder = tmp_path / "inside"
    folder.mkdir()
    (tmp_path / "secret.bin").write_bytes(bytes(1000))
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    weight = numpy_helper.from_array(np.zeros((8, 4, 1, 1), np.float32), "w")
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    entry = weight.external_data.add()
    entry.key, entry.value = "location", location
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"])]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, n, 8, 8]) for name, n in (("x", 4), ("y", 8))]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], [weight])
    path = folder / "net.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())
    with pytest.raises(ModelError, match="its external weights cannot be read"):
        compile_model(path)


def _stop(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGINT)


def _full(*_: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("trouble", [_stop, _full], ids=["ctrl-c", "full disk"])
def test_no_half_file_is_left(
    trouble: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "net.onnx").write_bytes(BYTES)
    monkeypatch.setattr(os, "fsync", trouble)
    monkeypatch.setattr(os, "replace", trouble)
    code = main(["compile", str(tmp_path / "net.onnx"), "-o", str(tmp_path / "net.rknn")])
    assert code not in {0, None}
    assert [path.name for path in tmp_path.iterdir()] == ["net.onnx"]
    assert "Traceback" not in capsys.readouterr().err


def test_a_clip_beyond_fp16_is_a_relu() -> None:
    net = Net()
    out = net.add("Clip", net.conv("x", 4, 8), net.constant(0.0), net.constant(1e9))
    (conv,) = compile_model(net.model({"x": (1, 4, 8, 8)}, [out])).graph.ops
    assert conv.activation == Activation("relu")


def test_a_number_beyond_fp16_is_named() -> None:
    net = Net()
    pads = net.constant([0, 0, 1, 1, 0, 0, 1, 1], np.int64)
    out = net.add("Pad", "x", pads, net.constant(1e9))
    with pytest.raises(UnsupportedOperatorError, match=r"the number 1e\+09 .* fp16 ends at 65504"):
        compile_model(net.model({"x": (1, 8, 8, 8)}, [out]))


def test_scales_too_far_apart_are_not_called_a_size() -> None:
    """Results of 1e-9 of inputs of 1: OUT_CVT_SHIFT would be negative."""
    net = Net()
    big = net.add("Conv", "x", net.constant(np.full((8, 4, 1, 1), 3e4)), net.constant(np.zeros(8)))
    tiny = net.add("Clip", big, net.constant(0.0), net.constant(1e-3))
    model = net.model({"x": (1, 4, 8, 8)}, [tiny])
    with pytest.raises(CompileError, match="two scales of the model are too far apart"):
        compile_model(model, calibration=[np.ones((1, 4, 8, 8), np.float32)])


def test_a_bias_of_another_size_is_named() -> None:
    net = Net()
    out = net.add("Conv", "x", net.weights(8, 4, 1, 1), net.constant(np.zeros(3)))
    with pytest.raises(ModelError, match=r"a bias of shape \[3\] for 8 outputs"):
        compile_model(net.model({"x": (1, 4, 8, 8)}, [out]))


def test_statistics_of_another_size_are_named() -> None:
    net = Net()
    numbers = [net.constant(np.ones(size)) for size in (4, 4, 4, 0)]
    out = net.add("BatchNormalization", "x", *numbers)
    with pytest.raises(ModelError, match="BatchNormalization_t1"):
        compile_model(net.model({"x": (1, 4, 8, 8)}, [out]))


def test_a_batch_of_thousands_is_refused() -> None:
    """Every item has its own tasks: 50,000 took minutes and gigabytes."""
    net = Net()
    with pytest.raises(ModelError, match="takes 50000 items at once, a run at most 1024"):
        compile_model(net.model({"x": (50000, 4)}, [net.add("Relu", "x")]))


@pytest.mark.parametrize("size", [0, 1])
def test_a_layer_norm_with_another_number_of_factors_is_refused(size: int) -> None:
    net = Net()
    out = net.add("LayerNormalization", "x", net.constant(np.ones(size)), net.constant(np.zeros(16)))
    with pytest.raises(CompileError, match="LayerNormalization"):
        compile_model(net.model({"x": (1, 8, 16)}, [out]))


def _called(*bodies: tuple[str, list[str]]) -> onnx.ModelProto:
    """A model of functions: each calls others in a row."""
    own, usual = helper.make_opsetid("own", 1), helper.make_opsetid("", 17)
    functions = []
    for name, calls in bodies:
        nodes = [
            helper.make_node(call, [f"v{at}"], [f"v{at + 1}"], domain="" if call == "Relu" else "own")
            for at, call in enumerate(calls)
        ]
        functions.append(helper.make_function("own", name, ["v0"], [f"v{len(calls)}"], nodes, [own, usual]))
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4, 8, 8]) for name in "xy"]
    call = helper.make_node(bodies[0][0], ["x"], ["y"], domain="own")
    graph = helper.make_graph([call], "g", values[:1], values[1:])
    return helper.make_model(graph, opset_imports=[usual, own], functions=functions, ir_version=9)


def test_functions_that_call_themselves() -> None:
    with pytest.raises(ModelError, match=r"in a circle|recursive"):
        compile_model(_called(("F", ["F"])))
    with pytest.raises(ModelError, match=r"in a circle|recursive"):
        compile_model(_called(("F", ["G"]), ("G", ["F"])))


def test_functions_that_multiply() -> None:
    """22 functions that call the one before them twice are four million operators."""
    bodies = [(f"F{at}", [f"F{at - 1}"] * 2 if at else ["Relu"]) for at in range(22)]
    with pytest.raises(ModelError, match="its functions make over 200000 operators"):
        compile_model(_called(*bodies[::-1]))


@pytest.mark.parametrize("kind", ["Add", "MatMul"])
def test_constants_that_grow_by_broadcasting(kind: str) -> None:
    """Two columns of 400 kB make 37 GB."""
    net = Net()
    sizes = [net.constant(shape, np.int64) for shape in ([100000, 1], [1, 100000])]
    made = net.add(kind, *(net.add("ConstantOfShape", size) for size in sizes))
    with pytest.raises(ModelError, match=f"{kind} .* makes more than"):
        compile_model(net.model({"x": (1, 4, 8, 8)}, [net.add("Add", "x", made)]))


def test_sparse_weights_are_named() -> None:
    values = helper.make_tensor("w", TensorProto.FLOAT, [2], [1.0, 2.0])
    places = helper.make_tensor("i", TensorProto.INT64, [2], [0, 5])
    model = small()
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [8, 4, 1, 1]))
    with pytest.raises(ModelError, match="stores 'w' as a sparse tensor"):
        compile_model(model)
