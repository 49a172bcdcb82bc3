"""GStreamer, PyAV, ffmpeg and OpenCV give the same frames of the same file, and name what goes wrong."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from openrknn.video import PixelFormat, convert
from openrknn.video.errors import SourceError
from openrknn.video.frame import Bytes, VideoFrame
from openrknn.video.sources import Newest, open_source
from openrknn.video.sources.gst_library import library
from openrknn.video.sources.problems import network_reason

FFMPEG = shutil.which("ffmpeg")
needs_ffmpeg = pytest.mark.skipif(FFMPEG is None, reason="ffmpeg is not installed")


def has_gstreamer() -> bool:
    """Its libraries and its basic elements."""
    try:
        factory = library().gst_element_factory_find(b"videotestsrc")
    except SourceError:
        return False
    return bool(factory)


needs_gstreamer = pytest.mark.skipif(not has_gstreamer(), reason="GStreamer is not installed")


def rgb(frame: VideoFrame) -> Bytes:
    with frame:
        target = np.empty((frame.height, frame.width, 3), np.uint8)
        convert(frame, target)
    return target


def read_all(place: str) -> int:
    """How many frames there are."""
    with open_source(place) as source:
        return len([frame.number for frame in source])


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six frames of H.264, each in one grey; odd numbers of chroma rows."""
    if FFMPEG is None:
        pytest.skip("ffmpeg is not installed")
    folder = tmp_path_factory.mktemp("clip")
    raw = b"".join(bytes([60 + 20 * number]) * (98 * 54) + b"\x80" * (98 * 54 // 2) for number in range(6))
    command = [FFMPEG, "-loglevel", "error", "-f", "rawvideo", "-pix_fmt", "yuv420p", "-s", "98x54", "-r", "10"]
    command += ["-i", "-", "-c:v", "mpeg4", "-q:v", "2", str(folder / "clip.mp4")]
    subprocess.run(command, input=raw, check=True)
    return folder / "clip.mp4"


def backends() -> list[str]:
    return ["pyav", "ffmpeg", "opencv", "gst"]


@pytest.mark.parametrize("backend", backends())
def test_every_decoder_gives_the_frames_of_a_file(clip: Path, backend: str) -> None:
    if backend == "pyav":
        pytest.importorskip("av", reason="PyAV is not installed")
    elif backend == "opencv":
        pytest.importorskip("cv2", reason="OpenCV is not installed")
    elif backend == "gst" and not has_gstreamer():
        pytest.skip("GStreamer is not installed")
    place = f"gst:filesrc location={clip} ! decodebin" if backend == "gst" else f"{backend}:{clip}"
    with open_source(place) as source:
        frames = [(frame.format, frame.copies, frame.rows(0).shape, frame.number, rgb(frame)) for frame in source]
    assert [frame[3] for frame in frames] == list(range(6))
    levels = [float(frame[4].mean()) for frame in frames]
    assert levels == pytest.approx([(44 + 20 * number) * 255 / 219 for number in range(6)], abs=3)
    copies = {"pyav": 0, "ffmpeg": 2, "opencv": 2, "gst": 0}[backend]
    assert {frame[1] for frame in frames} == {copies}
    kind = PixelFormat.BGR if backend == "opencv" else PixelFormat.I420
    assert {frame[0] for frame in frames} == {kind}
    assert backend.removeprefix("gst") in source.decoder.lower()
    assert source.dropped == 0


@needs_gstreamer
@pytest.mark.parametrize("name", ["NV12", "I420", "Y42B", "YUY2", "RGB", "GRAY8", "BGRA"])
def test_pipelines_keep_their_format_and_odd_sizes(name: str) -> None:
    caps = f"video/x-raw,format={name},width=33,height=17"
    with open_source(f"gst:videotestsrc num-buffers=3 pattern=red ! {caps}") as source:
        pixels = [rgb(frame) for frame in source]
    assert [picture.shape for picture in pixels] == [(17, 33, 3)] * 3
    middle = pixels[1][8, 16].astype(int)
    assert (middle[0] > 200 and middle[2] < 40) or (name == "GRAY8" and middle[0] == middle[2])
    assert source.decoder == "no decoder (GStreamer)"
    assert not source.is_live


@needs_gstreamer
def test_a_frame_outlives_its_pipeline() -> None:
    caps = "video/x-raw,format=NV12,width=32,height=16"
    with open_source(f"gst:videotestsrc num-buffers=2 pattern=white ! {caps}") as source:
        frame = source.read()
    assert frame is not None
    assert rgb(frame).min() > 230


@needs_gstreamer
def test_a_live_pipeline_is_recognised_and_ends_cleanly() -> None:
    source = open_source("gst:videotestsrc is-live=true ! video/x-raw,width=32,height=16,framerate=60/1")
    with Newest(source) as newest:
        frame = newest.read()
        assert frame is not None
        frame.release()
    assert newest.is_live


@needs_gstreamer
@pytest.mark.parametrize(
    ("pipeline", "message"),
    [
        ("nonsense", 'no element "nonsense"'),
        ("videotestsrc ! appsink", "leave out the appsink"),
        ("filesrc location=/nowhere.mp4 ! decodebin", "no such file|cannot be read|Could not"),
        ("videotestsrc num-buffers=0", "ended without a frame"),
        ("videotestsrc num-buffers=1 ! video/x-raw,format=AYUV64", "can't handle caps"),
    ],
)
def test_a_pipeline_that_fails_is_named(pipeline: str, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        read_all(f"gst:{pipeline}")


@pytest.fixture
def refusing() -> str:
    """An address whose port is closed."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"rtsp://127.0.0.1:{server.getsockname()[1]}/live"
    return address


def answering(status: bytes) -> tuple[str, threading.Thread]:
    """An RTSP server that answers every request of one connection in the same way."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with server:
            connection, _ = server.accept()
            with connection:
                while data := connection.recv(4096):
                    for line in data.decode(errors="replace").splitlines():
                        if line.lower().startswith("cseq"):
                            answer = b"RTSP/1.0 " + status + b"\r\n" + line.encode() + b"\r\n"
                            answer += b'WWW-Authenticate: Basic realm="camera"\r\n' if status[:3] == b"401" else b""
                            connection.sendall(answer + b"\r\n")

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    return f"rtsp://127.0.0.1:{server.getsockname()[1]}/live", thread


@pytest.mark.parametrize("backend", ["pyav", "ffmpeg"])
@pytest.mark.parametrize(("status", "message"), [(b"401 Unauthorized", "(401)"), (b"404 Not Found", "(404)")])
def test_what_an_rtsp_server_answers_is_named(backend: str, status: bytes, message: str) -> None:
    if backend == "pyav":
        pytest.importorskip("av", reason="PyAV is not installed")
    elif FFMPEG is None:
        pytest.skip("ffmpeg is not installed")
    address, thread = answering(status)
    with pytest.raises(SourceError) as caught:
        read_all(f"{backend}:{address}")
    assert message in str(caught.value)
    thread.join(10)


@pytest.mark.parametrize("backend", ["pyav", "ffmpeg"])
def test_a_refused_connection_is_named(refusing: str, backend: str) -> None:
    if backend == "pyav":
        pytest.importorskip("av", reason="PyAV is not installed")
    elif FFMPEG is None:
        pytest.skip("ffmpeg is not installed")
    with pytest.raises(SourceError, match="refused"):
        read_all(f"{backend}:{refusing}")


def test_passwords_do_not_reach_messages() -> None:
    assert "secret" not in network_reason("rtsp://user:secret@host/x: strange problem 17")
    assert "strange problem" in network_reason("rtsp://user:secret@host/x: strange problem 17")


def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clip = tmp_path / "a.mp4"
    clip.write_bytes(b"no video")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SourceError, match="the program ffmpeg is not here"):
        open_source(f"ffmpeg:{clip}")
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(SourceError, match="no decoder for videos is installed"):
        open_source(f"opencv:{clip}")


@needs_ffmpeg
@pytest.mark.parametrize("backend", ["pyav", "ffmpeg"])
def test_a_file_that_is_no_video_is_named(tmp_path: Path, backend: str) -> None:
    if backend == "pyav":
        pytest.importorskip("av", reason="PyAV is not installed")
    clip = tmp_path / "a.mp4"
    clip.write_bytes(b"this is no video at all" * 10)
    with pytest.raises(SourceError, match=r"no video that the decoder knows|moov atom"):
        read_all(f"{backend}:{clip}")
