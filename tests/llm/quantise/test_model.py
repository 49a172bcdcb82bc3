"""Integers of products, ranges, rounding by data, and what the quantised engine gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from openrknn.errors import UnsupportedError
from openrknn.llm.errors import CacheFullError
from openrknn.llm.quantise.calibrate import Seen, choose_scale, input_of
from openrknn.llm.quantise.engine import QuantisedEngine
from openrknn.llm.quantise.measure import compare, windows
from openrknn.llm.quantise.model import Quantised, quantise_language
from openrknn.llm.quantise.products import (
    Int4Product,
    Int8Product,
    group_size,
    int4_scales,
    int8_scales,
    round_input,
    rounded,
    usable_scale,
)
from openrknn.llm.quantise.rounding import round_by_data
from openrknn.llm.reference import ReferenceEngine

from .sources import MemorySource

RANDOM = np.random.default_rng(3)
TEXTS = [[1, *RANDOM.integers(2, 96, 40).tolist()] for _ in range(3)]
OTHER = [[1, *RANDOM.integers(2, 96, 40).tolist()] for _ in range(2)]


def kl(quantised: Quantised, source: MemorySource, parts: list[list[int]] = OTHER) -> float:
    return compare(ReferenceEngine(source), {"it": QuantisedEngine(quantised)}, parts)["it"].kl


def test_sums_of_int8_are_exact() -> None:
    weights = np.full((3, 3000), -128, np.int8)
    product = Int8Product(weights, np.ones(3, np.float32), 1.0)
    x = np.full((2, 3000), 127.0, np.float32)
    x[1] = np.tile([127.0, -128.0], 1500)
    np.testing.assert_array_equal(product.sums(x)[:, 0], [-128 * 127 * 3000, -128 * (127 - 128) * 1500])


def test_int8_is_near_float() -> None:
    matrix = RANDOM.normal(size=(40, 64)).astype(np.float32)
    x = RANDOM.normal(size=(9, 64)).astype(np.float32)
    scales = int8_scales(matrix)
    product = Int8Product(rounded(matrix, scales, 127), scales, usable_scale(np.abs(x).max() / 127))
    wanted = x @ matrix.T
    assert np.square(product(x) - wanted).sum() < 5e-4 * np.square(wanted).sum()
    assert np.abs(product.matrix() - matrix).max() <= 0.51 * scales.max()
    assert product.bytes == 40 * 64 + 8 * 40


def test_activations_saturate() -> None:
    x = np.array([[-1e4, -1.28, 0.004, 0.006, 1.27, 1e4]], np.float32)
    assert round_input(x, usable_scale(0.01)).tolist() == [[-128, -128, 0, 1, 127, 127]]


@pytest.mark.parametrize(("inputs", "size"), [(576, 96), (1536, 128), (64, 64), (48, 48)])
def test_groups_divide_the_inputs(inputs: int, size: int) -> None:
    assert group_size(inputs) == size


def test_int4_groups_have_their_own_scale() -> None:
    matrix = RANDOM.normal(size=(8, 64)).astype(np.float32)
    matrix[:, 32:] *= 100
    scales = int4_scales(matrix, 32)
    product = Int4Product(rounded(matrix, scales, 7), scales)
    error = np.abs(product.matrix() - matrix)
    assert error[:, :32].max() < 0.6
    assert product.weights.min() >= -8
    assert product.weights.max() <= 7
    x = RANDOM.normal(size=(3, 64)).astype(np.float32)
    np.testing.assert_allclose(product(x), x @ product.matrix().T, rtol=5e-3, atol=0.5)
    assert product.bytes == 8 * 32 + 2 * 16


@pytest.mark.parametrize("scales_of", [int8_scales, lambda matrix: int4_scales(matrix, 32)])
def test_rounding_by_data_beats_the_nearest(scales_of: Any) -> None:
    mix = RANDOM.normal(size=(64, 64)) * np.geomspace(1, 0.01, 64)
    x = (RANDOM.normal(size=(500, 64)) @ mix).astype(np.float32)
    matrix = RANDOM.normal(size=(20, 64)).astype(np.float32)
    scales = scales_of(matrix)
    most = 127 if scales.ndim == 1 else 7

    def error(stored: Any) -> float:
        made = Int4Product(stored, scales if scales.ndim > 1 else scales[:, None])
        return float(np.square(x @ (made.matrix() - matrix).T).sum())

    assert error(round_by_data(matrix, scales, most, x.T @ x)) < 0.5 * error(rounded(matrix, scales, most))


def test_rounding_without_data_is_to_the_nearest() -> None:
    matrix = RANDOM.normal(size=(4, 32)).astype(np.float32)
    scales = int8_scales(matrix)
    found = round_by_data(matrix, scales, 127, np.zeros((32, 32), np.float32))
    np.testing.assert_array_equal(found, rounded(matrix, scales, 127))


def test_ranges() -> None:
    numbers = RANDOM.normal(size=(400, 100)).astype(np.float32)
    numbers[0, 0] = 50.0
    seen = Seen(50.0, [numbers])
    wide, middle, narrow = (choose_scale(seen, method) for method in ("max", "mse", "percentile"))
    assert wide == pytest.approx(50 / 127, rel=1e-3)
    assert narrow < middle < wide


def test_products_that_read_the_same_share_a_range() -> None:
    assert input_of("layers.3.v", gated=True) == "layers.3.q"
    assert input_of("layers.3.up", gated=True) == "layers.3.gate"
    assert input_of("layers.3.up", gated=False) == "layers.3.up"
    assert input_of("head", gated=True) == "head"


@pytest.mark.parametrize("changes", [{}, {"biases": True}, {"tied_head": False}, {"gated": False}], ids=str)
def test_rotated_int8_is_close_to_float(changes: dict[str, Any]) -> None:
    source = MemorySource(**changes)
    turned = quantise_language(source, TEXTS, prefix=1)
    assert kl(turned, source) < 0.01
    assert len(turned.products) == len(turned.choices) == (15 if changes.get("gated", True) else 13)
    plain = quantise_language(source, TEXTS, prefix=1, rotate=False)
    assert kl(turned, source) < 0.7 * kl(plain, source)


def test_large_channels_are_seen_in_any_number_of_rows() -> None:
    """Of more numbers than are looked at, none is of a channel that is left out."""
    random = np.random.default_rng(3)
    for rows in (400, 800, 1000, 1600):
        numbers = random.normal(size=(rows, 640)).astype(np.float32)
        numbers[:, 129] = 80 * np.sign(numbers[:, 129])
        scale = choose_scale(Seen(float(np.abs(numbers).max()), [numbers]), "mse")
        assert 127 * scale > 79


def test_a_hidden_rotation_changes_nothing_in_float() -> None:
    source = MemorySource()
    assert kl(quantise_language(source, TEXTS, precision="fp16", online=True), source) < 1e-9
    assert kl(quantise_language(source, TEXTS, online=True, prefix=1), source) < 0.01


def test_int4_is_worse_and_adapting_helps() -> None:
    source = MemorySource()
    nearest = quantise_language(source, TEXTS, precision="w4a16", group=32)
    adapted = quantise_language(source, TEXTS, precision="w4a16", group=32, adapt_seconds=100)
    assert 1e-4 < kl(adapted, source, TEXTS) < kl(nearest, source, TEXTS)
    assert all(choice.adapted for choice in adapted.choices)
    assert not any(choice.adapted for choice in nearest.choices)


def test_post_norms_are_quantised_without_rotation_of_the_stream() -> None:
    source = MemorySource()
    assert quantise_language(source, TEXTS).source is not source
    changed = MemorySource(post_norms=True)
    for layer in range(2):
        for norm in ("attention_post_norm", "ffn_post_norm"):
            assert np.std(changed.weights[f"layers.{layer}.{norm}"]) > 0.1
    assert kl(quantise_language(changed, TEXTS, precision="fp16", online=True), changed) < 1e-9
    quantised = quantise_language(changed, TEXTS, online=True, prefix=1)
    assert kl(quantised, changed) < 0.02
    assert np.array_equal(quantised.source.get("embedding"), changed.get("embedding"))
    with pytest.raises(UnsupportedError, match="post norms"):
        quantise_language(changed, TEXTS, rotate=True)


def test_the_prefix_is_computed_in_float() -> None:
    source = MemorySource()
    quantised = quantise_language(source, TEXTS, precision="w4a16", prefix=1)
    engine, reference = QuantisedEngine(quantised), ReferenceEngine(source)
    cache = engine.new_cache()
    alone = engine.forward(cache, [1])
    np.testing.assert_allclose(alone, reference.forward(reference.new_cache(), [1]), rtol=1e-3, atol=1e-3)
    other = engine.new_cache()
    both = engine.forward(other, [1, 50, 60], all_logits=True)
    np.testing.assert_allclose(both[1:], engine.forward(cache, [50, 60], all_logits=True), rtol=1e-3, atol=1e-3)
    assert both.shape == (3, 96)
    with pytest.raises(CacheFullError):
        engine.forward(engine.new_cache(), [1] * 65)


def test_windows_start_with_the_prefix() -> None:
    assert list(windows([5, 6, 7, 8, 9], 1, 3)) == [[1, 5, 6], [1, 7, 8]]
    assert list(windows([5, 6, 7], None, 4)) == [[5, 6, 7]]


def test_a_model_has_no_distance_from_itself() -> None:
    source = MemorySource()
    found = compare(ReferenceEngine(source), {"same": ReferenceEngine(source)}, OTHER)["same"]
    assert (found.kl, found.same, found.change, found.tokens) == (0.0, 1.0, 0.0, 80)
    assert found.perplexity > 1


def test_calibration_needs_text() -> None:
    with pytest.raises(ValueError, match="at least one text"):
        quantise_language(MemorySource(), [[1]])
    with pytest.raises(UnsupportedError, match="make text"):
        quantise_language(MemorySource(causal=False), TEXTS)
