"""One camera with one model: frames in, tracks and events out."""

from __future__ import annotations

import datetime
import threading
from collections import Counter, deque
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

from openrknn.vision.draw import annotated, colour
from openrknn.vision.pictures import Pixels
from openrknn.vision.results import Objects
from openrknn.watch.capture import Frame
from openrknn.watch.geometry import Point
from openrknn.watch.models import SharedModel
from openrknn.watch.settings import Camera
from openrknn.watch.tracking import Track, Tracker
from openrknn.watch.zones import Happening, Monitor

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["Feed", "Seen"]

_LARGEST_SIDE, _SNAPSHOT_SIDE, _QUALITY = 1280, 640, 80
_WINDOW = 30


@dataclass(frozen=True, slots=True)
class Seen:
    """A frame with what was found in it: what the page shows."""

    pixels: Pixels
    found: Objects
    names: tuple[str, ...]
    """Of each object: its label and the number of its track."""
    shapes: tuple[tuple[str, tuple[Point, ...]], ...]

    def jpeg(self, largest: int = _LARGEST_SIDE) -> bytes:
        """Boxes and zones drawn into the frame."""
        image = self._drawn()
        image.thumbnail((largest, largest))
        data = BytesIO()
        image.save(data, "jpeg", quality=_QUALITY)
        return data.getvalue()

    def _drawn(self) -> Image:
        from PIL.ImageDraw import Draw

        numbered = Objects(self.found.boxes, self.found.scores, np.arange(len(self.found)))
        image = annotated(self.pixels, numbered, self.names)
        draw, zoom = Draw(image), image.width / self.pixels.shape[1]
        width = max(round(max(image.size) / 320), 2)
        for number, (name, points) in enumerate(self.shapes):
            places = [(x * zoom, y * zoom) for x, y in points]
            closed = [*places, places[0]] if len(places) > 2 else places
            draw.line(closed, fill=colour(number + 4), width=width)
            draw.text((places[0][0] + 2 * width, places[0][1] + 2 * width), name, fill=colour(number + 4))
        return image


class Feed:
    """Tracks and zones of one camera for one model. Frames come one after the other."""

    def __init__(self, camera: Camera, model: SharedModel) -> None:
        self.camera, self.model = camera, model
        self.name = f"{camera.name}/{model.settings.name}"
        self._tracker = Tracker(camera.tracking, 1 / camera.rate)
        self._monitor = Monitor(camera.zones, camera.lines, model.labels)
        self._lock = threading.Lock()
        self.frames = self.failed = 0
        self.latency_seconds = self.run_seconds = 0.0
        self.last_time = 0.0
        self._times: deque[float] = deque(maxlen=_WINDOW)
        self._tracks: list[Track] = []
        self.seen: Seen | None = None

    def process(self, frame: Frame) -> tuple[list[Happening], float]:
        """One frame: what happened in it, and the seconds that the model ran."""
        result = self.model.run(frame.pixels)
        found = result.found if isinstance(result.found, Objects) else Objects.none()
        with self._lock:
            self._monitor.labels = self.model.labels
            found = self._wanted(found)
            height, width = frame.pixels.shape[:2]
            self._monitor.resize(width, height)
            labels = [int(one) for one in found.classes]
            boxes, scores = np.asarray(found.boxes, np.float64), np.asarray(found.scores, np.float64)
            self._tracks = self._tracker.update(boxes, scores, labels, frame.time)
            happenings = self._monitor.update(self._tracks, self._tracker.alive, frame.time)
            self.seen = self._see(frame.pixels, self._tracks)
            self.frames += 1
            self.last_time = frame.time
            self._times.append(frame.time)
            self.run_seconds = result.run_seconds
        return happenings, result.run_seconds

    def _wanted(self, found: Objects) -> Objects:
        classes, names = self.model.settings.classes, self.model.labels
        if not classes or names is None:
            return found
        wanted = [names.index(name) for name in classes if name in names]
        return found.take(np.flatnonzero(np.isin(found.classes, wanted)))

    def _see(self, pixels: Pixels, tracks: list[Track]) -> Seen:
        boxes = np.array([track.box for track in tracks], np.float32).reshape(-1, 4)
        scores = np.array([track.score for track in tracks], np.float32)
        objects = Objects(boxes, scores, np.array([track.label for track in tracks], np.int64))
        names = tuple(f"{self._monitor.label_of(track)} #{track.number}" for track in tracks)
        return Seen(pixels, objects, names, tuple(self._monitor.shapes().items()))

    def expire(self, now: float) -> list[Happening]:
        """No frame came for long: objects that are out of sight for too long have left."""
        with self._lock:
            self._tracker.expire(now)
            self._tracks = [track for track in self._tracks if track.number in self._tracker.alive]
            return self._monitor.update([], self._tracker.alive, now)

    def stop(self, now: float) -> list[Happening]:
        """Every visit ends."""
        with self._lock:
            return self._monitor.stop(now)

    @property
    def fps(self) -> float:
        """Frames a second, over the last ones."""
        with self._lock:
            if len(self._times) < 2:
                return 0.0
            return (len(self._times) - 1) / max(self._times[-1] - self._times[0], 1e-9)

    def totals(self) -> dict[str, int]:
        """Label -> how many are in sight."""
        with self._lock:
            return dict(Counter(self._monitor.label_of(track) for track in self._tracks))

    def zones(self) -> dict[str, dict[str, int]]:
        """Zone -> label -> how many are inside."""
        with self._lock:
            return self._monitor.counts()

    def body(self, happening: Happening, frame: Frame | None) -> dict[str, Any]:
        """The event as receivers get it."""
        place = "line" if happening.kind == "cross" else "zone"
        words: dict[str, Any] = {
            "kind": happening.kind,
            "time": round(happening.time, 3),
            "utc": utc(happening.time),
            "camera": self.camera.name,
            "model": self.model.settings.name,
            place: happening.place,
            "label": happening.label,
            "track": happening.track,
            "score": happening.score,
            "box": list(happening.box),
        }
        if happening.kind in ("leave", "loiter"):
            words["seconds"] = round(happening.seconds, 3)
        for name, value in (("direction", happening.direction), ("reason", happening.reason)):
            if value:
                words[name] = value
        if frame is not None:
            words["frame"] = frame.number
        return words

    def snapshot(self) -> bytes | None:
        """The last frame, as an image for an event."""
        return None if self.seen is None else self.seen.jpeg(_SNAPSHOT_SIDE)


def utc(seconds: float) -> str:
    """ISO 8601."""
    when = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")

