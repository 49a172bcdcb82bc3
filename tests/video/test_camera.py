"""A camera through ioctl, mmap, poll and dma-bufs, on the emulated board."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import numpy as np
import pytest

from openrknn.fakekernel.camera import CameraSpec, pattern
from openrknn.fakekernel.device import Device
from openrknn.fakekernel.launch import prepare
from openrknn.uapi import v4l2
from openrknn.video.errors import SourceError
from openrknn.video.sources import is_live_place, is_video_place, open_source
from openrknn.video.sources.v4l2_format import FORMATS, layout_of, preferred

SECONDS = 60
READ = """
import json, os, sys
import numpy as np
from openrknn.video.errors import SourceError
from openrknn.video.sources import open_source
place, count, held, frames = sys.argv[1], int(sys.argv[2]), [], []
try:
    with open_source(place) as source:
        for number in range(count):
            frame = source.read()
            plane = frame.planes[0]
            seen = os.pread(plane.descriptor, 8, plane.offset).hex() if plane.descriptor >= 0 else None
            frames.append([frame.number, frame.copies, frame.format.value, seen, frame.rows(0)[0, :8].tobytes().hex(),
                           [row.tobytes().hex() for row in frame.rows(len(frame.planes) - 1)[-1:]]])
            held.append(frame) if "keep" in sys.argv else frame.release()
        again = [frame.rows(0)[0, :8].tobytes().hex() for frame in held]
        out = {"decoder": source.decoder, "frames": frames, "dropped": source.dropped, "again": again,
               "notes": source.notes}
except SourceError as error:
    out = {"problem": str(error), "frames": frames}
print(json.dumps(out))
"""


def on_board(device: Device, *words: str) -> dict[str, Any]:
    """What a program on the board sees of the camera."""
    command = prepare([sys.executable, "-c", READ, *words], device.environment, device.folder)
    done = subprocess.run(
        command.arguments, executable=command.path, env=dict(command.environment), capture_output=True, text=True,
        timeout=SECONDS, check=False,
    )  # fmt: skip
    assert not done.stderr, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def board() -> Iterator[Device]:
    """One board; tests put the camera that they need into it."""
    with Device("rk3588", camera=CameraSpec(fps=0)) as device:
        yield device


def plug(board: Device, spec: CameraSpec) -> None:
    """Another camera behind the same node."""
    assert board.camera is not None
    board.camera.plug_in(spec)


@pytest.mark.parametrize("name", ["NV12", "NM12", "YUYV"])
def test_frames_are_the_drivers_buffers_and_their_descriptors_show_the_same_bytes(board: Device, name: str) -> None:
    spec = CameraSpec(100, 50, name, fps=0)
    plug(board, spec)
    found = on_board(board, "0", "9")
    assert found["decoder"] == f"V4L2 camera (openrknn, {name} 100x50)"
    assert [frame[0] for frame in found["frames"]] == list(range(9))
    for number, (_, copies, kind, through_descriptor, mapped, last_row) in enumerate(found["frames"]):
        data = pattern(spec, number)
        assert copies == 0
        assert kind == ("yuyv" if name == "YUYV" else "nv12")
        assert through_descriptor == mapped == data[:8].hex()
        assert last_row == [data[-(200 if name == "YUYV" else 100) :].hex()]
    assert (found["dropped"], found["notes"]) == (0, [])


def test_a_reader_that_keeps_frames_gets_copies_and_never_stops_the_camera(board: Device) -> None:
    spec = CameraSpec(64, 8, fps=0)
    plug(board, spec)
    found = on_board(board, "/dev/video0", "9", "keep")
    assert [frame[1] for frame in found["frames"]] == [0, 0, 0, 0, 1, 1, 1, 1, 1]
    assert found["again"] == [pattern(spec, number)[:8].hex() for number in range(9)]


def test_frames_that_the_camera_had_no_buffer_for_are_counted(board: Device) -> None:
    spec = CameraSpec(64, 8, fps=0)
    plug(board, spec)
    camera = board.camera
    assert camera is not None
    fill = camera._fill

    def skipping(queue: Any) -> None:
        if queue.next_number % 3 == 2:
            queue.next_number += 1
        fill(queue)

    camera._fill = skipping  # type: ignore[method-assign]
    try:
        found = on_board(board, "0", "6")
    finally:
        del camera._fill
    assert [frame[0] for frame in found["frames"]] == [0, 1, 3, 4, 6, 7]
    assert found["dropped"] == 2


def test_a_camera_with_a_clock_delivers(board: Device) -> None:
    plug(board, CameraSpec(64, 8, fps=500))
    found = on_board(board, "0?size=64x8&fps=100&format=nv12", "5")
    assert len(found["frames"]) == 5
    assert "100 frames per second were asked for" in found["notes"][0]


def test_motion_jpeg_of_a_camera_is_decoded(board: Device) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    data = BytesIO()
    image.fromarray(np.full((48, 64, 3), 90, np.uint8)).save(data, "jpeg", quality=95)
    plug(board, CameraSpec(64, 48, "MJPG", fps=0, frames=[data.getvalue(), data.getvalue()[:-9]]))
    found = on_board(board, "0", "2")
    assert len(found["frames"]) == 1
    assert "has no end; the recording is truncated" in found["problem"]
    assert found["frames"][0][4] in ("5a" * 8, "5b" * 8, "59" * 8)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (CameraSpec(64, 48, announced_stride=3), "announces rows of 3 bytes for NV12 64x48; a row has 64"),
        (CameraSpec(64, 48, announced_stride=1 << 30), "announces rows of 1073741824 bytes"),
        (CameraSpec(64, 48, announced_stride=1 << 19), "the driver contradicts itself"),
        (CameraSpec(64, 48, "NM12", announced_stride=63), "announces rows of 63 bytes"),
        (CameraSpec(64, 48, refusal=errno.EACCES), "no permission; join the group `video`"),
        (CameraSpec(64, 48, refusal=errno.EBUSY), "in use by another program"),
        (CameraSpec(64, 48, refusal=errno.ENODEV), "the camera is gone"),
    ],
)
def test_a_camera_that_is_broken_or_refuses_is_named(board: Device, spec: CameraSpec, message: str) -> None:
    plug(board, spec)
    assert message in on_board(board, "0", "1")["problem"]


def test_unplugging_wakes_the_reader() -> None:
    # The camera is asked for a buffer after the third frame, and pulls its own cable then.
    with Device("rk3588", camera=CameraSpec(64, 8, fps=0)) as device:
        camera = device.camera
        assert camera is not None
        fill = camera._fill

        def filling(queue: Any) -> None:
            fill(queue)
            if queue.next_number == 8:
                camera._is_gone = True

        camera._fill = filling  # type: ignore[method-assign]
        found = on_board(device, "0", "20")
    assert "the camera is gone; was it unplugged?" in found["problem"]


def test_a_second_program_finds_the_camera_busy(board: Device) -> None:
    plug(board, CameraSpec(64, 8, fps=0))
    camera = board.camera
    assert camera is not None
    # Another file has the buffers: what REQBUFS of a program leaves behind.
    from openrknn.fakekernel.camera import _Queue

    camera._queue = _Queue(file=None, buffers=[])  # type: ignore[arg-type]
    found = on_board(board, "0", "1")
    camera._queue = None
    assert "in use by another program" in found["problem"]


def test_what_is_no_camera_is_named(tmp_path: Any) -> None:
    with pytest.raises(SourceError, match="no such camera"):
        open_source("987")
    with pytest.raises(SourceError, match="not a V4L2 device"):
        open_source("/dev/null")
    with pytest.raises(SourceError, match="options of a camera"):
        open_source("0?speed=3")
    with pytest.raises(SourceError, match="options of a camera"):
        open_source("0?size=3")


def test_places_are_recognised_by_their_form() -> None:
    live = ("0", "/dev/video2", "rtsp://a/b", "opencv:0", "0?size=64x8", "pyav:rtsp://a/b")
    assert [word for word in live if not (is_live_place(word) and is_video_place(word))] == []
    files = ("-", "gst:videotestsrc", "raw:nv12:2x2:-", "a.y4m", "B.MP4", "ffmpeg:a.mp4")
    assert [word for word in files if is_live_place(word) or not is_video_place(word)] == []
    assert not is_video_place("picture.png")
    assert os.path.exists("/dev/null")


def test_formats_are_chosen_by_preference_or_wish() -> None:
    offered = [v4l2.fourcc(name) for name in ("MJPG", "YUYV", "pRAA")]
    assert preferred(offered, None) == v4l2.fourcc("YUYV")
    assert preferred(offered, "mjpeg") == v4l2.fourcc("MJPG")
    assert preferred(offered, "nv12") is None
    assert preferred(offered[2:], None) is None


@pytest.mark.parametrize("number", [number for number, kind in FORMATS.items() if kind is not None])
def test_every_format_has_room_for_its_rows(number: int) -> None:
    values = {"pixelformat": number, "width": 34, "height": 6, "bytesperline": 0, "quantization": 0, "ycbcr_enc": 0}
    values |= {"num_planes": 2, "bytesperline0": 40, "bytesperline1": 40}
    is_single = v4l2.fourcc_text(number) != "NM12"
    layout = layout_of("x", values, is_single=is_single)
    assert layout.format is not None
    for (_, _, stride), plane in zip(layout.places, layout.format.planes, strict=True):
        assert stride == (plane.row_bytes(34) if is_single else 40)
