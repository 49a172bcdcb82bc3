"""Pictures in frames, and the way back."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from openrknn.pictures import FITS
from openrknn.vision.geometry import place
from openrknn.vision.heads import Frame

sizes, frames = some.integers(1, 5000), some.integers(8, 1280)


@settings(deadline=None, max_examples=200)
@given(some.tuples(sizes, sizes), some.tuples(frames, frames), some.sampled_from(FITS), some.integers(0, 2**32))
def test_there_and_back(size: tuple[int, int], frame: tuple[int, int], fit: str, seed: int) -> None:
    width, height, across, down = *size, *frame
    placement = place(width, height, Frame(across, down), fit)
    points = np.random.default_rng(seed).random((20, 2)) * (width, height)
    again = placement.to_picture(placement.to_frame(points).astype(np.float64))
    # float32 in the frame: one part in 2**23 of the frame is so much of the picture.
    slack = 1e-3 + 1e-6 * max(1 / placement.scale_x, 1 / placement.scale_y) * max(across, down, width, height)
    assert np.abs(again - points).max() < slack


@settings(deadline=None, max_examples=100)
@given(sizes, sizes, frames, frames)
def test_a_letterbox_holds_the_whole_picture(width: int, height: int, across: int, down: int) -> None:
    placement = place(width, height, Frame(across, down), "letterbox")
    left, top, right, bottom = placement.covered()
    assert 0 <= left < right <= across
    assert 0 <= top < bottom <= down
    assert right - left == across or bottom - top == down
    assert abs((across - right) - left) <= 1
    assert abs((down - bottom) - top) <= 1
    assert placement.visible() == pytest.approx((0, 0, width, height), abs=1e-2)


@settings(deadline=None, max_examples=100)
@given(sizes, sizes, frames, frames)
def test_a_crop_fills_the_frame(width: int, height: int, across: int, down: int) -> None:
    placement = place(width, height, Frame(across, down), "crop")
    assert placement.covered() == (0, 0, across, down)
    assert placement.scale_x == placement.scale_y


def test_a_letterbox_by_hand() -> None:
    """1280x720 into 640x640: scale 0.5, 640x360, (640 - 360) / 2 = 140 above."""
    placement = place(1280, 720, Frame(640, 640), "letterbox")
    assert placement.to_frame(np.array([0, 0])).tolist() == [0, 140]
    assert placement.to_frame(np.array([1280, 720])).tolist() == [640, 500]
    assert placement.boxes_to_picture(np.array([[0, 100, 320, 320]])).tolist() == [[0, 0, 640, 360]]


def test_a_line_starts_at_the_left_edge_and_a_long_one_is_squeezed() -> None:
    frame = Frame(320, 48)
    assert place(100, 24, frame, "line").covered() == (0, 0, 200, 48)
    assert place(1000, 24, frame, "line").covered() == (0, 0, 320, 48)


@settings(deadline=None, max_examples=50)
@given(some.integers(1, 60), some.integers(1, 60), some.sampled_from(["letterbox", "stretch"]), some.integers(0, 2**32))
def test_a_map_comes_back_to_its_pixels(width: int, height: int, fit: str, seed: int) -> None:
    """A frame that shows every pixel at least four times as large: the map of the frame, read at the centres."""
    placement = place(width, height, Frame(320, 256), fit)
    classes = np.random.default_rng(seed).integers(0, 9, (height, width))
    x = ((np.arange(320) + 0.5 - placement.offset_x) / placement.scale_x).astype(int).clip(0, width - 1)
    y = ((np.arange(256) + 0.5 - placement.offset_y) / placement.scale_y).astype(int).clip(0, height - 1)
    assert (placement.maps_to_picture(classes[y[:, None], x][None])[0] == classes).all()


def test_what_cannot_be_placed() -> None:
    with pytest.raises(ValueError, match="0x5"):
        place(0, 5, Frame(8, 8), "crop")
    with pytest.raises(ValueError, match="'squash' is unknown"):
        place(5, 5, Frame(8, 8), "squash")
