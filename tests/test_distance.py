"""Measures of closeness, against values that were worked out by hand."""

import math

import numpy as np
import pytest

from openrknn.distance import EQUAL_DB, in_bits, in_steps, measure


def test_cosine_error_and_decibels_of_two_vectors() -> None:
    """Reference (3, 4), ours (3, 3.5): error 0.5 of 5, so 20 dB; cosine 23 / (5 * sqrt(21.25))."""
    found = measure(np.array([[3.0], [3.5]], np.float32), np.array([3, 4]))
    assert found.elements == 2
    assert found.snr_db == pytest.approx(20)
    assert found.relative_error == pytest.approx(0.1)
    assert found.largest_error == 0.5
    assert found.cosine == pytest.approx(23 / (5 * math.sqrt(21.25)))
    assert (found.overflowed, found.reference_max) == (0, 4)


def test_the_ends_of_the_scale_are_numbers() -> None:
    zeros, ones = np.zeros(3), np.ones(3)
    assert measure(ones, ones).snr_db == EQUAL_DB
    assert measure(zeros, zeros).snr_db == EQUAL_DB
    assert measure(ones, zeros).snr_db == -EQUAL_DB
    assert measure(ones, zeros).cosine is measure(ones, zeros).relative_error is None
    assert measure(zeros, ones).cosine is None
    assert measure(zeros, ones).snr_db == 0


@pytest.mark.parametrize("broken", [np.nan, np.inf, -np.inf])
def test_a_number_that_overflowed_is_never_close(broken: float) -> None:
    found = measure(np.array([1, broken, 3]), np.array([1.0, 2, 3]))
    assert (found.overflowed, found.snr_db, found.largest_error) == (1, -EQUAL_DB, 0)
    assert found.cosine == pytest.approx(1), "of the others"
    found = measure(np.array([1, 5, 3]), np.array([1.0, broken, 3]))
    assert (found.overflowed, found.snr_db) == (0, EQUAL_DB), "a reference without a number asks for nothing"


def test_stored_numbers_in_steps() -> None:
    """Scale 0.5, zero point 10: 1.25 is a tie between 12 and 13 and goes to 12; 100 would be 210."""
    found = in_steps(np.array([[12, 13], [127, -128]], np.int8), np.array([1.25, 1.25, 100, -69]), 0.5, 10)
    assert found.differences.tolist() == [0, 1, 0, 0]
    assert (found.clipped, found.equal, found.within_one) == (1, 0.75, 1.0)


def test_neighbours_are_one_apart() -> None:
    for kind in (np.float16, np.float32):
        values = np.array([1, -1, 0, 65504], kind)
        below = np.nextafter(values, np.array(-np.inf, kind))
        assert in_bits(values, below).tolist() == [1, 1, 1, 1]
        assert in_bits(np.array([-0.0], kind), np.array([0.0], kind)).tolist() == [0]
    assert in_bits(np.array([-128], np.int8), np.array([127], np.int8)).tolist() == [-255]
