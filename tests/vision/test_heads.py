"""Thresholds in the stored domain."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from openrknn.container.model import TensorSpec
from openrknn.container.parts import Quantization
from openrknn.errors import UnsupportedError
from openrknn.vision.heads import Head, Settings, heads_of, original_shape
from openrknn.vision.thresholds import SAFE, safe_threshold

EVERY_INT8 = np.arange(-128, 128).astype(np.int8)


@settings(deadline=None, max_examples=200)
@given(some.floats(1e-4, 10), some.integers(-128, 127), some.floats(-3, 3))
def test_a_limit_passes_exactly_the_numbers_that_reach_the_threshold(scale: float, zero: int, threshold: float) -> None:
    head = Head("x", EVERY_INT8, float(np.float32(scale)), zero)
    assert ((head.limit(threshold) <= EVERY_INT8) == (head.real(EVERY_INT8) >= threshold)).all()


@pytest.mark.parametrize("scale", [-0.1, 0.0, float("nan"), float("inf")])
def test_scales_that_order_nothing_are_refused(scale: float) -> None:
    with pytest.raises(UnsupportedError, match=r"output 'x' has the scale"):
        Head("x", EVERY_INT8, scale, 3)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.int64])
@pytest.mark.parametrize("scale", [1e-40, 1e-20, 1e15])
def test_a_limit_is_found_for_every_scale(scale: float, dtype: type[np.signedinteger]) -> None:
    ends = np.iinfo(dtype)
    values = np.array([ends.min, 0, 1, 2, ends.max], dtype)
    head = Head("x", values, scale, 1)
    assert ((head.limit(0.25) <= values) == (head.real(values) >= np.float32(0.25))).all()


@settings(deadline=None, max_examples=100)
@given(some.floats(1e-3, 0.2), some.integers(-128, 127), some.floats(0.01, 0.99))
def test_a_limit_of_logits_is_the_threshold_after_the_sigmoid(scale: float, zero: int, threshold: float) -> None:
    head = Head("x", EVERY_INT8, float(np.float32(scale)), zero)
    limit = head.score_limit(Settings(threshold=threshold), is_logits=True)
    after = 1 / (1 + np.exp(-head.real(EVERY_INT8).astype(np.float64)))
    unclear = np.abs(after - threshold) < 1e-6
    assert (((limit <= EVERY_INT8) == (after >= threshold)) | unclear).all()


def test_floats_are_compared_as_they_are() -> None:
    head = Head("x", np.zeros(1, np.float16))
    assert head.limit(0.37) == 0.37
    assert not head.is_quantized


def test_whole_numbers_without_a_scale_stand_for_themselves() -> None:
    head = Head("x", np.array([3, 7], np.int32))
    assert head.real(head.values).tolist() == [3.0, 7.0]


@pytest.mark.parametrize(
    ("values", "zero", "expected"),
    [
        ([0, 10, 90], 0, False),     # never below zero: probabilities
        ([-2, 10, 90], 0, False),    # the NPU's sigmoid may end a little below zero
        ([-4, 10, 90], 0, True),     # so far it does not
        ([-90, -80, 5], 0, True),
        ([-128, 0, 127], -128, False),  # nothing negative can be stored
    ],
)
def test_logits_are_told_from_probabilities(values: list[int], zero: int, expected: bool) -> None:
    head = Head("x", np.array(values, np.int8), 0.02, zero)
    assert head.is_logits(head.values, Settings()) is expected
    assert head.is_logits(head.values, Settings(sigmoid=not expected)) is not expected


def test_sigmoid_of_zero_passes_one_half_in_int8_and_not_the_safe_threshold() -> None:
    """By hand: 0.5 * 255 - 128 = -0.5, stored as 0 (ties to even), which stands for 128 / 255 = 0.50196."""
    head = Head("x", np.array([0], np.int8), 1 / 255, -128)
    assert head.real(head.values)[0] == pytest.approx(0.50196, abs=1e-5)
    assert head.limit(0.5) <= 0
    assert head.limit(SAFE) > 0


def test_the_advice_on_thresholds() -> None:
    threshold, note = safe_threshold(0.5, is_quantized=True)
    assert threshold == SAFE
    assert "0.502" in note
    assert safe_threshold(0.5, is_quantized=False) == (0.5, "")
    assert safe_threshold(0.6, is_quantized=True) == (0.6, "")
    assert safe_threshold(0.25, is_quantized=True) == (0.25, "")
    with pytest.raises(ValueError, match="from 0 to 1"):
        safe_threshold(50, is_quantized=True)


def test_heads_take_scale_and_shape_from_the_model() -> None:
    spec = TensorSpec("y", (1, 2, 2, 3), "int8", "nhwc", Quantization((0.5,), (-3,)))
    (head,) = heads_of([spec], {"y": np.zeros((1, 3, 2, 2), np.int8)})
    assert (head.name, head.scale, head.zero_point) == ("y", 0.5, -3)
    assert original_shape(spec) == (1, 3, 2, 2)
    (head,) = heads_of([spec], {"y": np.zeros((1, 3, 2, 2), np.float32)})
    assert not head.is_quantized
