"""Other rates. Witness: sines, whose samples at any rate are known."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openrknn.voice import AudioError
from openrknn.voice.audio import Resampler, resample

RATES = [8000, 11_025, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 96_000]


def sine(frequency: float, rate: int, seconds: float, phase: float = 0.3) -> npt.NDArray[np.float64]:
    return np.sin(2 * np.pi * frequency * np.arange(round(rate * seconds)) / rate + phase)


@given(rate=st.sampled_from(RATES), to=st.sampled_from(RATES), share=st.floats(0.01, 0.85), phase=st.floats(0, 6.28))
@settings(max_examples=30, deadline=None)
def test_a_sine_in_the_passband_stays_one(rate: int, to: int, share: float, phase: float) -> None:
    frequency = share * min(rate, to) / 2
    found = resample(sine(frequency, rate, 0.2, phase).astype(np.float32), rate, to)
    wanted = sine(frequency, to, 0.2, phase)
    assert len(found) == -(-round(rate * 0.2) * to // rate)
    inside = slice(len(found) // 4, -len(found) // 4)
    error = np.abs(found[inside] - wanted[: len(found)][inside]).max()
    assert error < 1e-4  # 80 dB: the filter's ripple and float32


@pytest.mark.parametrize(("rate", "to"), [(48_000, 16_000), (44_100, 16_000), (22_050, 16_000), (16_000, 8000)])
def test_what_would_fold_back_is_gone(rate: int, to: int) -> None:
    frequency = 1.02 * to / 2
    found = resample(sine(frequency, rate, 0.3).astype(np.float32), rate, to)
    assert np.abs(found[len(found) // 4 : -len(found) // 4]).max() < 3e-5  # 90 dB


@given(
    rate=st.sampled_from([*RATES, 16_001]),
    to=st.sampled_from([8000, 16_000, 22_050]),
    cuts=st.lists(st.integers(0, 900), max_size=8),
    seed=st.integers(0, 1000),
)
@settings(max_examples=25, deadline=None)
def test_a_stream_gives_what_the_whole_gives(rate: int, to: int, cuts: list[int], seed: int) -> None:
    noise = np.random.default_rng(seed).uniform(-1, 1, 1200).astype(np.float32)
    machine = Resampler(rate, to)
    edges = [0, *sorted(cuts), len(noise)]
    parts = [machine.feed(noise[a:b]) for a, b in pairwise(edges)]
    stream = np.concatenate([*parts, machine.finish()])
    assert np.allclose(stream, resample(noise, rate, to), rtol=0, atol=1e-6)
    again = np.concatenate([machine.feed(noise), machine.finish()])  # finish begins anew
    assert np.allclose(again, stream, rtol=0, atol=1e-6)


def test_a_constant_stays_one_and_the_same_rate_changes_nothing() -> None:
    steady = resample(np.full(4000, 0.7, np.float32), 44_100, 16_000)
    assert np.abs(steady[400:-400] - 0.7).max() < 1e-6
    noise = np.random.default_rng(1).uniform(-1, 1, 100).astype(np.float32)
    assert (resample(noise, 16_000, 16_000) == noise).all()


def test_an_hour_keeps_little() -> None:
    machine = Resampler(44_100, 16_000)
    block = np.zeros(4410, np.float32)
    given_back = sum(len(machine.feed(block)) for _ in range(50))
    assert abs(given_back - 50 * 1600) <= 160
    assert len(machine._kept) < 500


@pytest.mark.parametrize("rate", [0, -16_000, 10**9])
def test_rates_that_make_no_sense(rate: int) -> None:
    with pytest.raises(AudioError, match="makes no sense"):
        Resampler(rate, 16_000)
