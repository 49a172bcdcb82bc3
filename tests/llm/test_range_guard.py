"""A token whose numbers exceed fp16: ranges include it if texts start with it, otherwise it is an error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openrknn.llm.agreement import measure_agreement
from openrknn.llm.compile import CompiledLanguage, compile_language
from openrknn.llm.embedder import NpuEmbedder
from openrknn.llm.errors import NumberRangeError
from openrknn.llm.generation.generator import Generator
from openrknn.llm.generation.request import Request
from openrknn.llm.generation.sampling import Sampling
from openrknn.llm.npu import NpuEngine
from openrknn.llm.ranges import measure_squares
from openrknn.llm.reference import ReferenceEngine
from tests.llm.fakes import FakeEngine, FakeVocabulary, by_hand
from tests.llm.quantise.sources import MemorySource
from tests.llm.test_npu_embedder import BERT
from tests.llm.test_npu_engine import CHANGES, decibels

START = 7
"""A token that `measure_squares` does not take of its own accord: those are spread over the vocabulary."""
LARGE = 3e4
TEXT = [START, 17, 150, 42, 9, 100]


def large_start() -> MemorySource:
    """The first token of a text has numbers ten thousand times as large as others, as Gemma 3's."""
    source = MemorySource(**CHANGES | {"tied_head": False})
    source.weights["embedding"][START] = 0
    source.weights["embedding"][START, :2] = LARGE
    return source


@pytest.fixture(scope="module")
def unaware() -> CompiledLanguage:
    return compile_language(large_start(), capacity=32, prefill=(32,), batch=2)


def test_the_first_token_is_measured() -> None:
    source = large_start()
    alone, with_start = measure_squares(source), measure_squares(source, START)
    assert with_start["layers.0.attention_norm"] == pytest.approx(2 * LARGE**2)
    assert alone["layers.0.attention_norm"] < 1e5
    assert all(with_start[name] >= 0.5 * alone[name] for name in alone)


def test_a_file_that_knows_the_first_token_computes_it() -> None:
    source = large_start()
    made = compile_language(source, capacity=32, prefill=(), start=START)
    reference = ReferenceEngine(source)
    wanted = reference.forward(reference.new_cache(), TEXT, all_logits=True)
    with NpuEngine(made.data, "software") as engine:
        found = engine.forward(engine.new_cache(), TEXT, all_logits=True)
    assert min(decibels(one, two) for one, two in zip(wanted, found, strict=True)) > 40


def test_one_that_does_not_is_an_error_and_no_text(unaware: CompiledLanguage) -> None:
    with NpuEngine(unaware.data, "software") as engine:
        with pytest.raises(NumberRangeError, match="layer 0: the values of token 0 are all zero"):
            engine.forward(engine.new_cache(), [START])
        other = engine.new_cache()
        engine.forward(other, [17, 42])
        with pytest.raises(NumberRangeError, match="token 2 are all zero"):
            engine.forward(other, [START, 5])


def test_sequences_beside_it_go_on(unaware: CompiledLanguage) -> None:
    """Together and one after the other."""
    for batch in (2, 0):
        with NpuEngine(unaware.data, "software", batch=batch) as engine:
            bad, good, alone = (engine.new_cache() for _ in range(3))
            for cache in (bad, good, alone):
                engine.forward(cache, [17, 42])
            found = engine.forward_batch([bad, good], [START, 9])
            assert np.isnan(found[0]).all()
            assert np.isfinite(found[1]).all()
            assert len(bad.tokens) == len(good.tokens) == 3
            bad.truncate(2)
            assert np.array_equal(engine.forward(bad, [9]), engine.forward(alone, [9]))


def test_models_of_embeddings() -> None:
    source = MemorySource(**CHANGES | BERT)
    source.weights["layers.1.ffn_norm"][:] = 6e4
    with (
        NpuEmbedder(compile_language(source, capacity=32, prefill=()).data, "software") as engine,
        pytest.raises(NumberRangeError, match="last layer's rows"),
    ):
        engine.embed([5, 6, 7])


def test_a_short_text_shows_whether_a_file_is_right(tmp_path: Path) -> None:
    source = MemorySource(**CHANGES)
    compile_language(source, capacity=32, prefill=()).save(tmp_path / "right.rknnz")
    told: list[tuple[str, int, int]] = []
    right = measure_agreement(tmp_path / "right.rknnz", source, TEXT, "fp16", lambda *said: told.append(said))
    assert (right.measure, right.tokens, right.is_good) == ("KL", len(TEXT) - 1, True)
    assert told[-1] == ("check", 1, 1)
    other = MemorySource(**CHANGES, seed=1)
    assert not measure_agreement(tmp_path / "right.rknnz", other, TEXT, "fp16").is_good


def test_embeddings_that_are_right(tmp_path: Path) -> None:
    source = MemorySource(**CHANGES | BERT)
    compile_language(source, capacity=32, prefill=()).save(tmp_path / "right.rknnz")
    found = measure_agreement(tmp_path / "right.rknnz", source, TEXT, "fp16")
    assert (found.measure, found.is_good) == ("cosine", True)
    assert not measure_agreement(tmp_path / "right.rknnz", MemorySource(**CHANGES | BERT, seed=1), TEXT, "fp16").is_good


class Narrow(FakeEngine):
    """Cannot compute one token."""

    def forward(self, cache: Any, tokens: Any, *, all_logits: bool = False) -> Any:
        found = super().forward(cache, tokens, all_logits=all_logits)
        if START in tokens:
            raise NumberRangeError("layer 0: too large")
        return found


@pytest.mark.parametrize("prompt", ["\x07", "AB\x07CD"])
def test_a_request_that_cannot_be_computed_ends_alone(prompt: str) -> None:
    request = Request(Sampling(temperature=0), max_tokens=20)
    engine = Narrow(ends=False)
    generator = Generator(engine, FakeVocabulary(), chunk=2)
    bad, good = generator.stream(prompt, request), generator.stream("good", request)
    with pytest.raises(NumberRangeError, match="too large"):
        list(bad)
    assert [event.token for event in good][:-1] == by_hand(FakeEngine(ends=False), list(b"good"), 20)
    generator.close()
    assert engine.open_caches == 0
