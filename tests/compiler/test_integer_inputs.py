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

TOKENS, WIDTH = 12, 32


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


def test_narrow_integers_are_refused() -> None:
    model = embedded()
    model.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.INT16
    with pytest.raises((ModelError, openrknn.RknnError)):
        compile_model(model)


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
