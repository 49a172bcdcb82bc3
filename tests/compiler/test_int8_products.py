"""`int8_products`: products of int8 in an fp16 model. Witness: their integers, written down in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from openrknn.compiler import OptionError, compile_model, compile_onnx
from openrknn.container.parts import DataType, Kind
from openrknn.runtime.session import Session
from openrknn.voice.make.writer import GraphWriter

Array = npt.NDArray[np.float32]
ROWS, WIDTH, INNER = 6, 32, 64


def weights(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).normal(0, 0.2, shape).astype(np.float32)


FIRST, SECOND, BIAS = weights(1, WIDTH, INNER), weights(2, WIDTH, WIDTH), weights(3, INNER)


def model(width: int = WIDTH) -> Any:
    """Two products that read the input; the second one's result is added to it."""
    graph = GraphWriter("products")
    x = graph.input("x", [1, ROWS, width])
    wide = graph.op("Add", graph.op("MatMul", x, FIRST[:width], name="first"), BIAS)
    graph.output("wide", graph.op("Gelu", wide), [1, ROWS, INNER])
    narrow = graph.op("MatMul", x, SECOND[:width, :width], name="second")
    graph.output("sum", graph.op("Add", x, narrow), [1, ROWS, width])
    return graph.model()


def integers(x: Array, matrix: Array, low: float, high: float) -> Array:
    """Inputs with one scale, weights with one for each output; sums times scales."""
    scale = (high - low) / 255
    zero = round(-128 - low / scale)
    read = np.clip(np.rint(x.astype(np.float16) / scale) + zero, -128, 127) - zero
    bottom, top = np.minimum(matrix.min(axis=0), 0), np.maximum(matrix.max(axis=0), 0)
    steps = (top - bottom) / 255
    points = np.rint(-128 - bottom / steps)
    stored = np.clip(np.rint(matrix / steps) + points, -128, 127) - points
    return np.asarray(read @ stored * scale * steps, np.float32)


def gelu(x: Array) -> Array:
    from math import erf

    return np.asarray(x * 0.5 * (1 + np.vectorize(erf)(x / np.sqrt(2))), np.float32)


RANGES = {"first": (-2.0, 3.0), "second": (-2.0, 3.0)}


def test_results_are_those_of_the_integers_and_stay_fp16() -> None:
    x = np.random.default_rng(4).uniform(-2, 3, (1, ROWS, WIDTH)).astype(np.float32)
    made = compile_onnx(model(), "rk3588", cores=1, fp16=True, int8_products=RANGES)
    with Session(made, "software") as session:
        found = session.run({"x": x})
    wide, product = (integers(x, matrix, -2, 3) for matrix in (FIRST, SECOND))
    # Scales of weights are whole parts of the largest one, so an integer may be another one.
    np.testing.assert_allclose(found["wide"].reshape(1, ROWS, -1), gelu(wide + BIAS), atol=0.02)
    np.testing.assert_allclose(found["sum"].reshape(1, ROWS, -1), x + product, atol=0.02)
    off = np.abs(found["sum"].reshape(1, ROWS, -1) - (x + x @ SECOND)).max()
    assert off > 0.005, "in fp16 it would be closer to float"
    stored = {tensor.name: tensor.dtype for tensor in made.graphs[0].tensors if tensor.kind is Kind.WEIGHT}
    assert (stored["first_w"], stored["second_w"]) == (DataType.INT8, DataType.INT8)
    assert [port.dtype for port in made.outputs] == ["float16", "float16"]


def test_products_that_read_the_same_numbers_share_the_rounding() -> None:
    made = compile_model(model(), "rk3588", cores=1, fp16=True, int8_products=RANGES)
    assert sum(op.type == "Convert" for op in made.variants[0].graph.ops) == 1
    assert made.format_name == "mixed"
    other = {**RANGES, "second": (-1.0, 1.0)}
    made = compile_model(model(), "rk3588", cores=1, fp16=True, int8_products=other)
    assert sum(op.type == "Convert" for op in made.variants[0].graph.ops) == 2


def test_what_cannot_be_int8_is_named() -> None:
    with pytest.raises(OptionError, match=r"add fp16=True"):
        compile_onnx(model(), "rk3588", int8_products=RANGES)
    with pytest.raises(OptionError, match=r"RK3566.* has no int8 products"):
        compile_onnx(model(), "rk3566", fp16=True, int8_products=RANGES)
    with pytest.raises(OptionError, match="'first' reads 24 channels; int8 takes multiples of 16"):
        compile_onnx(model(24), "rk3588", fp16=True, int8_products=RANGES)
    with pytest.raises(OptionError, match="no product with constant weights"):
        compile_onnx(model(), "rk3588", fp16=True, int8_products={"sum": (0.0, 1.0)})
