"""One-step conversion against the formula in floats and against OpenCV."""

from __future__ import annotations

import os
from typing import Any

import cv2
import numpy as np
import pytest

from openrknn import nativelib
from openrknn.pixels import PixelsError
from openrknn.video import ColourRange, ColourSpace, FrameError, PixelFormat, VideoFrame, boxes_for, convert
from tests.video.images import float_pixels, float_scaled, random_frame

FORMATS = list(PixelFormat)
SIZES = int(os.environ.get("OPENRKNN_TEST_SIZES", "60"))
"""Random sizes, strides and crops of each comparison; 1000 say it all, and take a minute."""


def target_of(random: np.random.Generator, width: int, height: int, channels: int) -> Any:
    """A target with padded rows, and noise in it."""
    padded = random.integers(0, 256, (height, width * channels + int(random.integers(0, 30))), np.uint8)
    return np.ndarray((height, width, channels), np.uint8, padded, strides=(padded.strides[0], channels, 1))


def random_box(random: np.random.Generator, width: int, height: int) -> tuple[int, int, int, int]:
    left, top = int(random.integers(0, width)), int(random.integers(0, height))
    return left, top, int(random.integers(left + 1, width + 1)), int(random.integers(top + 1, height + 1))


def gray(colours: Any) -> Any:
    return colours @ np.array((0.299, 0.587, 0.114))


def check_one(number: int) -> None:
    """A frame of a random format, size, stride and crop into a random place of a random target."""
    random = np.random.default_rng(number)
    pixel_format = FORMATS[number % len(FORMATS)]
    width, height = (int(random.integers(1, 400)) for _ in range(2))
    space, values = list(ColourSpace)[number % 3], list(ColourRange)[number // 3 % 2]
    frame = random_frame(random, pixel_format, width, height, colour_space=space, colour_range=values)
    channels = int(random.choice((3, 3, 4, 1)))
    target = target_of(random, int(random.integers(1, 300)), int(random.integers(1, 300)), channels)
    crop = random_box(random, width, height)
    place = random_box(random, target.shape[1], target.shape[0])
    order = "bgr" if number % 2 else "rgb"
    made = convert(frame, target, crop=crop, place=place, fill=(7, 80, 200), order=order)
    assert made.copies == made.total == 1

    exact = float_pixels(frame)[crop[1] : crop[3], crop[0] : crop[2]]
    if channels == 1:
        # Of YUV it is luma itself, so that nothing is clipped on the way.
        exact = luma_of(frame, crop) if pixel_format.is_yuv else gray(exact)[..., None]
    scaled = float_scaled(exact, place[2] - place[0], place[3] - place[1])
    if order == "bgr" and channels != 1:
        scaled = scaled[..., ::-1]
    inside = target[place[1] : place[3], place[0] : place[2]]
    assert np.abs(inside[..., : scaled.shape[2]] - scaled).max() <= 0.6, (number, pixel_format)
    if channels == 4:
        assert (inside[..., 3] == 255).all()
    outside = np.ones(target.shape[:2], bool)
    outside[place[1] : place[3], place[0] : place[2]] = False
    colours = {1: (72,), 3: (7, 80, 200), 4: (7, 80, 200, 255)}[channels]
    wanted = colours if order == "rgb" or channels == 1 else (*colours[2::-1], *colours[3:])
    assert (target[outside] == np.array(wanted, np.uint8)).all()


def luma_of(frame: VideoFrame, crop: tuple[int, int, int, int]) -> Any:
    y = frame.rows(0).astype(np.float64)
    if len(frame.planes) == 1:
        y = y[:, frame.format.name.index("Y") :: 2][:, : frame.width]
    if frame.colour_range is ColourRange.LIMITED:
        y = np.clip((y - 16) * 255 / 219, 0, 255)
    return y[crop[1] : crop[3], crop[0] : crop[2], None]


def test_agrees_with_the_formula_in_floats() -> None:
    for number in range(SIZES):
        check_one(number)


@pytest.mark.skipif(nativelib.find() is None, reason="no native library: there is nothing to compare")
def test_the_native_kernel_gives_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(nativelib.ENVIRONMENT, "auto")
    for number in range(SIZES):
        random = np.random.default_rng(20_000 + number)
        pixel_format = FORMATS[number % len(FORMATS)]
        # Some sources are wider than a window of the table instruction holds, and some targets narrower than a block.
        width, height = int(random.integers(1, 700)), int(random.integers(1, 90))
        details = {"colour_space": list(ColourSpace)[number % 3], "colour_range": list(ColourRange)[number // 3 % 2]}
        frame = random_frame(random, pixel_format, width, height, **details)
        shape = int(random.integers(1, 300)), int(random.integers(1, 120)), int(random.choice((1, 3, 4)))
        fast, slow = target_of(random, *shape), np.zeros((shape[1], shape[0], shape[2]), np.uint8)
        crop, place = random_box(random, width, height), random_box(random, *shape[:2])
        how: dict[str, Any] = {"crop": crop, "place": place, "order": "bgr" if number % 2 else "rgb"}
        before = fast.base.copy()
        assert convert(frame, fast, **how).converter == "native"
        with monkeypatch.context() as patched:
            patched.setenv(nativelib.ENVIRONMENT, "numpy")
            assert convert(frame, slow, **how).converter == "numpy"
        assert (fast == slow).all(), (number, pixel_format, shape, crop, place)
        row_bytes = shape[0] * shape[2]
        assert (fast.base[:, row_bytes:] == before[:, row_bytes:]).all(), "it wrote into the padding"


CODES = {
    PixelFormat.NV12: cv2.COLOR_YUV2RGB_NV12,
    PixelFormat.NV21: cv2.COLOR_YUV2RGB_NV21,
    PixelFormat.I420: cv2.COLOR_YUV2RGB_I420,
    PixelFormat.YUYV: cv2.COLOR_YUV2RGB_YUYV,
    PixelFormat.UYVY: cv2.COLOR_YUV2RGB_UYVY,
    PixelFormat.BGR: cv2.COLOR_BGR2RGB,
    PixelFormat.BGRA: cv2.COLOR_BGRA2RGB,
}


def by_opencv(frame: VideoFrame, size: tuple[int, int], crop: tuple[int, int, int, int]) -> Any:
    rows = [np.ascontiguousarray(frame.rows(number)) for number in range(len(frame.planes))]
    height, width = frame.height, frame.width
    if len(rows) == 1:
        source = rows[0].reshape(height, width, -1)
    else:
        source = np.concatenate([part.reshape(-1, width) for part in rows])
    colours = cv2.cvtColor(source, CODES[frame.format])
    return cv2.resize(colours[crop[1] : crop[3], crop[0] : crop[2]], size, interpolation=cv2.INTER_LINEAR)


def test_agrees_with_opencv() -> None:
    for number in range(SIZES):
        random = np.random.default_rng(10_000 + number)
        pixel_format = list(CODES)[number % len(CODES)]
        width, height = (2 * int(random.integers(1, 200)) for _ in range(2))
        if pixel_format is PixelFormat.I420:
            height = 4 * (height // 4 + 1)  # OpenCV wants whole rows of chroma
        frame = random_frame(random, pixel_format, width, height)
        target = target_of(random, int(random.integers(1, 300)), int(random.integers(1, 300)), 3)
        crop = random_box(random, width, height)
        convert(frame, target, crop=crop)
        wanted = by_opencv(frame, (target.shape[1], target.shape[0]), crop)
        assert np.abs(target.astype(int) - wanted).max() <= 1, (number, pixel_format, crop, target.shape)


def test_a_copy_keeps_the_bytes() -> None:
    frame = random_frame(np.random.default_rng(1), PixelFormat.RGB, 33, 17)
    target = np.zeros((17, 33, 3), np.uint8)
    convert(frame, target)
    assert (target.reshape(17, -1) == frame.rows(0)).all()


def test_a_frame_as_target_says_its_order() -> None:
    frame = random_frame(np.random.default_rng(2), PixelFormat.NV12, 32, 16)
    plain = np.zeros((16, 32, 3), np.uint8)
    convert(frame, plain)
    memory = np.zeros(16 * 128, np.uint8)
    convert(frame, VideoFrame.of_bytes(PixelFormat.BGR, 32, 16, memory, strides=[128]))
    assert (memory.reshape(16, 128)[:, :96].reshape(16, 32, 3) == plain[..., ::-1]).all()
    with pytest.raises(FrameError, match="not NV12"):
        convert(frame, random_frame(np.random.default_rng(2), PixelFormat.NV12, 32, 16))


def test_the_boxes_of_each_fit() -> None:
    assert boxes_for(1920, 1080, 640, 640, "letterbox") == ((0, 0, 1920, 1080), (0, 140, 640, 500))
    assert boxes_for(1920, 1080, 224, 224, "crop") == ((420, 0, 1500, 1080), (0, 0, 224, 224))
    assert boxes_for(200, 50, 320, 48, "line") == ((0, 0, 200, 50), (0, 0, 192, 48))
    assert boxes_for(5, 7, 3, 2, "stretch") == ((0, 0, 5, 7), (0, 0, 3, 2))
    for width, height in ((1, 1), (1, 1000), (999, 3), (641, 479)):
        crop, place = boxes_for(width, height, 64, 48, "crop")
        convert(random_frame(np.random.default_rng(3), PixelFormat.NV12, width, height),
                np.zeros((48, 64, 3), np.uint8), crop=crop, place=place)  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"crop": (0, 0, 41, 10)}, "crop=.* is not inside of 40x30"),
        ({"place": (0, 5, 20, 5)}, "place=.* is not inside of 20x10"),
        ({"place": (-1, 0, 5, 5)}, "place=.* is not inside"),
        ({"crop": (0.5, 0, 4, 4)}, "whole pixels"),
        ({"fill": 256}, "from 0 to 255"),
        ({"fill": (1, 2)}, "from 0 to 255"),
        ({"order": "grb"}, "order='grb'"),
    ],
)
def test_refuses_what_does_not_fit(changes: dict[str, Any], words: str) -> None:
    frame = random_frame(np.random.default_rng(4), PixelFormat.NV12, 40, 30)
    with pytest.raises(PixelsError, match=words):
        convert(frame, np.zeros((10, 20, 3), np.uint8), **changes)


@pytest.mark.parametrize(
    "target",
    [
        np.zeros((4, 4, 3), np.float32),
        np.zeros((4, 4), np.uint8),
        np.zeros((4, 4, 2), np.uint8),
        np.zeros((4, 4, 6), np.uint8)[..., ::2],
        np.zeros((4, 8, 3), np.uint8)[:, ::2],
        np.zeros((4, 4, 3), np.uint8)[::-1],
    ],
)
def test_refuses_targets_that_are_no_rows_of_pixels(target: Any) -> None:
    frame = random_frame(np.random.default_rng(5), PixelFormat.NV12, 40, 30)
    with pytest.raises(PixelsError):
        convert(frame, target)
