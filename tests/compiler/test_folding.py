"""Shape arithmetic and masks of exporters fold away, and stay small while they do (the oracle is ONNX in float)."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the extra `compile` is not installed")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from openrknn.compiler import compile_model  # noqa: E402
from openrknn.compiler.errors import ModelError, UnsupportedOperatorError  # noqa: E402
from openrknn.compiler.float_model import FloatModel  # noqa: E402
from openrknn.compiler.importer import import_model  # noqa: E402
from openrknn.compiler.importer.fold import fold  # noqa: E402
from openrknn.compiler.importer.lazy import compact, is_lazy  # noqa: E402
from openrknn.compiler.importer.shapes import bind_shapes  # noqa: E402
from tests.compiler.nets import Net  # noqa: E402

LOWEST = float(np.finfo(np.float32).min)
HEADS, WIDTH = 4, 8


def attended(tokens: int, style: str, layers: int = 1) -> tuple[Any, str]:
    """Attention with the causal mask of three exporters, everything sized by Shape."""
    net = Net()
    number = net.add("Gather", net.add("Shape", "x"), net.constant(2, np.int64))
    size = net.add("Unsqueeze", number, net.constant([0], np.int64))
    places = net.add("Range", net.constant(0, np.int64), number, net.constant(1, np.int64))
    whole = net.add("Concat", net.constant([1, HEADS], np.int64), size, size, axis=0)
    column = net.add("Reshape", places, net.constant([-1, 1], np.int64))
    if style == "where":
        mask = net.add("Expand", net.add("LessOrEqual", places, column), whole)
    elif style == "scatter":
        fill = helper.make_tensor("v", TensorProto.FLOAT, [1], [LOWEST])
        full = net.add("ConstantOfShape", net.add("Concat", size, size, axis=0), value=fill)
        mask = net.add("Expand", net.add("Trilu", full, net.constant(1, np.int64), upper=1), whole)
    else:
        far = net.add("Cast", net.add("Greater", places, column), to=TensorProto.FLOAT)
        mask = net.add("Expand", net.add("Mul", far, net.constant(np.float32(LOWEST))), whole)
    x = "x"
    for _ in range(layers):
        turned = net.add("Transpose", x, perm=[0, 1, 3, 2])
        scores = net.add("Mul", net.add("MatMul", x, turned), net.constant(np.float32(0.3)))
        if style == "where":
            scores = net.add("Where", mask, scores, net.constant(np.float32(LOWEST)))
        else:
            scores = net.add("Add", scores, mask)
        chosen = net.add("Softmax", scores, axis=-1)
        safe = net.add("Where", net.add("IsNaN", chosen), net.constant(np.float32(0)), chosen)
        x = net.add("MatMul", safe, x)
    return net.model({"x": (1, HEADS, tokens, WIDTH)}, [x]), x


@pytest.mark.parametrize("style", ["where", "scatter", "compare"])
def test_causal_masks_are_sums_of_the_npu(style: str) -> None:
    model, _ = attended(24, style, layers=2)
    compiled = compile_model(model)
    assert "dB" in compiled.checked
    kinds = {step.type for step in compiled.lowering.program.steps if step.is_cpu}
    assert not kinds & {"Where", "IsNaN", "exSoftmax13"}


@pytest.mark.parametrize("style", ["where", "scatter", "compare"])
def test_a_mask_is_there_once(style: str) -> None:
    """Not for each head, and not for each layer."""
    tokens = 300
    graph = import_model(attended(tokens, style, layers=3)[0]).graph
    large = [array.size for array in graph.constants.values() if array.size >= tokens * tokens]
    assert large == [tokens * tokens]


def test_a_mask_that_is_all_ones_is_a_row() -> None:
    net = Net()
    tokens = 4096
    mask = net.add("Expand", "mask", net.constant([1, HEADS, tokens, tokens], np.int64))
    scores = net.add("MatMul", "x", net.add("Transpose", "x", perm=[0, 1, 3, 2]))
    out = net.add("Add", scores, net.add("Sub", mask, net.constant(np.float32(1))))
    model = net.model({"x": (1, HEADS, tokens, 2), "mask": (1, 1, 1, tokens)}, [out])
    tracemalloc.start()
    graph = import_model(model, constants={"mask": 1}).graph
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert max(array.size for array in graph.constants.values()) <= tokens
    assert peak < 64 << 20  # one of them written out is 256 MB


def test_repetitions_are_written_out_where_a_reader_needs_them() -> None:
    net = Net()
    tall = net.add("Expand", net.constant(np.arange(64).reshape(1, 1, 1, 64)), net.constant([1, 4, 32, 64], np.int64))
    out = net.add("Concat", net.conv("x", 3, 8), tall, axis=1)
    single = net.add("Mul", net.add("ReduceMax", "x", keepdims=1), tall)
    model = net.model({"x": (1, 3, 32, 64)}, [out, single])
    feed = {"x": np.random.default_rng(0).normal(0, 1, (1, 3, 32, 64)).astype(np.float32)}
    wanted = dict(FloatModel(model, [out, single]).run(feed))
    bind_shapes(model, {})
    folded = fold(model)
    assert "Expand" not in {node.op_type for node in folded.graph.node}
    for name, values in FloatModel(folded, [out, single]).run(feed):
        np.testing.assert_array_equal(values, wanted[name] if name in wanted else feed[name])


@pytest.mark.parametrize("seed", range(8))
def test_views_are_what_onnx_computes(seed: int) -> None:
    """Random moves and functions over constants, folded, beside ONNX's evaluator."""
    random = np.random.default_rng(seed)
    net = Net()
    shape = [1, 3, 1, 4]
    name = net.constant(random.normal(0, 1, shape))
    for _ in range(6):
        kind = random.choice(["Expand", "Transpose", "Unsqueeze", "Slice", "Reshape", "Tile", "Mul", "Greater"])
        if kind == "Expand":
            shape = [size if size > 1 else int(random.integers(1, 4)) for size in shape]
            name = net.add("Expand", name, net.constant(shape, np.int64))
        elif kind == "Tile":
            counts = random.integers(1, 3, len(shape))
            shape = [int(a * b) for a, b in zip(shape, counts, strict=True)]
            name = net.add("Tile", name, net.constant(counts, np.int64))
        elif kind == "Transpose":
            perm = random.permutation(len(shape)).tolist()
            shape = [shape[axis] for axis in perm]
            name = net.add("Transpose", name, perm=perm)
        elif kind == "Unsqueeze":
            axis = int(random.integers(0, len(shape) + 1))
            shape.insert(axis, 1)
            name = net.add("Unsqueeze", name, net.constant([axis], np.int64))
        elif kind == "Slice":
            axis = int(random.integers(0, len(shape)))
            shape[axis] = max(shape[axis] - 1, 1)
            name = net.add("Slice", name, *(net.constant([v], np.int64) for v in (0, shape[axis], axis)))
        elif kind == "Reshape":
            shape = [shape[0] * shape[1], *shape[2:]] if random.integers(2) else [*shape, 1]
            name = net.add("Reshape", name, net.constant(shape, np.int64))
        elif kind == "Mul":
            name = net.add("Mul", name, net.constant(random.normal(0, 1, shape[-1:])))
        else:
            asked = net.add("Greater", name, net.constant(np.float32(0.1)))
            name = net.add("Where", asked, name, net.constant(np.float32(-2)))
    out = net.add("Add", "x", name)
    model = net.model({"x": tuple(shape)}, [out])
    feed = {"x": np.zeros(shape, np.float32)}
    wanted = dict(FloatModel(model, [out]).run(feed))[out]
    bind_shapes(model, {})
    folded = fold(model)
    assert [node.op_type for node in folded.graph.node] == ["Add"]
    np.testing.assert_allclose(dict(FloatModel(folded, [out]).run(feed))[out], wanted, rtol=1e-6)


def test_compact_takes_only_repetitions() -> None:
    row = np.arange(4.0)
    view = np.broadcast_to(row, (3, 5, 4))
    assert compact(view).shape == (1, 1, 4)
    assert is_lazy(view)
    assert not is_lazy(np.ascontiguousarray(view))
    assert compact(np.zeros((1, 3))).shape == (1, 3)


def looped(turns: int, *, ends: bool = False) -> Any:
    """h = tanh(W h + i), `turns` times; every h is an output too."""
    weight = np.random.default_rng(0).normal(0, 0.3, (8, 8, 1, 1)).astype(np.float32)
    body = helper.make_graph(
        [
            helper.make_node("Conv", ["h_in", "W"], ["c"], kernel_shape=[1, 1]),
            helper.make_node("Cast", ["i"], ["number"], to=TensorProto.FLOAT),
            helper.make_node("Add", ["c", "number"], ["sum"]),
            helper.make_node("Tanh", ["sum"], ["h_out"]),
            helper.make_node("Less", ["i", "three"], ["again"]) if ends
            else helper.make_node("Identity", ["again_in"], ["again"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("again_in", TensorProto.BOOL, []),
            helper.make_tensor_value_info("h_in", TensorProto.FLOAT, [1, 8, 6, 6]),
        ],
        [
            helper.make_tensor_value_info("again", TensorProto.BOOL, []),
            helper.make_tensor_value_info("h_out", TensorProto.FLOAT, [1, 8, 6, 6]),
            helper.make_tensor_value_info("h_out", TensorProto.FLOAT, [1, 8, 6, 6]),
        ],
        [numpy_helper.from_array(weight, "W"), numpy_helper.from_array(np.array(3), "three")],
    )  # fmt: skip
    graph = helper.make_graph(
        [helper.make_node("Loop", ["turns", "yes", "x"], ["h", "all"], body=body, name="loop")],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8, 6, 6])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("h", "all")],
        [numpy_helper.from_array(np.array(turns), "turns"), numpy_helper.from_array(np.array(True), "yes")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_a_short_loop_is_written_out() -> None:
    compiled = compile_model(looped(5))
    assert "dB" in compiled.checked
    assert sum(step.type.startswith("Conv") for step in compiled.lowering.program.steps) >= 5


@pytest.mark.parametrize("model", [looped(5, ends=True), looped(1000)], ids=["ends-by-itself", "long"])
def test_other_loops_are_named(model: Any) -> None:
    with pytest.raises((ModelError, UnsupportedOperatorError), match="Loop 'loop'") as caught:
        compile_model(model)
    assert caught.value.operators[0] == "loop"


def test_rows_of_a_quantised_table() -> None:
    """An embedding whose weights alone are int8, as dynamic quantisation leaves it."""
    net = Net()
    table = net.constant(np.random.default_rng(0).integers(-128, 128, (40, 32)), np.int8)
    rows = net.add("Gather", table, "ids")
    scale, zero = net.constant(np.float32(0.02)), net.constant(3, np.int8)
    out = net.add("MatMul", net.add("DequantizeLinear", rows, scale, zero), net.weights(32, 16))
    model = net.model({"ids": (1, 6)}, [out])
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.INT64
    compiled = compile_model(model)
    assert compiled.format_name == "fp16"
    assert "matches" in compiled.checked


def test_an_output_without_numbers_is_left_out() -> None:
    net = Net()
    out = net.conv("x", 3, 8)
    model = net.model({"x": (1, 3, 8, 8)}, [out])
    model.graph.initializer.append(numpy_helper.from_array(np.zeros((0, 8), np.float32), "nothing"))
    model.graph.output.append(helper.make_tensor_value_info("nothing", TensorProto.FLOAT, [0, 8]))
    assert [spec.name for spec in compile_model(model).model.outputs] == [out]
