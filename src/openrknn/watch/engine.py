"""`Watch`: cameras, models and receivers of events together."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from openrknn.closing import Closing
from openrknn.errors import RknnError
from openrknn.vision.live import Broadcast
from openrknn.watch.capture import Capture, Frame, Image, open_source
from openrknn.watch.errors import WatchError
from openrknn.watch.events import Delivery, Event, Sink, Spool
from openrknn.watch.events.file_sink import FileEvents
from openrknn.watch.events.topics import discovery, states
from openrknn.watch.events.webhook import Webhook
from openrknn.watch.feed import Feed, utc
from openrknn.watch.models import OpenHost, SharedModel, open_host
from openrknn.watch.schedule import Schedule, Stream
from openrknn.watch.settings import Camera, WatchSettings
from openrknn.watch.zones import Happening

__all__ = ["CameraView", "Watch"]

_LOG = logging.getLogger(__name__)
_TICK_SECONDS = 0.5
_AFTER_FAILURE_SECONDS = 0.2
"""A model that fails keeps its streams waiting for so long: no busy loop while its process starts again."""
_STARTS_WITH_LABELS = 12
"""Topics for labels that have not been seen yet: of models with few classes only."""
Source = Callable[[Camera, Callable[[float], bool]], Iterator[tuple[int, Image]]]


class CameraView:
    """A camera as the engine and the page see it."""

    def __init__(self, camera: Camera, capture: Capture, feeds: Sequence[Feed]) -> None:
        self.camera, self.capture, self.feeds = camera, capture, tuple(feeds)
        self.broadcast = Broadcast()
        self.events = 0

    def labels(self) -> tuple[str, ...]:
        """That have topics of their own from the start: those that the configuration names, or that the model has."""
        named = [name for place in (*self.camera.zones, *self.camera.lines) for name in place.classes]
        for feed in self.feeds:
            known = feed.model.labels or ()
            named += feed.model.settings.classes or (known if len(known) <= _STARTS_WITH_LABELS else ())
        return tuple(dict.fromkeys(named))

    def totals(self) -> dict[str, int]:
        """Label -> how many are in sight, by all models."""
        found: Counter[str] = Counter()
        for feed in self.feeds:
            found.update(feed.totals())
        return dict(found)

    def zones(self) -> dict[str, dict[str, int]]:
        """Zone -> label -> how many are inside."""
        found: dict[str, Counter[str]] = {zone.name: Counter() for zone in self.camera.zones}
        for feed in self.feeds:
            for name, counts in feed.zones().items():
                found[name].update(counts)
        return {name: dict(counts) for name, counts in found.items()}

    def state(self) -> dict[str, Any]:
        """For the page."""
        newest = self.capture.newest
        return {
            "name": self.camera.name,
            "is_online": self.capture.is_online,
            "problem": self.capture.problem,
            "fps": round(max((feed.fps for feed in self.feeds), default=0.0), 2),
            "rate": self.camera.rate,
            "latency_ms": round(1e3 * max((feed.latency_seconds for feed in self.feeds), default=0.0), 1),
            "run_ms": round(1e3 * sum(feed.run_seconds for feed in self.feeds), 1),
            "frames": newest.count,
            "dropped": newest.dropped,
            "reconnections": self.capture.reconnections,
            "events": self.events,
            "totals": self.totals(),
            "zones": self.zones(),
            "models": [feed.model.settings.name for feed in self.feeds],
            "picture": self.broadcast.state["picture"],
        }


class Watch(Closing):
    """Cameras through models to events. `start` does it in threads; `step` does one frame, for tests."""

    def __init__(
        self,
        settings: WatchSettings,
        *,
        clock: Callable[[], float] = time.time,
        source: Source = open_source,
        load: OpenHost | None = None,
        sinks: Sequence[Sink] | None = None,
        observe: Callable[[Feed, Frame, list[Happening]], None] | None = None,
    ) -> None:
        self.settings, self._clock = settings, clock
        self.observe = observe
        """Called after each analysed frame."""
        self.started = clock()
        self._wake = threading.Condition()
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._resources = contextlib.ExitStack()
        load = load or open_host(settings.device, settings.workers)
        with contextlib.ExitStack() as stack:
            used = [one for one in settings.models if self._is_used(one.name)]
            self.models = {one.name: stack.enter_context(SharedModel(one, load)) for one in used}
            cores = settings.slots or max(model.npu_cores for model in self.models.values())
            self.schedule = Schedule(cores, {name: model.instances for name, model in self.models.items()})
            self.cameras = {camera.name: self._camera(camera, source) for camera in settings.cameras}
            self._streams: dict[Stream, tuple[CameraView, Feed]] = {}
            for view in self.cameras.values():
                for feed in view.feeds:
                    self._add_stream(view, feed)
            self._brokers: list[Any] = []
            receivers = list(sinks) if sinks is not None else self._sinks()
            events = settings.events
            self.spool = stack.enter_context(
                Spool(settings.spool, [sink.name for sink in receivers], keep=events.keep, most=events.most,
                      most_snapshots=events.most_snapshots)
            )  # fmt: skip
            self.deliveries = [Delivery(sink, self.spool) for sink in receivers]
            self._announce_to_brokers()
            self._resources = stack.pop_all()

    def _is_used(self, model: str) -> bool:
        return any(model in camera.models for camera in self.settings.cameras)

    def _camera(self, camera: Camera, source: Source) -> CameraView:
        capture = Capture(
            camera, ready=self._notify, clock=self._clock, source=source,
            changed=lambda is_online, reason: self._camera_changed(camera.name, is_online, reason),
        )  # fmt: skip
        feeds = [Feed(camera, self.models[name]) for name in camera.models]
        for feed in feeds:
            capture.newest.add_reader(feed.name)
        return CameraView(camera, capture, feeds)

    def _add_stream(self, view: CameraView, feed: Feed) -> None:
        stream = Stream(feed.name, feed.model.settings.name, view.camera.weight, feed.model.settings.cores)
        self.schedule.add(stream)
        self._streams[stream] = (view, feed)

    def _sinks(self) -> list[Sink]:
        events = self.settings.events
        found: list[Sink] = [FileEvents(one.path, one.snapshots) for one in events.files]
        found += [Webhook(one.url, one.secret, one.timeout) for one in events.webhooks]
        if events.brokers:
            from openrknn.watch.events.mqtt import Broker

            self._brokers = [Broker(one) for one in events.brokers]
            found += self._brokers
        names = [sink.name for sink in found]
        for name in names:
            if names.count(name) > 1:
                raise WatchError(f"events: {name} appears twice")
        return found

    def _announce_to_brokers(self) -> None:
        from openrknn import __version__

        for broker, one in zip(self._brokers, self.settings.events.brokers, strict=False):
            if one.discovery is not None:
                rows = [(view.camera, view.labels()) for view in self.cameras.values()]
                broker.announce(discovery(one.prefix, one.discovery, self.spool.name, rows, __version__))

    # -- one frame -------------------------------------------------------------------------------------------------

    def _notify(self) -> None:
        with self._wake:
            self._wake.notify()

    def _is_ready(self, stream: Stream) -> bool:
        view, feed = self._streams[stream]
        return view.capture.newest.has(feed.name)

    def step(self) -> bool:
        """Analyse the frame that is next; whether there was one."""
        stream = self.schedule.choose(self._is_ready)
        if stream is None:
            return False
        self._analyse(stream)
        return True

    def _analyse(self, stream: Stream) -> None:
        view, feed = self._streams[stream]
        begun, seconds = time.perf_counter(), 0.0
        try:
            frame = view.capture.newest.take(feed.name)
            if frame is None:
                return
            try:
                happenings, _ = feed.process(frame)
            except RknnError:
                feed.failed += 1
                self._stopping.wait(_AFTER_FAILURE_SECONDS)
                return
            self._report(view, feed, happenings, frame)
            if self.observe is not None:
                self.observe(feed, frame, happenings)
            feed.latency_seconds = max(self._clock() - frame.time, 0.0)
            if feed.seen is not None:
                view.broadcast.publish(feed.seen.jpeg, {"name": view.camera.name})
            self._show_states(view)
        finally:
            seconds = time.perf_counter() - begun
            self.schedule.done(stream, seconds)
            self._notify()

    def _report(self, view: CameraView, feed: Feed, happenings: list[Happening], frame: Frame | None) -> list[Event]:
        if not happenings:
            return []
        jpeg = feed.snapshot() if self.settings.events.snapshots and frame is not None else None
        view.events += len(happenings)
        return self.spool.append([(feed.body(one, frame), jpeg) for one in happenings])

    def _camera_changed(self, name: str, is_online: bool, reason: str) -> None:
        """An event of the camera itself."""
        view = self.cameras[name]
        now = self._clock()
        body = {"kind": "online" if is_online else "offline", "time": round(now, 3), "utc": utc(now), "camera": name}
        if reason:
            body["reason"] = reason[:500]
            view.broadcast.trouble(reason)
        view.events += 1
        with contextlib.suppress(WatchError):  # the end has come
            self.spool.append([(body, None)])
        self._show_states(view)

    def _show_states(self, view: CameraView) -> None:
        if not self._brokers:
            return
        totals, zones, labels = view.totals(), view.zones(), view.labels()
        for broker, one in zip(self._brokers, self.settings.events.brokers, strict=True):
            broker.show(states(one.prefix, view.camera, labels, totals, zones, is_online=view.capture.is_online))

    def tick(self) -> None:
        """What time alone changes: objects of cameras that are silent are out of sight at last."""
        now = self._clock()
        for view in self.cameras.values():
            for feed in view.feeds:
                limit = max(view.camera.tracking.lost_seconds, 3 / view.camera.rate)
                is_late = feed.last_time and now - feed.last_time > limit
                if is_late and not view.capture.is_online and not view.capture.newest.has(feed.name):
                    happenings = feed.expire(now)
                    if happenings:
                        self._report(view, feed, happenings, None)
                        self._show_states(view)

    # -- in threads ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Read all cameras, analyse and deliver, until `close`."""
        for broker in self._brokers:
            broker.start()
        for delivery in self.deliveries:
            delivery.start()
        for number in range(self.schedule.cores):
            self._begin(self._work, f"openrknn-npu-{number}")
        self._begin(self._keep_house, "openrknn-watch")
        for view in self.cameras.values():
            view.capture.start()

    def _begin(self, work: Callable[[], None], name: str) -> None:
        thread = threading.Thread(target=work, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _work(self) -> None:
        while not self._stopping.is_set():
            with self._wake:
                stream = None if self._stopping.is_set() else self.schedule.choose(self._is_ready)
                if stream is None:
                    self._wake.wait(_TICK_SECONDS)
                    continue
            try:
                self._analyse(stream)
            except Exception:  # noqa: BLE001 - one frame's trouble is not the end of all cameras
                if not self._stopping.is_set():
                    _LOG.exception("stream %s", stream.name)

    def _keep_house(self) -> None:
        looked = time.monotonic()
        while not self._stopping.wait(_TICK_SECONDS):
            try:
                self.tick()
                if time.monotonic() - looked >= self.settings.poll_seconds:
                    looked = time.monotonic()
                    for model in self.models.values():
                        model.refresh()
            except Exception:  # noqa: BLE001 - nor is a spool that is full
                _LOG.exception("housekeeping")

    def reload(self, name: str | None = None) -> dict[str, bool]:
        """Load one model, or all of them, again; whether that went well."""
        return {one: model.reload() for one, model in self.models.items() if name in (None, one)}

    def close(self) -> None:
        """Stop the cameras, finish what was begun, deliver the events, and give everything back."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        with self._wake:
            self._wake.notify_all()
        for view in self.cameras.values():
            view.capture.stop()
        for thread in self._threads:
            thread.join()
        now = self._clock()
        for view in self.cameras.values():
            view.broadcast.close()
            for feed in view.feeds:
                self._report(view, feed, feed.stop(now), None)
        for delivery in self.deliveries:
            if not delivery.stop():
                waiting = self.spool.waiting().get(delivery.sink.name, 0)
                _LOG.warning("%d events for %s wait in the spool", waiting, delivery.sink.name)
        self._resources.close()
