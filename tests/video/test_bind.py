"""Frames that need no conversion as inputs of a session: the dma-buf itself, with the stride that the NPU reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from openrknn import DmaBuf, Session
from openrknn.video import FrameError, PixelFormat, convert
from tests.video.images import dma_frame, random_frame

MODEL = Path(__file__).resolve().parents[1] / "goldens" / "image_rk3588_i8.rknn"


def test_a_frame_is_bound_as_it_lies() -> None:
    random = np.random.default_rng(0)
    frame = dma_frame(PixelFormat.RGB, 16, 16, 48)
    convert(random_frame(random, PixelFormat.NV12, 64, 48), frame)
    with Session(MODEL, "software") as session:
        plain = session.bind()
        plain.inputs["image"][0] = frame.rows(0).reshape(16, 16, 3)
        plain.run()
        bound = session.bind(inputs={"image": frame})
        bound.run()
        assert (bound.outputs["features"] == plain.outputs["features"]).all()
        assert plain.outputs["features"].any()


def test_what_cannot_be_bound_says_what_to_do() -> None:
    with Session(MODEL, "software") as session:
        with pytest.raises(ValueError, match=r"rows of this memory are 64 bytes apart.*a stride of 48"):
            session.bind(inputs={"image": dma_frame(PixelFormat.RGB, 16, 16, 64)})
        with pytest.raises(ValueError, match=r"32x16 pixels with 3 channels.*\[1, 16, 16, 3\]"):
            session.bind(inputs={"image": dma_frame(PixelFormat.RGB, 32, 16, 96)})
        with pytest.raises(ValueError, match=r"16x16 pixels with 4 channels"):
            session.bind(inputs={"image": dma_frame(PixelFormat.RGBA, 16, 16, 64)})
        with pytest.raises(FrameError, match="the NPU reads no NV12"):
            session.bind(inputs={"image": dma_frame(PixelFormat.NV12, 16, 16, 16)})
        with pytest.raises(FrameError, match="ordinary memory"):
            session.bind(inputs={"image": random_frame(np.random.default_rng(0), PixelFormat.RGB, 16, 16)})
        descriptor = dma_frame(PixelFormat.RGB, 16, 16, 48).planes[0].descriptor
        with pytest.raises(ValueError, match="a stride of 48"):
            session.bind(inputs={"image": DmaBuf(descriptor, stride=96)})
