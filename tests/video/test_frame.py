"""A frame says where its pixels are, and refuses what does not fit together."""

from __future__ import annotations

import numpy as np
import pytest

from openrknn.video import FrameError, PixelFormat, Plane, VideoFrame


def test_the_planes_of_nv12_follow_each_other() -> None:
    memory = np.arange(8 * 6 * 2, dtype=np.uint8)
    frame = VideoFrame.of_bytes(PixelFormat.NV12, 5, 3, memory, strides=[8, 8])
    assert [plane.offset for plane in frame.planes] == [0, 24]
    assert frame.rows(0).tolist() == [[0, 1, 2, 3, 4], [8, 9, 10, 11, 12], [16, 17, 18, 19, 20]]
    # Three columns and two rows of chroma: odd sizes are rounded up.
    assert frame.rows(1).shape == (2, 6)
    assert np.shares_memory(frame.rows(1), memory)


@pytest.mark.parametrize("pixel_format", list(PixelFormat))
def test_every_format_refuses_a_buffer_that_is_one_byte_short(pixel_format: PixelFormat) -> None:
    size = sum(layout.rows(7) * layout.row_bytes(9) for layout in pixel_format.planes)
    assert VideoFrame.of_bytes(pixel_format, 9, 7, np.zeros(size, np.uint8)).rows(0).any() == 0
    with pytest.raises(FrameError, match=f"ends at byte {size}, its buffer at {size - 1}"):
        VideoFrame.of_bytes(pixel_format, 9, 7, np.zeros(size - 1, np.uint8))


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(FrameError, match="a row has 4"):
        VideoFrame.of_bytes(PixelFormat.GRAY, 4, 4, np.zeros(64, np.uint8), strides=[3])
    with pytest.raises(FrameError, match="neither memory nor a descriptor"):
        VideoFrame(PixelFormat.GRAY, 4, 4, [Plane(0, 4)])
    with pytest.raises(FrameError, match="not mapped"):
        VideoFrame(PixelFormat.GRAY, 4, 4, [Plane(0, 4, descriptor=3)]).rows(0)
    with pytest.raises(FrameError, match="pixels"):
        VideoFrame.of_bytes(PixelFormat.GRAY, 0, 4, np.zeros(64, np.uint8))


def test_memory_is_given_back_once() -> None:
    given: list[int] = []
    with VideoFrame.of_bytes(PixelFormat.GRAY, 2, 2, np.zeros(4, np.uint8), release=lambda: given.append(1)) as frame:
        pass
    frame.release()
    assert given == [1]
