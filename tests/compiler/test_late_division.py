"""Attention whose product with the values is divided instead of the scores."""

from __future__ import annotations

import numpy as np
import pytest

from openrknn.compiler import compile_model
from openrknn.compiler.api import Compiled
from openrknn.compiler.forms import Product, Softmax, late_gain
from openrknn.distance import measure
from openrknn.runtime.session import Session
from tests.compiler.nets import Array, Net

HEADS, SIZE = 2, 16
LARGEST = 65504.0


def attention(tokens: int, *, late: bool = True, mask: bool = False) -> object:
    """Queries, keys and values come in as they are; without `late` the scores are an output, too."""
    net, width = Net(), HEADS * SIZE
    sizes, same = net.constant([1, tokens, HEADS, SIZE], np.int64), net.constant(np.eye(width))
    q, k, v = (
        net.add("Transpose", net.add("Reshape", net.add("MatMul", name, same), sizes), perm=order)
        for name, order in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3]))
    )
    scores = net.add("MatMul", q, k)
    if mask:
        scores = net.add("Add", scores, net.constant(np.triu(np.full((1, 1, tokens, tokens), -100.0), 1)))
    weights = net.add("Softmax", scores, axis=-1)
    mixed = net.add("Transpose", net.add("MatMul", weights, v), perm=[0, 2, 1, 3])
    out = net.add("Reshape", mixed, net.constant([1, tokens, width], np.int64))
    others = [] if late else [net.add("Mul", weights, net.constant(2.0))]
    return net.model(dict.fromkeys("qkv", (1, tokens, width)), [out, *others])


def forms(made: Compiled) -> tuple[Softmax, Product]:
    graph = made.lowering.graph
    (soft,) = (op.get(Softmax) for op in graph.ops if op.type == "Softmax")
    return soft, [op.get(Product) for op in graph.ops if op.type == "Product"][-1]


def expected(feed: dict[str, Array], *, mask: bool = False) -> Array:
    q, k, v = (feed[name][0].astype(np.float64).reshape(-1, HEADS, SIZE).swapaxes(0, 1) for name in "qkv")
    scores = q @ k.swapaxes(1, 2)
    if mask:
        scores = scores + np.triu(np.full(scores.shape[1:], -100.0), 1)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    mixed: Array = powers / powers.sum(-1, keepdims=True) @ v
    return mixed.swapaxes(0, 1).reshape(feed["q"].shape)


def feed_of(tokens: int, *, scores: float, values: float) -> dict[str, Array]:
    random = np.random.default_rng(3)
    sizes = {"q": scores, "k": 1.0, "v": values}
    shape = (1, tokens, HEADS * SIZE)
    return {
        name: random.normal(0, size, shape).astype(np.float16).astype(np.float32) for name, size in sizes.items()
    }


@pytest.mark.parametrize("chip", ["rk3588", "rk3576", "rk3562"])
@pytest.mark.parametrize("mask", [False, True])
def test_sharp_and_flat_scores_small_and_large_values(chip: str, mask: bool) -> None:
    """Sums of the exponentials are from 1 to the number of keys here; 130 of them have lanes that pad."""
    tokens = 130
    made = compile_model(attention(tokens, mask=mask), chip, cores=1, check=False)
    soft, product = forms(made)
    assert soft.is_late
    assert product.is_divided
    assert soft.is_halved is not mask
    with Session(made.model, "software") as session:
        for scores, values in ((0.0, 2000.0), (0.01, 0.1), (1.0, 1.0), (8.0, 1.0)):
            feed = feed_of(tokens, scores=scores, values=values)
            (found,) = session.run(feed, layout="nchw").values()
            wanted = expected(feed, mask=mask)
            assert measure(found.reshape(wanted.shape), wanted).snr_db > (40 if scores > 1 else 54), (scores, values)


def test_scores_of_any_size_have_a_distance_in_fp16() -> None:
    """60,000 and -60,000 are 120,000 apart: halves of them are not beyond fp16."""
    tokens = 64
    feed = feed_of(tokens, scores=1.0, values=1.0)
    feed["q"][...], feed["k"][...] = 61.0, 61.0
    feed["k"][:, ::2] = -61.0
    with Session(compile_model(attention(tokens), cores=1, check=False).model, "software") as session:
        (found,) = session.run(feed, layout="nchw").values()
    wanted = expected(feed)
    assert measure(found.reshape(wanted.shape), wanted).snr_db > 54


def test_scores_that_somebody_else_reads_are_divided() -> None:
    soft, product = forms(compile_model(attention(130, late=False), cores=1, check=False))
    assert not soft.is_late
    assert not product.is_divided


def test_few_rows_are_divided_as_before() -> None:
    soft, _ = forms(compile_model(attention(8), cores=1, check=False))
    assert not soft.is_late


def test_int8_models_have_it_too() -> None:
    tokens = 130
    feed = feed_of(tokens, scores=0.5, values=1.0)
    made = compile_model(attention(tokens), cores=1, calibration=[feed], check=False)
    assert forms(made)[0].is_late
    with Session(made.model, "software") as session:
        (found,) = session.run(feed, layout="nchw").values()
    wanted = expected(feed)
    assert measure(found.reshape(wanted.shape), wanted).snr_db > 24


@pytest.mark.parametrize("length", [2, 8, 9, 130, 1500, 3072])
def test_no_product_of_usual_values_is_beyond_fp16(length: int) -> None:
    assert length * late_gain(length) * 8188 <= LARGEST
    assert late_gain(length) == 1 or length * late_gain(length) * 2 > 8


def test_many_heads_stay_in_channels_whatever_the_number_of_tokens() -> None:
    """20 heads of 64, as in Whisper large: nothing is filled up, so no map has all heads' pixels in one surface."""
    net, tokens, heads, size = Net(), 36, 20, 64
    sizes, kernel = net.constant([1, tokens, heads, size], np.int64), net.weights(heads * size, heads * size)
    q, k, v = (
        net.add("Transpose", net.add("Reshape", net.add("MatMul", "x", kernel), sizes), perm=order)
        for order in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
    )
    mixed = net.add("MatMul", net.add("Softmax", net.add("MatMul", q, k), axis=-1), v)
    made = compile_model(net.model({"x": (1, tokens, heads * size)}, [mixed]), cores=1, check=False)
    products = [op.get(Product) for op in made.lowering.graph.ops if op.type == "Product"]
    assert [(one.heads, one.windows) for one in products] == [(heads, 1), (heads, 1)]
    assert [(one.left, one.right) for one in products] == [("channels", "channels"), ("rows", "channels")]
