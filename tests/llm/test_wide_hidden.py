"""More columns between the feed-forward products than a task can have: blocks whose results add up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from openrknn.compiler.errors import OptionError
from openrknn.llm import graph
from openrknn.llm.compile import compile_language
from openrknn.llm.graph import hidden_blocks
from openrknn.llm.npu import NpuEngine
from openrknn.llm.ports import MOST_COLUMNS
from openrknn.llm.quantise.engine import QuantisedEngine
from openrknn.llm.quantise.hadamard import turn_blocks
from openrknn.llm.quantise.model import quantise_language
from openrknn.llm.reference import ReferenceEngine
from tests.llm.quantise.sources import MemorySource
from tests.llm.test_npu_engine import CHANGES, CLOSE, TOKENS, decibels

WIDE: dict[str, Any] = {**CHANGES, "hidden": 512, "layers": 1}


@pytest.fixture
def few_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit that a tiny model is beyond."""
    monkeypatch.setattr(graph, "MOST_COLUMNS", 256)


@pytest.mark.parametrize(("hidden", "order"), [(8960, None), (8960, 256), (14336, None), (24576, 256), (8208, None)])
def test_blocks_have_each_channel_once(hidden: int, order: int | None) -> None:
    blocks = [one for one in hidden_blocks(hidden, order) if one is not None]
    assert sorted(np.concatenate(blocks).tolist()) == list(range(hidden))
    assert all(0 < len(one) <= MOST_COLUMNS and len(one) % 16 == 0 for one in blocks)
    assert len(blocks) == -(-hidden // MOST_COLUMNS)


def test_rotations_stay_in_their_blocks() -> None:
    x = np.random.default_rng(0).normal(size=(2, 8960)).astype(np.float32)
    whole = turn_blocks(x, 256)
    for block in hidden_blocks(8960, 256):
        assert block is not None
        assert np.allclose(turn_blocks(x[:, block], 256), whole[:, block], atol=1e-5)


@pytest.mark.usefixtures("few_columns")
@pytest.mark.parametrize("changes", [{}, {"gated": False, "activation": "gelu"}, {"post_norms": True}])
def test_blocks_add_up_to_float(changes: dict[str, Any]) -> None:
    """With biases, each once; one token at a time and in a chunk."""
    source = MemorySource(biases=True, **(WIDE | changes))
    reference = ReferenceEngine(source)
    wanted = reference.forward(reference.new_cache(), TOKENS[:34], all_logits=True)
    made = compile_language(source, capacity=64, prefill=(32,), cores=3)
    assert any("down.1" in entry.name for entry in made.costs[1].operators)
    for cores in (1, 3):
        with NpuEngine(made.data, "software", cores=cores) as engine:
            cache = engine.new_cache()
            found = np.concatenate([engine.forward(cache, TOKENS[:33]), engine.forward(cache, TOKENS[33:34])])
        assert min(decibels(one, two) for one, two in zip(wanted[-2:], found, strict=True)) > CLOSE


@pytest.mark.usefixtures("few_columns")
def test_blocks_of_integers_are_those_of_the_quantised_engine() -> None:
    quantised = quantise_language(MemorySource(**WIDE), [TOKENS], online=True)
    assert quantised.online == {"down": 256}
    engine = QuantisedEngine(quantised)
    wanted = engine.forward(engine.new_cache(), TOKENS[:4], all_logits=True)
    with NpuEngine(compile_language(quantised, capacity=32, prefill=()).data, "software") as npu:
        found = npu.forward(npu.new_cache(), TOKENS[:4], all_logits=True)
    assert min(decibels(one, two) for one, two in zip(wanted, found, strict=True)) > 30


def test_other_columns_that_are_too_many_are_named() -> None:
    with pytest.raises(OptionError, match="8224 columns of queries and keys: a task can have 8192"):
        compile_language(MemorySource(**CHANGES | {"heads": 256, "kv_heads": 1, "layers": 1}), capacity=32)
