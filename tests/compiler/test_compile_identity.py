"""tools/compile_identity.py: the same network has the same digest, and a difference is named."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper, numpy_helper

from tools.compile_identity import compare, digest_of, forms_of

pytest.importorskip("onnxruntime")


def _model(weight: float) -> object:
    value = [helper.make_tensor_value_info(name, 1, [1, 3, 4, 4]) for name in "xy"]
    weights = numpy_helper.from_array(np.full((3, 3, 1, 1), weight, np.float32), "w")
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="conv")
    graph = helper.make_graph([node], "g", value[:1], value[1:], [weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_digest_follows_the_file() -> None:
    first, second = _model(0.5), _model(0.25)
    options = forms_of(first, "rk3588")["fp16"]
    assert digest_of(first, "rk3588", options) == digest_of(_model(0.5), "rk3588", options)
    assert digest_of(first, "rk3588", options) != digest_of(second, "rk3588", options)


def test_forms() -> None:
    assert set(forms_of(_model(0.5), "rk3588")) == {"int8", "fp16", "picture", "cores"}
    assert set(forms_of(_model(0.5), "rv1106")) == {"int8", "picture"}


def test_compare_names_what_differs() -> None:
    recorded = {"net": {"rk3588": {"int8": "aa", "fp16": "bb"}}}
    assert compare(recorded, recorded) == []
    assert compare(recorded, {"net": {"rk3588": {"int8": "cc"}}}) == ["net rk3588 int8: aa became cc"]
    assert compare({}, {"net": {"rk3588": {"int8": "cc"}}}) == ["net rk3588 int8: nothing became cc"]
