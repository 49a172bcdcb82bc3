"""`Audio.of`: arrays of every type become floats of one channel."""

import numpy as np
import pytest

from openrknn.voice import Audio, AudioError


@pytest.mark.parametrize(
    ("dtype", "numbers", "floats"),
    [
        ("int16", [0, 16384, -32768], [0, 0.5, -1]),
        ("uint8", [128, 192, 0], [0, 0.5, -1]),
        ("int32", [0, 2**30, -(2**31)], [0, 0.5, -1]),
        ("float64", [0, 0.25, -0.5], [0, 0.25, -0.5]),
    ],
)
def test_types(dtype: str, numbers: list[float], floats: list[float]) -> None:
    assert Audio.of(np.array(numbers, dtype), 16000).samples.tolist() == floats


def test_channels_are_averaged() -> None:
    made = Audio.of(np.array([[0, 16384], [8192, 8192]], np.int16), 8000)
    assert (made.samples.tolist(), made.seconds) == ([0.25, 0.25], 2 / 8000)


@pytest.mark.parametrize(
    ("array", "rate", "what"),
    [
        (np.zeros((2, 2, 2)), 16000, "not 3-dimensional"),
        (np.zeros(2), 0, "a rate of 0"),
        (np.array([1.0, np.nan]), 16000, "not finite"),
        (np.array(["a"]), 16000, "is not understood"),
    ],
)
def test_what_is_no_sound(array: np.ndarray, rate: int, what: str) -> None:
    with pytest.raises(AudioError, match=what):
        Audio.of(array, rate)
