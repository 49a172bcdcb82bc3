"""Token ids and masks as inputs: the CPU reads them, the rest is the NPU's (the oracle is ONNX in float)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openrknn
from openrknn.compiler.errors import ModelError

onnx = pytest.importorskip("onnx", reason="the extra `compile` is not installed")

from openrknn.compiler import compile_model  # noqa: E402
from openrknn.compiler.float_model import FloatModel  # noqa: E402
from openrknn.distance import measure  # noqa: E402
from tests.compiler.nets import Net  # noqa: E402

runtime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")

TOKENS, WIDTH = 12, 32
FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64


def embedded(low: float = -3.4028235e38) -> Any:
    """Embeddings of ids, one head of attention with a mask, a projection."""
    net = Net()
    table = net.constant(net.random.normal(0, 1, (40, WIDTH)).astype(np.float32))
    x = net.add("Gather", table, "ids")
    left = net.add("Unsqueeze", "mask", net.constant([1], np.int64))
    kept = net.add("Sub", net.constant(np.float32(1.0)), net.add("Cast", left, to=onnx.TensorProto.FLOAT))
    far = net.add("Mul", kept, net.constant(np.float32(low)))
    q, k, v = (net.add("MatMul", x, net.constant(net.random.normal(0, 0.2, (WIDTH, WIDTH)))) for _ in range(3))
    scores = net.add("Add", net.add("MatMul", q, net.add("Transpose", k, perm=[0, 2, 1])), far)
    out = net.add("MatMul", net.add("Softmax", scores, axis=-1), v)
    model = net.model({"ids": (1, TOKENS), "mask": (1, TOKENS)}, [out])
    for entry in model.graph.input:
        entry.type.tensor_type.elem_type = onnx.TensorProto.INT64
    return model


def feeds(count: int, seed: int) -> list[dict[str, Any]]:
    random = np.random.default_rng(seed)
    found = []
    for number in range(count):
        mask = (np.arange(TOKENS) < TOKENS - number % 5).astype(np.int64)
        found.append({"ids": random.integers(0, 40, (1, TOKENS)), "mask": mask[None]})
    return found


@pytest.mark.parametrize(("form", "decibels"), [("fp16", 45.0), ("int8", 15.0)])
def test_ids_and_a_mask(form: str, decibels: float) -> None:
    model = embedded()
    options: dict[str, Any] = {"calibration": feeds(8, 1)} if form == "int8" else {}
    compiled = compile_model(model, **options)
    assert [(spec.name, spec.dtype) for spec in compiled.model.inputs] == [("ids", "int64"), ("mask", "int64")]
    float_model = FloatModel(model, [model.graph.output[0].name])
    with openrknn.Session(compiled.model, "software") as session:
        for feed in feeds(4, 2):
            (found,) = session.run(feed).values()
            wanted = dict(float_model.run(feed))[model.graph.output[0].name]
            assert measure(found.reshape(wanted.shape), wanted).snr_db > decibels


def test_minus_infinity_is_a_mask_too() -> None:
    """-inf times 0 is NaN in ONNX itself, so the constant is chosen by Where."""
    net = Net()
    x = net.conv("x", 16, 16)
    open_ones = net.constant(np.arange(16).reshape(1, 16, 1, 1) < 12, np.bool_)
    far = net.constant(np.full((1, 16, 1, 1), -np.inf, np.float32))
    out = net.conv(net.add("Softmax", net.add("Where", open_ones, x, far), axis=1), 16, 16)
    model = net.model({"x": (1, 16, 3, 3)}, [out])
    compiled = compile_model(model)
    feed = {"x": np.random.default_rng(0).normal(0, 1, (1, 16, 3, 3)).astype(np.float32)}
    wanted = dict(FloatModel(model, [out]).run(feed))[out]
    with openrknn.Session(compiled.model, "software") as session:
        (found,) = session.run(feed, layout="nchw").values()
    assert measure(found.reshape(wanted.shape), wanted).snr_db > 40


def test_a_large_number_elsewhere_stays() -> None:
    """Only what a Softmax hides may be made smaller: this one is refused, because fp16 has no such number."""
    net = Net()
    out = net.add("Mul", net.conv("x", 16, 16), net.constant(np.full((1, 16, 1, 1), 1e6, np.float32)))
    with pytest.raises(openrknn.RknnError, match="fp16"):
        compile_model(net.model({"x": (1, 16, 3, 3)}, [out]))


def ran(model: Any, feed: dict[str, Any]) -> tuple[Any, Any]:
    """(ours, ONNX Runtime's) of the only output."""
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (wanted,) = session.run(None, feed)
    with openrknn.Session(compile_model(model).model, "software") as ours:
        (found,) = ours.run(feed, layout="nchw").values()
    return found.reshape(wanted.shape), wanted


def typed(net: Net, inputs: dict[str, tuple[tuple[int, ...], int]], output: str, kind: int = FLOAT) -> Any:
    model = net.model({name: shape for name, (shape, _) in inputs.items()}, [output])
    for entry in model.graph.input:
        entry.type.tensor_type.elem_type = inputs[entry.name][1]
    model.graph.output[0].type.tensor_type.Clear()
    model.graph.output[0].type.tensor_type.elem_type = kind
    del model.graph.value_info[:]
    return onnx.shape_inference.infer_shapes(model)


@pytest.mark.parametrize(
    ("kind", "ids", "offset"),
    [
        (INT64, [2**40 + 1, 2**40 + 39, 2**40], 2**40),
        (onnx.TensorProto.INT32, [2**24 + 1, 2**24 + 3, 2**24 + 39], 2**24),
        (INT64, [-1, -40, 5], 0),
        (onnx.TensorProto.UINT8, [1, 39, 0], 0),
        (onnx.TensorProto.INT16, [7, 39, 0], 0),
    ],
    ids=["beyond-double", "beyond-float", "negative", "uint8", "int16"],
)
def test_ids_of_all_sizes(kind: int, ids: list[int], offset: int) -> None:
    """Floats have no 2^24 + 1: nothing on the way may be one."""
    net = Net()
    wide = "ids" if kind in {INT64, onnx.TensorProto.INT32} else net.add("Cast", "ids", to=INT64)
    numpy_kind = onnx.helper.tensor_dtype_to_np_dtype(kind)
    if offset:
        wide = net.add("Sub", wide, net.constant(offset, numpy_kind))
    rows = net.add("Gather", net.constant(net.random.normal(0, 1, (40, 32))), wide)
    out = net.add("MatMul", rows, net.constant(net.random.normal(0, 0.2, (32, 32))))
    found, wanted = ran(typed(net, {"ids": ((1, 3), kind)}, out), {"ids": np.array([ids], numpy_kind)})
    assert measure(found, wanted).snr_db > 50


def test_whole_outputs_are_exact() -> None:
    net = Net()
    found, wanted = ran(
        typed(net, {"ids": ((1, 3), INT64)}, net.add("Add", "ids", net.constant(1, np.int64)), INT64),
        {"ids": np.array([[2**53, -(2**60), 3]])},
    )
    assert found.dtype == np.int64
    assert found.tolist() == wanted.tolist() == [[2**53 + 1, 1 - 2**60, 4]]


def test_sums_of_whole_numbers_stay_with_the_cpu() -> None:
    """The rule that makes a mean a convolution is for floats."""
    net = Net()
    out = net.add("ReduceSum", "ids", net.constant([1], np.int64), keepdims=1)
    found, _ = ran(typed(net, {"ids": ((1, 3), INT64)}, out, INT64), {"ids": np.array([[2**53, 1, 2**40]])})
    assert found.tolist() == [[2**53 + 1 + 2**40]]


def test_arg_max_and_a_mask_of_truths() -> None:
    net = Net()
    chosen = net.add("Where", "mask", net.conv("x", 4, 8), net.constant(np.float32(-9)))
    model = typed(net, {"x": ((1, 4, 5, 5), FLOAT), "mask": ((1, 8, 5, 5), onnx.TensorProto.BOOL)},
                  net.add("ArgMax", chosen, axis=1, keepdims=0), INT64)  # fmt: skip
    random = np.random.default_rng(0)
    x, mask = random.normal(0, 1, (1, 4, 5, 5)).astype(np.float32), random.integers(0, 2, (1, 8, 5, 5)).astype(bool)
    found, wanted = ran(model, {"x": x, "mask": mask})
    assert found.tolist() == wanted.tolist()


def test_a_picture_of_bytes_that_is_moved_before_it_is_cast() -> None:
    net = Net()
    real = net.add("Cast", net.add("Transpose", "x", perm=[0, 3, 1, 2]), to=FLOAT)
    out = net.conv(net.add("Div", real, net.constant(np.float32(255))), 3, 8, 3)
    picture = np.random.default_rng(0).integers(0, 256, (1, 16, 16, 3), dtype=np.uint8)
    found, wanted = ran(typed(net, {"x": ((1, 16, 16, 3), onnx.TensorProto.UINT8)}, out), {"x": picture})
    assert measure(found, wanted).snr_db > 50


def test_bytes_at_the_end_are_wider_here() -> None:
    net = Net()
    half = net.add("Clip", net.conv("x", 3, 8), net.constant(0.0), net.constant(200.0))
    model = typed(net, {"x": ((1, 3, 8, 8), FLOAT)}, net.add("Cast", half, to=onnx.TensorProto.UINT8),
                  onnx.TensorProto.UINT8)  # fmt: skip
    found, wanted = ran(model, {"x": np.random.default_rng(0).normal(0, 90, (1, 3, 8, 8)).astype(np.float32)})
    assert np.abs(found.astype(int) - wanted.astype(int)).max() <= 1


def test_bytes_that_are_computed_with_are_refused() -> None:
    """200 + 100 is 44 there."""
    net = Net()
    summed = net.add("Add", "x", net.constant(100, np.uint8))
    model = typed(net, {"x": ((1, 3), onnx.TensorProto.UINT8)}, net.add("Cast", summed, to=FLOAT))
    with pytest.raises(ModelError, match="is uint8 and read by Add") as caught:
        compile_model(model)
    assert caught.value.operators[0] == "Add_t1"


def test_a_first_dimension_that_is_none_of_items() -> None:
    """One of the 12 rows is smaller than the window: ONNX's shape inference would end the process at the Slice."""
    net = Net()
    x = net.add("Mul", "x", net.constant(np.full(16, 2.0, np.float32)))
    picture = net.add("Transpose", net.add("Unsqueeze", x, net.constant([0], np.int64)), perm=[0, 3, 1, 2])
    wide = net.add("Conv", picture, net.constant(net.random.normal(0, 0.1, (16, 16, 5, 1))), kernel_shape=[5, 1])
    rows = net.add("Squeeze", net.add("Transpose", wide, perm=[0, 2, 3, 1]), net.constant([0], np.int64))
    bounds = [net.constant([value], np.int64) for value in (1, -1, 0, 1)]
    out = net.add("Slice", rows, *bounds)
    model = net.model({"x": (12, 8, 16)}, [out])
    compiled = compile_model(model)
    feed = {"x": np.random.default_rng(0).normal(0, 1, (12, 8, 16)).astype(np.float32)}
    wanted = dict(FloatModel(model, [out]).run(feed))[out]
    with openrknn.Session(compiled.model, "software") as session:
        (found,) = session.run(feed).values()
    assert measure(found.reshape(wanted.shape), wanted).snr_db > 45
