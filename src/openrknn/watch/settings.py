"""Everything that a configuration file can say."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from openrknn.watch.geometry import Point
from openrknn.watch.tracking import TrackerSettings

__all__ = [
    "Camera", "Events", "FileSink", "Line", "ModelSettings", "MqttSink", "Page", "WatchSettings", "WebhookSink", "Zone",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Place:
    name: str
    points: tuple[Point, ...]
    """Pixels of the frame, or fractions of it where all are from 0 to 1."""
    classes: tuple[str, ...] = ()
    """Only these; empty: all."""
    anchor: str = "bottom"
    """Which point of a box counts: bottom (the middle of its lower edge) or center."""

    def concerns(self, label: str) -> bool:
        """Whether objects of this class count here."""
        return not self.classes or label in self.classes

    def pixels(self, width: int, height: int) -> tuple[Point, ...]:
        """The points in pixels of a frame of that size."""
        if all(0 <= x <= 1 and 0 <= y <= 1 for x, y in self.points):
            return tuple((x * width, y * height) for x, y in self.points)
        return self.points


@dataclass(frozen=True, slots=True)
class Zone(_Place):
    """A polygon."""

    enter_seconds: float = 0.0
    """An object has entered when it was inside for so long."""
    leave_seconds: float = 1.0
    """It has left when it was outside for so long: boxes tremble at the edge."""
    loiter_seconds: float = 0.0
    """It loiters when it is inside for so long; 0: disabled."""
    report: tuple[str, ...] = ("enter", "leave", "loiter")


@dataclass(frozen=True, slots=True)
class Line(_Place):
    """Two points."""

    direction: str = "both"
    """in: only to the right of the line, as seen from its first point; out: only to its left."""


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """One model, for all cameras that name it."""

    name: str
    path: Path
    threshold: float | None = None
    overlap: float = 0.45
    classes: tuple[str, ...] = ()
    """Only these are tracked; empty: all."""
    labels: tuple[str, ...] | None = None
    family: str | None = None
    cores: int = 1
    """That share each run."""
    instances: int | None = None
    """Contexts; None: one for each of the NPU's cores that it can have."""


@dataclass(frozen=True, slots=True)
class Camera:
    """One camera."""

    name: str
    source: str
    models: tuple[str, ...]
    rate: float = 5.0
    """Frames a second that are analysed, at most."""
    size: tuple[int, int] | None = None
    """Larger frames are scaled down to fit into it."""
    weight: float = 1.0
    """Its share of the NPU where there is not enough of it, relative to other cameras."""
    repeat: bool = True
    """A file begins again when it ends."""
    zones: tuple[Zone, ...] = ()
    lines: tuple[Line, ...] = ()
    tracking: TrackerSettings = field(default_factory=TrackerSettings)


@dataclass(frozen=True, slots=True)
class FileSink:
    """A file of JSON lines."""

    path: Path
    snapshots: Path | None = None
    """A folder for the snapshots, ID.jpg."""


@dataclass(frozen=True, slots=True)
class WebhookSink:
    """An address that gets each event as a POST."""

    url: str
    secret: str | None = field(default=None, repr=False)
    """Signs each body with HMAC-SHA256."""
    timeout: float = 10.0


@dataclass(frozen=True, slots=True)
class MqttSink:
    """A broker."""

    host: str
    port: int = 1883
    prefix: str = "openrknn"
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: bool = False
    client_id: str = ""
    discovery: str | None = "homeassistant"
    """Home Assistant's discovery prefix; None: no discovery."""
    snapshots: bool = True


@dataclass(frozen=True, slots=True)
class Events:
    """Where events go, and what is kept of them."""

    files: tuple[FileSink, ...] = ()
    webhooks: tuple[WebhookSink, ...] = ()
    brokers: tuple[MqttSink, ...] = ()
    keep: int = 1000
    """Delivered events that stay in the spool, for the page."""
    most: int = 100_000
    """Events in the spool, delivered or not. The oldest are given up when there are more."""
    snapshots: bool = True
    most_snapshots: int = 500


@dataclass(frozen=True, slots=True)
class Page:
    """The web page, and the metrics beside it."""

    host: str = "127.0.0.1"
    port: int = 8018
    token: str | None = field(default=None, repr=False)
    token_file: str | None = None
    is_on: bool = True


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """A configuration."""

    cameras: tuple[Camera, ...]
    models: tuple[ModelSettings, ...]
    spool: Path = Path("spool")
    device: str = "auto"
    workers: str = "process"
    """process: each model in a process of its own, which may crash alone. in-process: all of them here."""
    slots: int | None = None
    """Runs at the same time; None: as many as the NPU has cores, or as this machine has processors without one."""
    poll_seconds: float = 2.0
    """How often the files of the models are looked at for changes."""
    events: Events = Events()
    page: Page = Page()
