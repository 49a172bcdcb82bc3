"""What Prometheus reads at /metrics. All names begin with `openrknn_watch_`; times are seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from openrknn.watch.engine import CameraView, Watch
from openrknn.watch.events import Delivery
from openrknn.watch.feed import Feed
from openrknn.watch.models import SharedModel

__all__ = ["Metrics"]

_CAMERAS: dict[str, tuple[type[CounterMetricFamily | GaugeMetricFamily], str, Callable[[CameraView], float]]] = {
    "online": (GaugeMetricFamily, "Whether frames come", lambda one: one.capture.is_online),
    "captured_frames": (CounterMetricFamily, "Frames that were kept", lambda one: one.capture.newest.count),
    "skipped_frames": (CounterMetricFamily, "Frames beyond the camera's rate", lambda one: one.capture.skipped),
    "dropped_frames": (CounterMetricFamily, "Frames there was no time for", lambda one: one.capture.newest.dropped),
    "reconnections": (CounterMetricFamily, "Attempts to open it again", lambda one: one.capture.reconnections),
    "events": (CounterMetricFamily, "Events since the start", lambda one: one.events),
}
_FEEDS: dict[str, tuple[type[CounterMetricFamily | GaugeMetricFamily], str, Callable[[Feed], float]]] = {
    "analysed_frames": (CounterMetricFamily, "Frames that went through the model", lambda one: one.frames),
    "failed_frames": (CounterMetricFamily, "Frames for which the model failed", lambda one: one.failed),
    "frame_rate": (GaugeMetricFamily, "Frames a second, over the last 30", lambda one: one.fps),
    "latency_seconds": (GaugeMetricFamily, "From the frame to its events", lambda one: one.latency_seconds),
    "run_seconds": (GaugeMetricFamily, "Of the last run of the model", lambda one: one.run_seconds),
}
_MODELS: dict[str, tuple[type[CounterMetricFamily | GaugeMetricFamily], str, Callable[[SharedModel], float]]] = {
    "model_reloads": (CounterMetricFamily, "Times that a new file was loaded", lambda one: one.reloads),
    "model_restarts": (CounterMetricFamily, "Processes that ended and were replaced", lambda one: one.restarts),
    "model_failures": (CounterMetricFamily, "Runs that failed", lambda one: one.failures),
}
_SINKS: dict[str, tuple[type[CounterMetricFamily | GaugeMetricFamily], str, Callable[[Delivery], float]]] = {
    "delivered_events": (CounterMetricFamily, "Events that a receiver took", lambda one: one.delivered),
    "refused_events": (CounterMetricFamily, "Events that a receiver never will take", lambda one: one.refused),
    "failed_deliveries": (CounterMetricFamily, "Attempts that failed", lambda one: one.failed),
}


class Metrics(Collector):
    """Read when somebody asks."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._registry = CollectorRegistry()
        ProcessCollector(namespace="openrknn", registry=self._registry)
        self._registry.register(self)

    def render(self, accepted: str) -> tuple[bytes, str]:
        """The text and its type."""
        encoder, kind = choose_encoder(accepted)
        return encoder(self._registry), kind

    def describe(self) -> Iterable[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        watch = self._watch
        for name, (kind, text, value) in _CAMERAS.items():
            family = kind(f"openrknn_watch_{name}", text, labels=("camera",))
            for view in watch.cameras.values():
                family.add_metric((view.camera.name,), value(view))
            yield family
        for name, (kind, text, of_feed) in _FEEDS.items():
            family = kind(f"openrknn_watch_{name}", text, labels=("camera", "model"))
            for view in watch.cameras.values():
                for feed in view.feeds:
                    family.add_metric((view.camera.name, feed.model.settings.name), of_feed(feed))
            yield family
        for name, (kind, text, of_model) in _MODELS.items():
            family = kind(f"openrknn_watch_{name}", text, labels=("model",))
            for one, model in watch.models.items():
                family.add_metric((one,), of_model(model))
            yield family
        for name, (kind, text, of_sink) in _SINKS.items():
            family = kind(f"openrknn_watch_{name}", text, labels=("sink",))
            for delivery in watch.deliveries:
                family.add_metric((delivery.sink.name,), of_sink(delivery))
            yield family
        yield self._spool("waiting_events", "Events in the spool that a receiver does not have", watch.spool.waiting())
        yield self._spool("given_up_events", "Events that were lost to a full spool", watch.spool.given_up())
        occupied = GaugeMetricFamily(
            "openrknn_watch_zone_objects", "Objects in a zone", labels=("camera", "zone", "label")
        )
        for view in watch.cameras.values():
            for zone, counts in view.zones().items():
                for label, count in counts.items():
                    occupied.add_metric((view.camera.name, zone, label), count)
        yield occupied

    @staticmethod
    def _spool(name: str, text: str, values: dict[str, int]) -> Metric:
        family = GaugeMetricFamily(f"openrknn_watch_{name}", text, labels=("sink",))
        for sink, value in values.items():
            family.add_metric((sink,), value)
        return family
