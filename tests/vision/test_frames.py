"""Frames of a video through a pipeline: the same answers as pictures, one conversion, and memory that is released."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from openrknn.fakekernel.camera import CameraSpec
from openrknn.fakekernel.device import Device
from openrknn.fakekernel.launch import prepare
from openrknn.runtime.pool import SessionPool
from openrknn.video import PixelFormat, VideoFrame, boxes_for, convert
from openrknn.video.sources import VideoSource
from openrknn.vision.pipeline import Pipeline, Runner
from openrknn.vision.results import Areas
from tests.cli.run import run
from tests.container.places import golden

pytest.importorskip("PIL.Image", reason="the extra 'images' (Pillow) is not installed")
SMALL = golden("image_rk3588_i8")  # 16x16 pixels in, 16 classes per pixel out
SECONDS = 120


def frame(number: int = 0, width: int = 50, height: int = 40, **details: Any) -> VideoFrame:
    memory = np.random.default_rng(number).integers(0, 256, width * height * 3 // 2, np.uint8)
    return VideoFrame.of_bytes(PixelFormat.NV12, width, height, memory, number=number, **details)


def areas(result: Any) -> Any:
    assert isinstance(result.found, Areas)
    return result.found.classes


@pytest.mark.parametrize("own", [True, False])
def test_a_frame_gives_what_its_converted_pixels_give(own: bool) -> None:
    source = frame(3, copies=2)
    crop, place = boxes_for(50, 40, 16, 16, "letterbox")
    ready = np.empty((1, 16, 16, 3), np.uint8)
    convert(source, ready[0], crop=crop, place=place)
    with SessionPool(SMALL, 1) as pool, Pipeline(SMALL, pool=None if own else cast("Runner", pool)) as pipeline:
        expected = pool.run({pipeline.model.inputs[0].name: ready}, layout="nhwc", outputs="raw")
        result = pipeline(source)
        # A picture of 16x16 takes the way of pictures, and has to come out the same.
        same = pipeline(ready[0])
    assert result.copies == 3
    assert result.converter in ("numpy", "native")
    assert result.size == (50, 40)
    wanted = areas(same)
    rows = ((np.arange(40) + 0.5) * (place[3] - place[1]) / 40 + place[1]).astype(int)
    columns = ((np.arange(50) + 0.5) * (place[2] - place[0]) / 50 + place[0]).astype(int)
    assert np.array_equal(areas(result), wanted[rows[:, None], columns])
    assert expected


def test_pixels_are_made_when_they_are_asked_for_and_then_the_frame_is_released() -> None:
    released: list[int] = []
    source = frame(release=lambda: released.append(1))
    with Pipeline(SMALL) as pipeline:
        result = pipeline(source)
    assert released == []
    pixels = result.pixels
    assert pixels is not None
    assert pixels.shape == (40, 50, 3)
    assert released == [1]
    assert result.pixels is pixels
    assert result.annotated().size[0] >= 50


def test_a_result_that_is_dropped_releases_its_frame() -> None:
    released: list[int] = []
    with Pipeline(SMALL) as pipeline:
        pipeline(frame(release=lambda: released.append(1)))
        assert released == [1]


def test_a_video_is_streamed_in_order_and_nothing_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "clip.bin"
    path.write_bytes(b"".join(bytes([number]) * 96 for number in range(30)))
    opened: list[VideoSource] = []
    with Pipeline(SMALL, workers=2) as pipeline:
        results = list(pipeline.stream(f"raw:nv12:8x8:{path}", opened.append))
    assert [result.name[-7:] for result in results] == [f"#{number:06}" for number in range(30)]
    assert {result.copies for result in results} == {1}
    assert [source.dropped for source in opened] == [0]
    assert all(result.pixels is not None for result in results)


def test_stats_show_times_copies_and_decoder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "clip.bin"
    path.write_bytes(bytes(96 * 4))
    words = ("stream", SMALL, f"raw:nv12:8x8:{path}", "--exit", "--port", "0", "--stats")
    shown = run(capsys, *words)
    assert shown.code == 0, shown.err
    for text in ("capture or decode", "scale and convert", "NPU", "1 per frame", "none (raw frames)", "0 dropped"):
        assert text in shown.out
    report = json.loads(run(capsys, *words, "--json").out)["stats"]
    assert report["frames"] == 4
    assert report["copies_per_frame"] == 1
    assert set(report["seconds_per_frame"]) == {"capture", "convert", "npu", "decode", "draw"}
    assert report["decoders"] == ["none (raw frames)"]


def test_a_camera_of_the_emulated_board_goes_through_a_pipeline() -> None:
    # On the NPU of the board: the camera's buffers and the NPU's input are dma-bufs, and RGA converts between them.
    spec = CameraSpec(64, 48, "NV12", fps=0)
    with Device("rk3588", camera=spec) as device:
        words = [sys.executable, "-m", "openrknn", "stream", str(SMALL), "0", "--count", "5"]
        words += ["--port", "0", "--device", "rknpu"]
        command = prepare([*words, "--stats", "--json"], device.environment, device.folder)
        done = subprocess.run(
            command.arguments, executable=command.path, env=dict(command.environment),
            capture_output=True, text=True, timeout=SECONDS, check=False, cwd=os.getcwd(),
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)["stats"]
    assert report["frames"] == 5
    assert report["converters"] == {"rga": 5}
    assert report["copies_per_frame"] == 0
    assert report["decoders"] == ["V4L2 camera (openrknn, NV12 64x48)"]
