"""What families of models have besides Llama: tiny ones on the software NPU, compared with float."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from openrknn.compiler.errors import OptionError
from openrknn.llm.compile import compile_language
from openrknn.llm.config import Rope
from openrknn.llm.npu import NpuEngine
from openrknn.llm.quantise.model import quantise_language
from openrknn.llm.ranges import stream_factor
from openrknn.llm.reference import ReferenceEngine
from tests.llm.quantise.sources import MemorySource
from tests.llm.test_npu_engine import CHANGES, CLOSE, TOKENS, decibels

GEMMA: dict[str, Any] = {"activation": "gelu_tanh", "embedding_scale": 8.0, "post_norms": True}
WINDOWS: dict[str, Any] = {"window": 10, "window_layers": (True, False)}
FAMILIES: dict[str, dict[str, Any]] = {
    "qwen3, heads that are padded": {"query_key_norm": True, "head_size": 48, "rope": Rope(1e4, 48)},
    "gemma2": {**GEMMA, **WINDOWS, "attention_softcap": 5.0, "logit_softcap": 300.0},
    "gemma3": {**GEMMA, **WINDOWS, "kv_heads": 1, "query_key_norm": True, "rope": Rope(1e6, 32, local_base=1e4)},
    "phi3, part of a head rotated": {"rope": Rope(1e4, 24, scale=1.2), "window": 10, "tied_head": False},
}


@pytest.mark.parametrize("name", FAMILIES)
def test_logits_are_those_of_the_reference(name: str) -> None:
    """One token after the other, and as a prompt in chunks."""
    source = MemorySource(**CHANGES | FAMILIES[name])
    reference = ReferenceEngine(source)
    wanted = reference.forward(reference.new_cache(), TOKENS, all_logits=True)
    made = compile_language(source, capacity=64, prefill=(32,))
    assert {cost.cpu_operators for cost in made.costs.values()} == {0}
    with NpuEngine(made.data, "software") as engine:
        found = engine.forward(engine.new_cache(), TOKENS, all_logits=True)
        chunks = engine.forward(engine.new_cache(), TOKENS)
    assert min(decibels(one, two) for one, two in zip(wanted, found, strict=True)) > CLOSE
    assert decibels(wanted[-1], chunks[0]) > CLOSE
    first, second = np.sort(wanted, axis=1)[:, -1], np.sort(wanted, axis=1)[:, -2]
    is_clear = first - second > 0.01  # what is closer is a tie of fp16
    assert is_clear.sum() > len(TOKENS) // 2
    assert np.array_equal(wanted.argmax(1)[is_clear], found.argmax(1)[is_clear])


def test_rk3566_computes_softmax_on_the_cpu() -> None:
    """Atoms of four numbers, kernels from convolutions, operands whose surfaces are alike."""
    source = MemorySource(**CHANGES | FAMILIES["gemma2"])
    reference = ReferenceEngine(source)
    wanted = reference.forward(reference.new_cache(), TOKENS)
    made = compile_language(source, "rk3566", capacity=64, prefill=(32,))
    assert {tokens: cost.cpu_operators for tokens, cost in made.costs.items()} == {1: 2, 32: 1}
    with NpuEngine(made.data, "software") as engine:
        cache = engine.new_cache()
        engine.forward(cache, TOKENS[:-3])
        found = [engine.forward(cache, [token]) for token in TOKENS[-3:]]
    assert decibels(wanted[0], found[-1][0]) > CLOSE


def test_a_stream_beyond_fp16_is_made_smaller() -> None:
    """Numbers of 200,000 in the stream, which no number of fp16 holds."""
    source = MemorySource(**CHANGES | {"layers": 1, "embedding_scale": 3000.0})
    source.weights["layers.0.down"] *= 5000
    reference = ReferenceEngine(source)
    wanted = reference.forward(reference.new_cache(), TOKENS[:4])
    with NpuEngine(compile_language(source, capacity=32, prefill=()).data, "software") as engine:
        assert decibels(wanted[0], engine.forward(engine.new_cache(), TOKENS[:4])[0]) > CLOSE
    assert stream_factor({"final_norm": 1e8}) == 1.0
    assert stream_factor({"final_norm": 1e12}) == 2.0**-5


def test_integers_of_padded_heads_are_refused() -> None:
    source = MemorySource(**CHANGES | {"head_size": 48, "rope": Rope(1e4, 48)})
    quantised = quantise_language(source, [TOKENS])
    with pytest.raises(OptionError, match="heads of 48"):
        compile_language(quantised, capacity=32, prefill=())
