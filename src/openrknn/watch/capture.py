"""One camera: read by a thread that keeps the newest frame only, and opens the source again when it is lost."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from openrknn.errors import RknnError
from openrknn.video import VideoFrame, convert
from openrknn.vision.pictures import Pixels, to_image
from openrknn.vision.sources import entries, shots
from openrknn.watch.scene import PREFIX, parse_scene
from openrknn.watch.settings import Camera

__all__ = ["Capture", "Frame", "Image", "Newest", "open_source"]

_LOG = logging.getLogger(__name__)
Image = Pixels | VideoFrame
"""What a source gives: frames of videos and cameras become pixels only if they are kept."""
_STEADY_SECONDS = 30.0
"""A source that gave frames for so long was well: the next loss is the first one again."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame of a camera."""

    number: int
    """From 0, since the camera was opened for the first time."""
    time: float
    """Seconds since 1970."""
    pixels: Pixels
    source_number: int = 0
    """As the source counts."""


class Newest:
    """The newest frame of a camera, and how many were dropped."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._frame: Frame | None = None
        self._readers: dict[str, int] = {}
        """Reader -> the number of the last frame that it took."""
        self.count = self.dropped = 0

    def put(self, frame: Frame) -> None:
        """A newer one. The one before counts as dropped where somebody has not taken it."""
        with self._lock:
            old = self._frame
            if old is not None:
                self.dropped += sum(taken < old.number for taken in self._readers.values())
            self._frame = frame
            self.count += 1

    def add_reader(self, name: str) -> None:
        """Somebody who takes frames."""
        with self._lock:
            self._readers.setdefault(name, -1)

    def has(self, reader: str) -> bool:
        """Whether there is a frame that the reader does not have."""
        with self._lock:
            return self._frame is not None and self._frame.number > self._readers[reader]

    def take(self, reader: str) -> Frame | None:
        """The newest frame, once."""
        with self._lock:
            frame = self._frame
            if frame is None or frame.number <= self._readers[reader]:
                return None
            self._readers[reader] = frame.number
            return frame


def open_source(
    camera: Camera, wait: Callable[[float], bool], clock: Callable[[], float] = time.monotonic
) -> Iterator[tuple[int, Image]]:
    """The source's own numbers and frames. `wait` sleeps and says whether to stop; files come at the camera's rate."""
    if camera.source.startswith(PREFIX):
        scene = parse_scene(camera.source)
        begun, number = clock(), 0
        while True:
            yield number, scene.frame(number)
            if wait(max((number + 1) / scene.fps - (clock() - begun), 0.0)):
                return
            # The world does not wait for a camera that was held up.
            number = max(number + 1, round((clock() - begun) * scene.fps))
    found = entries(camera.source)
    is_live = any(entry.kind == "live" for entry in found)
    for number, shot in enumerate(shots(found)):
        image = shot.pixels if shot.frame is None else shot.frame
        if image is None:
            raise RknnError(shot.problem)
        yield number, image
        if not is_live and wait(1 / camera.rate):
            return


class Capture:
    """Reads one camera. `ready` is called after each frame that is kept, `lost` and `back` when it goes and comes."""

    def __init__(
        self,
        camera: Camera,
        *,
        ready: Callable[[], None] = lambda: None,
        changed: Callable[[bool, str], None] = lambda is_online, reason: None,
        clock: Callable[[], float] = time.time,
        source: Callable[[Camera, Callable[[float], bool]], Iterator[tuple[int, Image]]] = open_source,
        pauses: tuple[float, float] = (1.0, 60.0),
    ) -> None:
        self.camera = camera
        self.newest = Newest()
        self.is_online = False
        self.problem = "it is being opened"
        self.reconnections = 0
        self.skipped = 0
        """Frames that came faster than the camera's rate."""
        self._ready, self._changed, self._clock, self._source = ready, changed, clock, source
        self._first_pause, self._longest_pause = pauses
        """Seconds before the source is opened again: after the first loss, and after many."""
        self._stopping = threading.Event()
        self._number = 0
        self._due = 0.0
        self._thread: threading.Thread | None = None

    def frames(self) -> Generator[None, None, None]:
        """Keep frame after frame; each step of this generator is one that the source gave."""
        stream = self._source(self.camera, self._stopping.wait)
        try:
            for number, image in stream:
                self._keep(number, image)
                yield
                if self._stopping.is_set():
                    return
        finally:
            close = getattr(stream, "close", None)
            if close is not None:
                close()

    def _keep(self, number: int, image: Image) -> None:
        now = self._clock()
        if not self.is_online:
            self.is_online, self.problem = True, ""
            self._changed(True, "")
        interval = 1 / self.camera.rate
        # A tenth of the interval early is in time: cameras tremble, and every second frame might be skipped.
        if now < self._due - 0.1 * interval:
            self.skipped += 1
            if isinstance(image, VideoFrame):
                image.release()
            return
        self._due = max(self._due + interval, now)
        self.newest.put(Frame(self._number, now, _fitted(image, self.camera.size), number))
        self._number += 1
        self._ready()

    def lose(self, reason: str) -> None:
        """No frames come just now."""
        if self.is_online or self.problem != reason:
            was, self.is_online, self.problem = self.is_online, False, reason
            _LOG.warning("camera-lost: %s: %s", self.camera.name, reason)
            if was:
                self._changed(False, reason)

    # -- in a thread -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Read in a thread of its own."""
        self._thread = threading.Thread(target=self._run, name=f"openrknn-{self.camera.name}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        pause = 0.0
        while not self._stopping.is_set():
            begun, count = time.monotonic(), self.newest.count
            try:
                with closing(self.frames()) as steps:
                    for _ in steps:
                        pass
                reason = "" if self.camera.repeat and self.newest.count > count else "the source has ended"
            except (RknnError, OSError, ValueError) as error:
                reason = str(error)
            except Exception as error:  # noqa: BLE001 - a decoder's own errors end neither the thread nor the program
                _LOG.exception("camera %s", self.camera.name)
                reason = f"{type(error).__name__}: {error}"
            if self._stopping.is_set():
                return
            if not reason:
                continue
            self.lose(reason)
            if time.monotonic() - begun > _STEADY_SECONDS:
                pause = 0.0
            pause = min(2 * pause or self._first_pause, self._longest_pause)
            self._stopping.wait(pause)
            self.reconnections += 1

    def stop(self, seconds: float = 2.0) -> None:
        """End the thread. A camera that hangs is left behind."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(seconds)


def _pixels_of(frame: VideoFrame, size: tuple[int, int] | None) -> Pixels:
    """The frame in RGB, no larger than `size`, in one conversion. Several models and the page share it."""
    with frame:
        shrunk = min(1.0, *(size[0] / frame.width, size[1] / frame.height)) if size is not None else 1.0
        width, height = (max(round(side * shrunk), 1) for side in (frame.width, frame.height))
        pixels = np.empty((height, width, 3), np.uint8)
        convert(frame, pixels)
        return pixels


def _fitted(image: Image, size: tuple[int, int] | None) -> Pixels:
    if isinstance(image, VideoFrame):
        return _pixels_of(image, size)
    if size is None or (image.shape[1] <= size[0] and image.shape[0] <= size[1]):
        return image
    shrunk = to_image(image)
    shrunk.thumbnail(size)
    return np.asarray(shrunk, np.uint8)
