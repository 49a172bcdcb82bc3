"""Loudness against the numbers of the standard."""

from __future__ import annotations

import numpy as np
import pytest

from openrknn.voice.audio.loudness import at_loudness, lufs


@pytest.mark.parametrize("rate", [16000, 22050, 24000, 48000])
def test_a_sine_of_the_standard(rate: int) -> None:
    """BS.1770: a sine of 997 Hz at full scale in one channel is at -3.01 LUFS."""
    sine = np.sin(2 * np.pi * 997 * np.arange(3 * rate) / rate).astype(np.float32)
    assert lufs(sine, rate) == pytest.approx(-3.01, abs=0.1)
    assert lufs(sine * np.float32(0.1), rate) == pytest.approx(-23.01, abs=0.1)
    # Silence does not count.
    assert lufs(np.concatenate([sine, np.zeros(5 * rate, np.float32)]), rate) == pytest.approx(-3.01, abs=0.6)


def test_silence_and_limits() -> None:
    assert lufs(np.zeros(100, np.float32), 16000) == -np.inf
    assert lufs(np.zeros(0, np.float32), 16000) == -np.inf
    noise = np.random.default_rng(0).standard_normal(16000).astype(np.float32) * np.float32(0.01)
    assert lufs(at_loudness(noise, 16000, -30.0), 16000) == pytest.approx(-30, abs=0.01)
    assert np.abs(at_loudness(noise, 16000, 0.0)).max() == pytest.approx(1.0)  # not louder than samples can be
    np.testing.assert_array_equal(at_loudness(np.zeros(9, np.float32), 16000, -16.0), np.zeros(9))
