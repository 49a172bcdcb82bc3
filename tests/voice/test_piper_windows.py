"""Windows over a sentence, against a network whose whole answer is known."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openrknn.voice.errors import PhonemeError
from openrknn.voice.piper.engine import regulate, whole_frames
from openrknn.voice.piper.windows import windows_of


def _net(x: npt.NDArray[np.float64], reach: int) -> npt.NDArray[np.float64]:
    """Two convolutions with a bias between them: what lies outside is zero in each, as in HiFi-GAN."""
    for width in (reach // 2, reach - reach // 2):
        kernel = np.arange(1, 2 * width + 2, dtype=np.float64) / 7
        x = np.convolve(np.pad(x, width), kernel, mode="valid") + 0.5
    return x


@given(frames=st.integers(1, 300), reach=st.integers(0, 9), sizes=st.sets(st.integers(20, 90), min_size=1, max_size=3))
def test_windows_give_what_the_whole_gives(frames: int, reach: int, sizes: set[int]) -> None:
    x = np.random.default_rng(frames).standard_normal(frames)
    whole = _net(x, reach)
    made = np.full(frames, np.nan)
    for window in windows_of(frames, sorted(sizes), reach):
        piece = np.zeros(window.size)
        low, high = max(window.start, 0), min(window.start + window.size, frames)
        piece[low - window.start : high - window.start] = x[low:high]
        made[window.first : window.last] = _net(piece, reach)[window.first - window.start : window.last - window.start]
    exact = frames if frames >= 2 * reach or frames in sizes else max(0, frames - reach)
    np.testing.assert_allclose(made[:exact], whole[:exact], rtol=1e-9, atol=1e-9)
    assert np.isfinite(made).all()


@given(frames=st.integers(1, 400), reach=st.integers(0, 9), sizes=st.sets(st.integers(20, 90), min_size=1, max_size=3))
def test_masked_windows_cover_all_and_see_enough(frames: int, reach: int, sizes: set[int]) -> None:
    done = 0
    for window in windows_of(frames, sorted(sizes), reach, masked=True):
        assert window.first == done
        assert window.first - window.start >= reach or window.start == 0
        assert window.start + window.size - window.last >= reach or window.last == frames
        done = window.last
    assert done == frames


def test_windows_smaller_than_what_is_seen() -> None:
    with pytest.raises(ValueError, match="too small"):
        windows_of(100, [8], 4)


def test_the_length_regulator() -> None:
    mean = np.array([[[1.0, 2.0, 3.0]]], np.float32)
    logs = np.log(np.array([[[1.0, 0.5, 2.0]]], np.float32))
    frames = whole_frames(np.array([[[2.0, 0.0, 1.0, 9.0]]]), 3)
    made = regulate(mean, logs, frames, np.ones((1, 1, 3), np.float32), 0.5)
    np.testing.assert_allclose(made, [[[1.5, 1.5, 4.0]]], rtol=1e-6)
    assert whole_frames(np.zeros((1, 1, 2)), 2).tolist() == [1, 0]
    with pytest.raises(PhonemeError, match="length scale"):
        whole_frames(np.array([1e9]), 1)
    with pytest.raises(PhonemeError, match="length scale"):
        whole_frames(np.array([np.nan]), 1)
