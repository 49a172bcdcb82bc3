"""States of a streaming encoder in the NPU's order. Witness: ONNX Runtime with the graph before it was changed."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
from onnx import numpy_helper

from openrknn.voice.make.transducer import turned_states

runtime = pytest.importorskip("onnxruntime")
SHAPES = {"key": (8, 1, 16), "attn": (1, 1, 12, 32), "conv": (1, 16, 4), "odd": (8, 1, 12), "used": (8, 1, 16)}
TURNED = {"key": (1, 16, 1, 8), "attn": (1, 32, 1, 12), "conv": (1, 16, 1, 4)}


def encoder() -> onnx.ModelProto:
    inputs = ", ".join(f"float{list(shape)} {name}" for name, shape in SHAPES.items())
    outputs = ", ".join(f"float{list(shape)} new_{name}" for name, shape in SHAPES.items())
    steps = "\n".join(
        f"""{name}_x = Reshape (x{size}, {name}_shape)
        {name}_c = Concat <axis = {axis}> ({name}, {name}_x)
        {name}_s = ReduceSum <keepdims = 0> ({name}_c)
        new_{name} = Slice ({name}_c, {name}_from, end, {name}_axis)"""
        for name, axis, size in (("key", 0, 16), ("attn", 2, 32), ("conv", 2, 16), ("odd", 0, 12), ("used", 0, 16))
    )
    model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]>
        net (float[3, 32] x, {inputs}) => (float y, {outputs}) {{
        x32 = Identity (x)
        x16 = Slice (x, zero, sixteen, one)
        x12 = Slice (x, zero, twelve, one)
        {steps}
        again = ReduceSum <keepdims = 0> (used)
        y = Sum (key_s, attn_s, conv_s, odd_s, used_s, again)
    }}""")
    numbers = {"zero": [0], "one": [1], "sixteen": [16], "twelve": [12], "end": [2**31 - 1]}
    for name, (axis, shape) in {
        "key": (0, (3, 1, 16)), "attn": (2, (1, 1, 3, 32)), "conv": (2, (1, 16, 3)), "odd": (0, (3, 1, 12)),
        "used": (0, (3, 1, 16)),
    }.items():  # fmt: skip
        numbers |= {f"{name}_axis": [axis], f"{name}_from": [-SHAPES[name][axis]], f"{name}_shape": list(shape)}
    model.graph.initializer.extend(numpy_helper.from_array(np.array(v, np.int64), k) for k, v in numbers.items())
    return model


def in_npu_order(name: str, value: np.ndarray) -> np.ndarray:
    if name not in TURNED:
        return value
    matrix = value.reshape([size for size in value.shape if size > 1])
    return np.ascontiguousarray(matrix if name == "conv" else matrix.T).reshape(TURNED[name])


def test_states_are_turned_where_whole_groups_fit_and_nothing_else_changes() -> None:
    rng = np.random.default_rng(0)
    plain, turned = encoder(), encoder()
    turned_states(turned)
    found = {one.name: tuple(size.dim_value for size in one.type.tensor_type.shape.dim) for one in turned.graph.input}
    assert {name: found[name] for name in SHAPES} == {**SHAPES, **TURNED}
    states = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in SHAPES.items()}
    sessions = [runtime.InferenceSession(one.SerializeToString()) for one in (plain, turned)]
    for _ in range(3):
        x = rng.standard_normal((3, 32)).astype(np.float32)
        wanted = sessions[0].run(None, {"x": x, **states})
        given = sessions[1].run(None, {"x": x, **{name: in_npu_order(name, value) for name, value in states.items()}})
        np.testing.assert_allclose(given[0], wanted[0], rtol=1e-5)
        states = dict(zip(SHAPES, wanted[1:], strict=True))
        for name, value in zip(SHAPES, given[1:], strict=True):
            np.testing.assert_array_equal(value, in_npu_order(name, states[name]), err_msg=name)
