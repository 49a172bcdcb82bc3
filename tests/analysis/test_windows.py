"""Tensors that are stored inside another one are read with the strides of that one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    from openrknn.compiler import Compiled

onnx = pytest.importorskip("onnx", reason="the extra 'onnx' (package onnx) is not installed")


def _patches() -> Any:
    """Patches of an image behind one constant row, as a ViT has them."""
    helper, float_type = onnx.helper, onnx.TensorProto.FLOAT
    random = np.random.default_rng(7)
    shapes = {"kernel": (32, 3, 4, 4), "row": (1, 1, 32), "last": (32, 16)}
    constants = {name: random.normal(0, 0.3, shape).astype(np.float32) for name, shape in shapes.items()}
    constants["flat"] = np.array([1, 32, 196])
    nodes = [
        helper.make_node("Conv", ["x", "kernel"], ["patches"], strides=[4, 4]),
        helper.make_node("Reshape", ["patches", "flat"], ["planes"]),
        helper.make_node("Transpose", ["planes"], ["tokens"], perm=[0, 2, 1]),
        helper.make_node("Concat", ["row", "tokens"], ["all"], axis=1),
        helper.make_node("MatMul", ["all", "last"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info("x", float_type, [1, 3, 56, 56]),
            helper.make_tensor_value_info("y", float_type, [1, 197, 16])]  # fmt: skip
    stored = [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "patches", ends[:1], ends[1:], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture(scope="module")
def compiled() -> tuple[Any, Compiled]:
    from openrknn.compiler import compile_model

    model = _patches()
    return model, compile_model(model, check=False)


def test_a_part_of_a_concat_has_the_strides_of_the_whole(compiled: tuple[Any, Compiled], tmp_path: Path) -> None:
    """With its own stride its second surface began too early: -3 dB for a tensor of a correct model."""
    from openrknn.analysis.accuracy.api import compare
    from openrknn.analysis.accuracy.windows import windows_in

    source, model = compiled[0], compiled[1].model
    assert [(name, window.pitch > 196) for name, window in windows_in(model).items()] == [("patches", True)]
    path = tmp_path / "patches.onnx"
    onnx.save(source, path)
    image = np.random.default_rng(9).normal(0, 1, (1, 3, 56, 56)).astype(np.float32)
    found = {layer.tensor: layer.metrics.snr_db for layer in compare(model, path, {"x": image}, layout="nchw").free}
    assert (found["patches"] or 0) > 60


def test_the_compiler_and_the_tasks_agree(compiled: tuple[Any, Compiled]) -> None:
    """The compiler knows where it put a tensor; a file alone shows it by its tasks."""
    from openrknn.analysis.accuracy.windows import windows_in
    from openrknn.compiler.check.boundaries import windows_of

    planned, found = windows_of(compiled[1].variants[0]), windows_in(compiled[1].model)
    assert found
    assert {name: planned[name].pitch for name in found} == {name: window.pitch for name, window in found.items()}
    # The whole is no tensor of this file, so the file cannot name it: then the part's own address is read.
    assert all(window.root == "" and window.start == 0 for window in found.values())


def test_vendor_files_have_none() -> None:
    """Their concatenations are of whole surfaces."""
    import openrknn
    from openrknn.analysis.accuracy.windows import windows_in
    from tests.container.places import golden

    for name in ("conv_rk3588_i8", "residual_rk3566_i8", "two_outputs_rk3588_i8", "bilinear_rk3588_i8"):
        assert windows_in(openrknn.load(golden(name))) == {}
