from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from openrknn.pictures import Pixels
from openrknn.vision.errors import SourceError
from openrknn.watch.capture import Capture, Frame, Newest, open_source
from openrknn.watch.scene import Scene, parse_scene
from openrknn.watch.settings import Camera

PIXELS = np.zeros((4, 8, 3), np.uint8)


def _frame(number: int) -> Frame:
    return Frame(number, float(number), PIXELS)


def test_only_the_newest_frame_is_kept_and_the_others_are_counted() -> None:
    newest = Newest()
    newest.add_reader("a")
    newest.add_reader("b")
    for number in range(3):
        newest.put(_frame(number))
    taken = newest.take("a")
    assert taken is not None
    assert taken.number == 2
    assert newest.take("a") is None
    newest.put(_frame(3))  # b did not take number 2
    assert (newest.count, newest.dropped) == (4, 5)
    assert newest.has("a")
    assert newest.has("b")


def _source(frames: int) -> Callable[[Camera, Callable[[float], bool]], Iterator[tuple[int, Pixels]]]:
    def source(_camera: Camera, _wait: Callable[[float], bool]) -> Iterator[tuple[int, Pixels]]:
        for number in range(frames):
            yield number, PIXELS

    return source


def test_frames_beyond_the_rate_are_skipped() -> None:
    times = iter(0.1 * number for number in range(100))
    capture = Capture(Camera("yard", "x", (), rate=5), clock=lambda: next(times), source=_source(20))
    for _ in capture.frames():
        pass
    assert (capture.newest.count, capture.skipped) == (10, 10)


def test_large_frames_are_scaled_down() -> None:
    capture = Capture(Camera("yard", "x", (), size=(4, 4)), source=_source(1))
    for _ in capture.frames():
        pass
    capture.newest.add_reader("a")
    frame = capture.newest.take("a")
    assert frame is not None
    assert frame.pixels.shape == (2, 4, 3)


def test_a_camera_that_is_lost_is_opened_again() -> None:
    opened, told, is_back = [0], [], threading.Event()

    def source(_camera: Camera, wait: Callable[[float], bool]) -> Iterator[tuple[int, Pixels]]:
        opened[0] += 1
        if opened[0] == 2:
            raise SourceError("nobody answers")
        yield 0, PIXELS
        if opened[0] == 1:
            raise SourceError("the cable")
        is_back.set()
        wait(60)

    capture = Capture(
        Camera("yard", "x", ()), source=source, changed=lambda is_online, reason: told.append((is_online, reason)),
        pauses=(0.0, 0.0),
    )  # fmt: skip
    capture.start()
    assert is_back.wait(60)
    capture.stop()
    assert told == [(True, ""), (False, "the cable"), (True, "")]
    assert (opened[0], capture.reconnections) == (3, 2)


def test_a_source_that_ends_ends_only_where_it_is_not_repeated() -> None:
    lost = threading.Event()
    capture = Capture(Camera("yard", "x", (), repeat=False), source=_source(3),
                      changed=lambda is_online, _: None if is_online else lost.set())  # fmt: skip
    capture.start()
    assert lost.wait(60)
    capture.stop()
    assert capture.problem == "the source has ended"


def test_scenes_are_the_same_every_time() -> None:
    scene = parse_scene("test:7?size=320x192&fps=10&lanes=3&hold=1")
    assert scene == Scene(7, 320, 192, 10.0, 3, 1)
    assert np.array_equal(scene.frame(50), parse_scene("test:7?size=320x192&fps=10&lanes=3&hold=1").frame(50))
    assert [scene.number_of(scene.frame(number)) for number in (0, 1, 77777)] == [0, 1, 77777]
    for wrong in ("test:x", "test:1?size=100x99", "test:1?lanes=9", "test:1?fps=0", "test:-1", "test:1?size=9"):
        with pytest.raises(SourceError, match="test:"):
            parse_scene(wrong)


def _video(path: Path, width: int, height: int, frames: int) -> Path:
    """Gray frames that become lighter."""
    shades = [
        bytes([16 + 40 * number]) * (width * height) + b"\x80" * (width * height // 2) for number in range(frames)
    ]
    header = f"YUV4MPEG2 W{width} H{height} F25:1 C420mpeg2\n".encode()
    path.write_bytes(header + b"".join(b"FRAME\n" + shade for shade in shades))
    return path


def _captured(camera: Camera) -> tuple[list[Frame], Capture]:
    """All frames of a file, which the camera's rate does not skip: its clock runs in seconds."""
    times = iter(range(100))
    capture = Capture(
        camera, clock=lambda: float(next(times)), source=lambda one, _: open_source(one, lambda _seconds: False)
    )
    capture.newest.add_reader("a")
    frames = [capture.newest.take("a") for _ in capture.frames()]
    return [frame for frame in frames if frame is not None], capture


def test_frames_of_a_video_become_pixels(tmp_path: Path) -> None:
    """Sources of video give descriptors, not pixels; each is converted once, and scaled on the way."""
    place = str(_video(tmp_path / "a.y4m", 8, 4, 3))
    frames, _ = _captured(Camera("yard", place, ()))
    assert [frame.source_number for frame in frames] == [0, 1, 2]
    assert [frame.pixels.shape for frame in frames] == [(4, 8, 3)] * 3
    assert [int(frame.pixels[0, 0, 0]) for frame in frames] == [0, 47, 93]
    small = [frame.pixels for frame in _captured(Camera("yard", place, (), size=(4, 4)))[0]]
    assert [pixels.shape for pixels in small] == [(2, 4, 3)] * 3
    assert [pixels.flags.owndata for pixels in small] == [True] * 3


def test_frames_beyond_the_rate_are_released_unconverted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    converted: list[int] = []
    monkeypatch.setattr("openrknn.watch.capture.convert", lambda frame, _pixels: converted.append(frame.number))
    frames, capture = _captured(Camera("yard", str(_video(tmp_path / "a.y4m", 8, 4, 4)), (), rate=0.5))
    assert (len(frames), capture.skipped, len(converted)) == (2, 2, 2)


def test_a_video_that_ends_in_a_frame_is_named(tmp_path: Path) -> None:
    path = _video(tmp_path / "a.y4m", 8, 4, 1)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(SourceError, match=r"a\.y4m.*truncated"):
        list(open_source(Camera("yard", str(path), ()), lambda _seconds: False))
