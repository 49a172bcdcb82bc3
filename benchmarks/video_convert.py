"""CPU time of one 1080p frame to a model's input: `openrknn.video.convert` and OpenCV's three steps, in one run.

    python benchmarks/video_convert.py

Prints milliseconds of CPU time on one thread, best of many, the two interleaved, and the largest difference of their
results. OpenCV does what most programs do: cvtColor of the whole frame, resize, copyMakeBorder.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np

from openrknn.video import PixelFormat, VideoFrame, boxes_for, convert

WIDTH, HEIGHT = 1920, 1080
REPEATS = 60


def frame_of(random: np.random.Generator, stride: int) -> VideoFrame:
    """Noise as NV12, with the stride of a decoder."""
    memory = random.integers(0, 256, HEIGHT * stride * 3 // 2, np.uint8)
    return VideoFrame.of_bytes(PixelFormat.NV12, WIDTH, HEIGHT, memory, strides=[stride, stride])


def seconds(work: Callable[[], Any]) -> float:
    """CPU time of one call."""
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> None:
    """Measure each size of input."""
    cv2.setNumThreads(1)
    frame = frame_of(np.random.default_rng(0), 1920)
    luma, chroma = frame.rows(0), frame.rows(1).reshape(HEIGHT // 2, WIDTH // 2, 2)
    print("input      openrknn    OpenCV    difference")
    for size in (224, 320, 640, 1280):
        target = np.zeros((size, size, 3), np.uint8)
        crop, place = boxes_for(WIDTH, HEIGHT, size, size, "letterbox")
        left, top, right, bottom = place

        def ours() -> None:
            convert(frame, target, crop=crop, place=place)  # noqa: B023

        def theirs() -> Any:
            colours = cv2.cvtColorTwoPlane(luma, chroma, cv2.COLOR_YUV2RGB_NV12)
            scaled = cv2.resize(colours, (right - left, bottom - top), interpolation=cv2.INTER_LINEAR)  # noqa: B023
            borders = (top, size - bottom, left, size - right)  # noqa: B023
            return cv2.copyMakeBorder(scaled, *borders, cv2.BORDER_CONSTANT, value=(114, 114, 114))

        pairs = [(seconds(ours), seconds(theirs)) for _ in range(REPEATS)]
        best = [1e3 * min(times) for times in zip(*pairs, strict=True)]
        difference = int(np.abs(target.astype(int) - theirs()).max())
        print(f"{size:4d}x{size:<4d}  {best[0]:5.2f} ms  {best[1]:5.2f} ms    {difference}")


if __name__ == "__main__":
    main()
