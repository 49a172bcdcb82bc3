from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from openrknn.llm.generation.sampling import Sampler, Sampling

LOGITS = np.log(np.array([0.4, 0.3, 0.15, 0.1, 0.05], np.float32))


def drawn(sampling: Sampling, count: int = 4000, logits: np.ndarray = LOGITS) -> np.ndarray:
    """Shares of each token over many positions of one seed."""
    sampler = Sampler(sampling)
    counts = Counter(sampler.choose(logits, position).token for position in range(count))
    return np.array([counts[token] for token in range(len(logits))]) / count


def test_shares_are_the_probabilities() -> None:
    for seed in (0, 1, 2**63 + 5, -3):
        assert np.abs(drawn(Sampling(seed=seed)) - np.exp(LOGITS)).max() < 0.03
    hot = np.exp(LOGITS / 2)
    assert np.abs(drawn(Sampling(temperature=2.0, seed=9)) - hot / hot.sum()).max() < 0.03


def test_neighbouring_positions_and_seeds_are_independent() -> None:
    first = [Sampler(Sampling(seed=1)).choose(LOGITS, position).token for position in range(4000)]
    second = [Sampler(Sampling(seed=2)).choose(LOGITS, position).token for position in range(4000)]
    same = float((np.exp(LOGITS) ** 2).sum())
    for one, two in ((first, second), (first[1:], first[:-1])):
        assert abs(np.mean([a == b for a, b in zip(one, two, strict=True)]) - same) < 0.03


@pytest.mark.parametrize(
    ("sampling", "left"),
    [
        (Sampling(top_k=2, seed=1), [0, 1]),
        (Sampling(top_p=0.69, seed=1), [0, 1]),
        (Sampling(top_p=0.71, seed=1), [0, 1, 2]),
        (Sampling(top_p=0.0, seed=1), [0]),
        (Sampling(min_p=0.3, seed=1), [0, 1, 2]),
        (Sampling(top_k=4, top_p=0.99, min_p=0.5, seed=1), [0, 1]),
        (Sampling(temperature=0.0), [0]),
        (Sampling(temperature=1e-9, seed=4), [0]),
        (Sampling(bias={0: -100.0, 77: 1.0}, top_k=1, seed=1), [1]),
    ],
)
def test_what_is_cut(sampling: Sampling, left: list[int]) -> None:
    shares = drawn(sampling, 600)
    assert list(np.flatnonzero(shares)) == left
    if sampling.temperature == 1.0 and not sampling.bias:
        wanted = np.exp(LOGITS)[left] / np.exp(LOGITS)[left].sum()
        assert np.abs(shares[left] - wanted).max() < 0.08


def test_top_p_of_many_equal_tokens_takes_them_all() -> None:
    flat = np.zeros(5000, np.float32)
    tokens = {Sampler(Sampling(top_p=0.9, seed=seed)).choose(flat, 0).token for seed in range(300)}
    assert max(tokens) < 4501
    assert max(tokens) > 3000


def test_penalties() -> None:
    logits = np.array([2.0, 1.9, -1.0, -1.1], np.float32)
    greedy = Sampler(Sampling(temperature=0, repetition_penalty=2.0))
    assert greedy.choose(logits, 0, context=[0]).token == 1
    assert greedy.choose(logits, 0, context=[0, 1]).token == 0
    negative = np.array([-1.0, -1.5], np.float32)
    assert greedy.choose(negative, 0, context=[0]).token == 1
    short = Sampler(Sampling(temperature=0, repetition_penalty=2.0, repetition_window=1))
    assert short.choose(logits, 0, context=[0, 2]).token == 0
    presence = Sampler(Sampling(temperature=0, presence_penalty=0.2))
    assert presence.choose(logits, 0, generated=Counter({0: 1})).token == 1
    frequency = Sampler(Sampling(temperature=0, frequency_penalty=0.06))
    assert frequency.choose(logits, 0, generated=Counter({0: 1})).token == 0
    assert frequency.choose(logits, 0, generated=Counter({0: 2})).token == 1


def test_log_probabilities_are_the_models_own() -> None:
    choice = Sampler(Sampling(temperature=0, bias={4: 100.0})).choose(LOGITS, 0, logprobs=2)
    assert choice.token == 4
    assert choice.logprob == pytest.approx(np.log(0.05), abs=1e-6)
    assert [token for token, _ in choice.top] == [0, 1]
    assert [value for _, value in choice.top] == pytest.approx(np.log([0.4, 0.3]), abs=1e-6)
    assert Sampler(Sampling(temperature=0)).choose(LOGITS, 0, logprobs=0).top == ()


def test_masks() -> None:
    mask = np.array([False, False, True, True, False])
    tokens = {Sampler(Sampling(seed=seed)).choose(LOGITS, 0, mask=mask).token for seed in range(50)}
    assert tokens == {2, 3}
    with pytest.raises(ValueError, match="no token can come next"):
        Sampler(Sampling()).choose(LOGITS, 0, mask=np.zeros(5, np.bool_))
    with pytest.raises(ValueError, match="not finite"):
        Sampler(Sampling()).choose(np.full(5, np.nan, np.float32), 0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": -1.0}, {"temperature": float("nan")}, {"top_p": 1.5}, {"min_p": -0.1}, {"top_k": -1},
        {"repetition_penalty": 0.0}, {"presence_penalty": float("inf")}, {"bias": {1: float("nan")}},
    ],
)  # fmt: skip
def test_wrong_numbers(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"is|are"):
        Sampling(**wrong)  # type: ignore[arg-type]
