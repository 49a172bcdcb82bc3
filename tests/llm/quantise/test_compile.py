"""Quantised models on the software NPU: int8 products in a step of fp16 give what the integers say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from openrknn.compiler.errors import OptionError, UnsupportedOperatorError
from openrknn.container.load import load
from openrknn.llm.compile import compile_language
from openrknn.llm.config import Rope
from openrknn.llm.file import read_language
from openrknn.llm.npu import NpuEngine
from openrknn.llm.quantise.engine import QuantisedEngine
from openrknn.llm.quantise.measure import log_softmax
from openrknn.llm.quantise.model import Quantised, quantise_language
from openrknn.llm.quantise.products import Int4Product
from openrknn.llm.reference import ReferenceEngine
from openrknn.llm.weights import Floats

from .sources import MemorySource

CHANGES: dict[str, Any] = {
    "vocabulary": 200, "width": 64, "head_size": 32, "hidden": 192, "context": 256, "rope": Rope(10000.0, 32),
}  # fmt: skip
GEMMA: dict[str, Any] = {
    "activation": "gelu_tanh", "embedding_scale": 8.0, "post_norms": True, "query_key_norm": True, "kv_heads": 1,
}  # fmt: skip
RANDOM = np.random.default_rng(1)
TEXTS = [[1, *RANDOM.integers(2, 200, 60).tolist()] for _ in range(3)]
TOKENS = [1, *RANDOM.integers(2, 200, 20).tolist()]


def divergence(wanted: Floats, found: Floats) -> float:
    left, right = log_softmax(wanted), log_softmax(found)
    return float((np.exp(left) * (left - right)).sum(axis=1).mean())


@pytest.fixture(scope="module")
def quantised() -> Quantised:
    return quantise_language(MemorySource(**CHANGES), TEXTS, prefix=1, online=True)


@pytest.fixture(scope="module")
def expected(quantised: Quantised) -> Floats:
    engine = QuantisedEngine(quantised)
    return engine.forward(engine.new_cache(), TOKENS, all_logits=True)


@pytest.mark.parametrize("chip", ["rk3588", "rk3576"])
def test_the_npu_gives_what_the_integers_say(chip: str, quantised: Quantised, expected: Floats) -> None:
    compiled = compile_language(quantised, chip, capacity=64, prefill=(32,))
    reference = ReferenceEngine(MemorySource(**CHANGES))
    wanted = reference.forward(reference.new_cache(), TOKENS, all_logits=True)
    with NpuEngine(compiled.data, "software") as engine:
        found = engine.forward(engine.new_cache(), TOKENS, all_logits=True)
        last = engine.forward(engine.new_cache(), TOKENS)
    assert found.shape == expected.shape == (len(TOKENS), 200)
    rounding = divergence(wanted, expected)
    assert divergence(expected, found) < rounding
    assert divergence(expected[-1:], last) < 2 * rounding
    assert rounding < 0.01


@pytest.mark.parametrize(("changes", "rotate"), [(GEMMA, None), ({}, False)], ids=["gemma3", "not rotated"])
def test_norms_that_keep_their_weights(changes: dict[str, Any], rotate: bool | None) -> None:
    """Gemma 3: norms behind attention and feed-forward forbid a rotation of the stream."""
    source = MemorySource(**CHANGES | changes)
    quantised = quantise_language(source, TEXTS, prefix=1, rotate=rotate, online=rotate is None)
    engine, reference = QuantisedEngine(quantised), ReferenceEngine(source)
    expected = engine.forward(engine.new_cache(), TOKENS, all_logits=True)
    wanted = reference.forward(reference.new_cache(), TOKENS, all_logits=True)
    with NpuEngine(compile_language(quantised, capacity=64, prefill=()).data, "software") as npu:
        found = npu.forward(npu.new_cache(), TOKENS, all_logits=True)
    errors = np.square(found - expected).sum(axis=1) / np.square(expected).sum(axis=1)
    assert errors.max() < 5e-3
    assert np.median(errors) < 2e-5  # in single tokens an input moves by a step of int8, which is more
    assert divergence(wanted, expected) < 0.05


def test_int8_takes_less_room(quantised: Quantised) -> None:
    small = compile_language(quantised, capacity=32, prefill=())
    large = compile_language(MemorySource(**CHANGES), capacity=32, prefill=())
    assert small.costs[1].cpu_operators == 0
    assert len(small.data) < len(large.data)


def test_a_prefix_alone_is_a_constant(quantised: Quantised, expected: Floats) -> None:
    with NpuEngine(compile_language(quantised, capacity=32, prefill=()).data, "software") as engine:
        cache = engine.new_cache()
        np.testing.assert_allclose(engine.forward(cache, [1])[0], expected[0], rtol=2e-3, atol=2e-3)
        assert cache.tokens == (1,)
        other = engine.new_cache()
        assert np.array_equal(engine.forward(cache, TOKENS[1:3]), engine.forward(other, TOKENS[:3]))


def test_what_cannot_be_compiled_is_named(quantised: Quantised) -> None:
    source = MemorySource(**CHANGES)
    narrow = quantise_language(source, TEXTS, precision="w4a16", group=32)
    o = narrow.products["layers.0.o"]
    assert isinstance(o, Int4Product)
    assert o.scales.shape == (64, 4)
    across = Int4Product(o.weights, np.ones((64, 2), np.float32))
    with pytest.raises(UnsupportedOperatorError, match="groups of 64"):
        compile_language(replace(narrow, products={**narrow.products, "layers.0.o": across}), "rk3576", capacity=32)
    whole = quantise_language(source, TEXTS, precision="w4a16", group=0)
    with pytest.raises(OptionError, match="rk3576 and rv1126b"):
        compile_language(whole, "rk3588", capacity=32, prefill=())


@pytest.mark.parametrize(("biases", "group", "head"), [(False, 0, 32), (True, 0, 32), (False, 32, 64), (True, 64, 32)])
def test_weights_of_int4(biases: bool, group: int, head: int) -> None:
    """W4A16 on RK3576: one task for a product or for each group of its inputs, a quarter of the bytes of fp16."""
    source = MemorySource(biases=biases, **CHANGES | {"head_size": head, "rope": Rope(10000.0, head)})
    narrow = quantise_language(source, TEXTS, precision="w4a16", group=group, skip=["head"])
    reference = QuantisedEngine(narrow)
    wanted = reference.forward(reference.new_cache(), TOKENS, all_logits=True)
    compiled = compile_language(narrow, "rk3576", capacity=32, prefill=(32,))
    with NpuEngine(compiled.data, "software") as engine:
        found = engine.forward(engine.new_cache(), TOKENS, all_logits=True)
        last = engine.forward(engine.new_cache(), TOKENS)
    error = np.square(found - wanted).sum(axis=1) / np.square(wanted).sum(axis=1)
    assert error.max() < 1e-4
    assert np.square(last[0] - wanted[-1]).sum() < 1e-4 * np.square(wanted[-1]).sum()
    tensors = {one.name: one.size_bytes for one in load(read_language(compiled.data).step).graphs[0].tensors}
    down = [size for name, size in tensors.items() if name.startswith("layers.0.down_w")]
    assert down == [64 * (group or 192) // 2] * (192 // (group or 192))
