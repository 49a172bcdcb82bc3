"""Y4M, raw frames and Motion JPEG: frames as they are stored, from files and pipes, and damaged ones by name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

from openrknn.pixels.formats import ColourRange
from openrknn.video import PixelFormat, VideoFrame
from openrknn.video.errors import SourceError
from openrknn.video.sources import Newest, VideoSource, open_source
from openrknn.video.sources.jpeg import end_of_jpeg
from openrknn.video.sources.streams import ByteReader, Y4mSource

Image = pytest.importorskip("PIL.Image", reason="the extra 'images' (Pillow) is not installed")
WIDTH, HEIGHT = 7, 5
LUMA, CHROMA = WIDTH * HEIGHT, 4 * 3


def y4m(frames: int, header: bytes = b"YUV4MPEG2 W7 H5 F25:1 C420jpeg", chroma: int = 2 * CHROMA) -> bytes:
    """Frames whose bytes are their position, plus the frame's number."""
    body = [(np.arange(LUMA + chroma) + number).astype(np.uint8).tobytes() for number in range(frames)]
    return header + b"\n" + b"".join(b"FRAME Ixyz\n" + frame for frame in body)


def jpegs(count: int) -> list[bytes]:
    images = []
    for number in range(count):
        data = BytesIO()
        Image.fromarray(np.full((16, 24, 3), 40 * number + 30, np.uint8)).save(data, "jpeg", quality=95)
        images.append(data.getvalue())
    return images


@contextmanager
def piped(data: bytes) -> Iterator[ByteReader]:
    """The data as a pipe gives it, from a child that writes all of it."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(writing, view) :]
        finally:
            os._exit(0)
    os.close(writing)
    reader = ByteReader(reading, "pipe")
    try:
        yield reader
    finally:
        reader.close()
        os.waitpid(child, 0)


def test_frames_of_a_y4m_file_are_views_of_it(tmp_path: Path) -> None:
    path = tmp_path / "a.y4m"
    path.write_bytes(y4m(3))
    with open_source(path) as source:
        frames = list(source)
    assert [(frame.number, round(frame.time, 3)) for frame in frames] == [(0, 0), (1, 0.04), (2, 0.08)]
    assert not any(frame.copies for frame in frames)
    assert frames[2].format is PixelFormat.I420
    assert frames[2].rows(0)[0].tolist() == list(range(2, 9))
    assert frames[2].rows(2)[-1].tolist() == [LUMA + 2 * CHROMA - 4 + at + 2 for at in range(4)]
    assert not source.is_live
    assert source.dropped == 0


def test_a_pipe_is_read_once() -> None:
    with piped(y4m(3)) as reader:
        frames = list(Y4mSource(reader))
    assert [frame.copies for frame in frames] == [1, 1, 1]
    assert frames[1].rows(0)[0, 0] == 1


def test_422_gives_every_second_row_of_chroma_and_mono_gives_none(tmp_path: Path) -> None:
    path = tmp_path / "a.y4m"
    path.write_bytes(y4m(1, b"YUV4MPEG2 W7 H5 F25:1 C422 XCOLORRANGE=FULL", 2 * 4 * 5))
    (frame,) = open_source(path)
    assert frame.rows(1).tolist() == [[LUMA + 4 * row + at for at in range(4)] for row in (0, 2, 4)]
    assert frame.colour_range is ColourRange.FULL
    path.write_bytes(y4m(1, b"YUV4MPEG2 W7 H5 Cmono", 0))
    (frame,) = open_source(path)
    assert frame.format is PixelFormat.GRAY


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (y4m(2)[:-1], "frame 1 has 58 of 59 bytes; the stream is truncated"),
        (y4m(1) + b"FRAME\n", "frame 1 has 0 of 59 bytes"),
        (y4m(1) + b"nonsense\n", "frame 1 begins with b'nonsense' instead of FRAME"),
        (y4m(1) + b"x" * 9000, "a header line does not end"),
        (b"YUV4MPEG2 W7\n", "has H as a size"),
        (b"YUV4MPEG2 W99999 H99999\n", "frames of 99999x99999 pixels"),
        (b"YUV4MPEG2 W-1 H5\n", "has W-1 as a size"),
        (b"YUV4MPEG2 W7 H5 C444\n", "Y4M in 444"),
        (b"YUV4MPEG2 W7 H5 C420p10\n", "Y4M in 420p10"),
        (b"GIF89a and more", "neither Y4M nor JPEG"),
    ],
)
def test_damaged_y4m_is_an_error_with_a_place(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "a.y4m"
    path.write_bytes(data)
    with pytest.raises(SourceError, match=message):
        list(open_source(path))


def test_raw_frames_have_the_size_that_was_said(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(bytes(range(36)) * 2)
    frames = list(open_source(f"raw:nv12:6x4:{path}"))
    assert [(frame.format, frame.width, frame.height) for frame in frames] == [(PixelFormat.NV12, 6, 4)] * 2
    assert frames[1].rows(1).tolist() == [list(range(24, 30)), list(range(30, 36))]
    with pytest.raises(SourceError, match="frame 1 has 32 of 40 bytes"):
        list(open_source(f"raw:gray:8x5:{path}"))
    for bad in ("raw:nv12:6x4", "raw:abc:6x4:-", "raw:nv12:6:-"):
        with pytest.raises(SourceError, match="write raw:FORMAT"):
            open_source(bad)


@pytest.mark.parametrize("has_av", [False, True])
def test_motion_jpeg_is_decoded_image_by_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_av: bool) -> None:
    if has_av:
        pytest.importorskip("av", reason="PyAV is not installed")
    else:
        monkeypatch.setitem(__import__("sys").modules, "av", None)
    path = tmp_path / "a.mjpeg"
    path.write_bytes(b"".join(jpegs(3)))
    with open_source(path) as source:
        frames = list(source)
    assert [(frame.width, frame.height) for frame in frames] == [(24, 16)] * 3
    assert [round(float(frame.rows(0).mean())) for frame in frames] == pytest.approx([30, 70, 110], abs=2)
    assert {frame.format for frame in frames} == {PixelFormat.I420 if has_av else PixelFormat.RGB}
    assert ("PyAV" if has_av else "Pillow") in source.decoder


def test_an_image_ends_where_it_ends_and_not_where_its_thumbnail_does() -> None:
    inner, outer = jpegs(2)
    # A thumbnail inside an APP1 segment has an end marker of its own.
    segment = b"\xff\xe1" + (len(inner) + 2).to_bytes(2, "big") + inner
    image = outer[:2] + segment + outer[2:]
    assert end_of_jpeg(image + b"more", 0, "x") == len(image)
    for cut in range(len(image)):
        assert end_of_jpeg(image[:cut], 0, "x") is None


def test_damaged_motion_jpeg_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.mjpeg"
    whole = jpegs(1)[0]
    for data, message in (
        (whole + whole[:-7], "the last JPEG image has no end"),
        (whole + b"nonsense", "should begin a JPEG image"),
        (b"\xff\xd8\xff\xe0\x00\x01", "a JPEG segment of 1 bytes"),
        (b"\xff\xd8ab\x00\x01", "no JPEG marker"),
    ):
        path.write_bytes(data)
        with pytest.raises(SourceError, match=message):
            list(open_source(path))
    with piped(whole + whole[:-7]) as reader:
        assert reader.jpeg() == whole
        with pytest.raises(SourceError, match="has no end"):
            reader.jpeg()


def test_a_jpeg_that_promises_too_many_pixels_is_not_decoded(tmp_path: Path) -> None:
    whole = bytearray(jpegs(1)[0])
    at = whole.index(b"\xff\xc0")
    whole[at + 5 : at + 9] = b"\xff\xff\xff\xff"
    path = tmp_path / "a.mjpeg"
    path.write_bytes(bytes(whole))
    with pytest.raises(SourceError, match="frames of 65535x65535 pixels"):
        list(open_source(path))


class _Scripted(VideoSource):
    """Frames on demand: each `read` waits until the test allows it."""

    def __init__(self, count: int, error: Exception | None = None) -> None:
        super().__init__("scripted", is_live=True, decoder="none")
        self.left, self.error = count, error
        self.released: list[int] = []
        self.number = 0
        self.is_closed = False

    def read(self) -> VideoFrame | None:
        if self.number == self.left:
            if self.error is not None:
                raise self.error
            return None
        number, self.number = self.number, self.number + 1
        return VideoFrame.of_bytes(
            PixelFormat.GRAY, 2, 1, np.zeros(2, np.uint8), number=number, release=lambda: self.released.append(number)
        )

    def close(self) -> None:
        self.is_closed = True


def test_a_slow_reader_gets_the_newest_frame_and_the_others_are_released_and_counted() -> None:
    source = _Scripted(100)
    with Newest(source) as newest:
        newest._thread.join()  # the source is through before anybody reads
        frame = newest.read()
        assert frame is not None
        assert frame.number == 99
        assert newest.read() is None
    assert newest.dropped == 99
    assert source.released == list(range(99))
    assert source.is_closed


def test_what_the_source_raises_comes_behind_its_last_frame() -> None:
    newest = Newest(_Scripted(1, SourceError("unplugged")))
    frame = newest.read()
    assert frame is not None
    assert frame.number == 0
    with pytest.raises(SourceError, match="unplugged"):
        newest.read()
    newest.close()
