"""Rotations: orthogonal, even, and invisible in the logits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from openrknn.errors import UnsupportedError
from openrknn.llm.quantise.hadamard import is_hadamard, rotation
from openrknn.llm.quantise.rotate import RotatedSource, TurnedSource
from openrknn.llm.reference import ReferenceEngine
from openrknn.llm.weights import WeightSource

from .sources import MemorySource

TOKENS = [1, 17, 33, 95, 4, 4, 60]


def logits(source: WeightSource) -> Any:
    engine = ReferenceEngine(source)
    return engine.forward(engine.new_cache(), TOKENS, all_logits=True)


@pytest.mark.parametrize("order", [1, 2, 3, 9, 12, 20, 28, 36, 48, 64, 72, 92, 140, 576, 896])
def test_rotations_are_orthogonal(order: int) -> None:
    matrix = rotation(order)
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(order), atol=1e-12)


@pytest.mark.parametrize("order", [2, 12, 20, 28, 36, 64, 72, 140, 576, 896, 960, 1536])
def test_widths_of_models_have_hadamard_matrices(order: int) -> None:
    assert is_hadamard(order)


def test_odd_orders_have_none() -> None:
    assert not is_hadamard(9)
    with pytest.raises(ValueError, match="order 0"):
        rotation(0)


@pytest.mark.parametrize(
    "changes",
    [
        {}, {"tied_head": False}, {"biases": True}, {"query_key_norm": True},
        {"gated": False, "activation": "gelu_tanh"},
        {"residual_scale": 0.3, "embedding_scale": 5.0, "logit_scale": 0.1}, {"window": 3},
        {"attention_softcap": 5.0, "logit_softcap": 20.0}, {"kv_heads": 4}, {"width": 36}, {"width": 45},
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("heads", [True, False])
def test_a_rotated_model_has_the_same_logits(changes: dict[str, Any], *, heads: bool) -> None:
    source = MemorySource(**changes)
    expected, found = logits(source), logits(RotatedSource(source, heads=heads))
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-4 * np.abs(expected).max())


@pytest.mark.parametrize("changes", [{"post_norms": True}, {"post_norms": True, "query_key_norm": True}, {}], ids=str)
def test_heads_turn_without_the_stream(changes: dict[str, Any]) -> None:
    source = MemorySource(**changes)
    turned = TurnedSource(source)
    expected, found = logits(source), logits(turned)
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-4 * np.abs(expected).max())
    assert np.array_equal(turned.get("layers.1.ffn_norm"), source.get("layers.1.ffn_norm"))
    assert not np.allclose(turned.get("layers.1.o"), source.get("layers.1.o"))


def test_a_rotation_spreads_what_is_large() -> None:
    source = MemorySource()
    plain, turned = source.get("embedding"), RotatedSource(source).get("embedding")
    assert np.abs(turned).max() < 0.6 * np.abs(plain).max()


def test_rows_are_those_of_the_whole() -> None:
    turned = RotatedSource(MemorySource())
    for name in ("embedding", "head", "layers.0.down"):
        np.testing.assert_allclose(turned.rows(name, 3, 5), turned.get(name)[3:8], rtol=1e-5, atol=1e-5)
    assert "head" in turned.names()
    assert not turned.config.tied_head
    with pytest.raises(KeyError):
        turned.get("layers.7.q")


@pytest.mark.parametrize(
    ("changes", "reason"), [({"norm": "layer"}, "layer norms"), ({"post_norms": True}, "post norms"),
                            ({"norm_first": False}, "behind each addition")],
)  # fmt: skip
def test_what_cannot_be_rotated_is_refused_by_name(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason):
        RotatedSource(MemorySource(**changes))
