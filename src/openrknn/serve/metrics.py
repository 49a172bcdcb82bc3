"""What Prometheus reads at /metrics. All names begin with `openrknn_`; times are seconds, sizes are bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import accumulate
from typing import TypeVar

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from openrknn.serve.llm.language import Language
from openrknn.serve.npu_load import NpuLoad
from openrknn.serve.plane.describe import version
from openrknn.serve.plane.plane import Plane
from openrknn.serve.plane.served import Served
from openrknn.serve.plane.stats import BUCKETS, Histogram
from openrknn.serve.voice.voice import Voice

__all__ = ["registry", "render"]

_MODEL = ("model", "version")
_HISTOGRAMS = {
    "queue": "Waiting for a context",
    "pre": "From the bytes of a request to the NPU's input buffers",
    "npu": "Running the model, operators of the CPU included",
    "post": "From the NPU's output buffers to the bytes of an answer",
    "total": "All of these",
}


_Counted = TypeVar("_Counted")
_Values = dict[str, tuple[str, Callable[[_Counted], float]]]
_Rows = Sequence[tuple[tuple[str, ...], _Counted]]
"""What the labels are, and whose values."""
_COUNTERS: _Values[Served] = {
    "openrknn_items": ("Items of batches that were answered", lambda one: one.stats.items),
    "openrknn_executions": ("Runs on a context", lambda one: one.stats.executions),
    "openrknn_context_restarts": ("Contexts that failed and were replaced", lambda one: one.stats.restarts),
    "openrknn_worker_restarts": ("Worker processes that ended and were replaced", lambda one: one.host.restarts),
    "openrknn_context_busy_seconds": ("Of all contexts together", lambda one: sum(one.busy())),
}
_GAUGES: _Values[Served] = {
    "openrknn_queue_length": ("Requests that wait", lambda one: len(one.queue)),
    "openrknn_queue_capacity": ("Requests that may wait", lambda one: one.queue.size),
    "openrknn_contexts": ("Contexts of a model", lambda one: len(one.instances)),
    "openrknn_model_ready": ("Whether a model can answer", lambda one: not one.problem),
}

_VOICE = ("voice", "kind")
_VOICE_COUNTERS: _Values[Voice] = {
    "openrknn_voice_audio_seconds": ("Sound that was heard or spoken", lambda one: one.stats.audio_seconds),
    "openrknn_voice_busy_seconds": ("Work on it", lambda one: one.stats.busy_seconds),
    "openrknn_voice_restarts": ("Processes that ended and were replaced", lambda one: one.restarts),
}
_VOICE_GAUGES: _Values[Voice] = {
    "openrknn_voice_real_time_factor": (
        "Seconds of work a second of sound, since the start; below 1 it keeps up",
        lambda one: one.stats.real_time_factor or 0.0,
    ),
    "openrknn_voice_waiting": ("Requests that wait", lambda one: one.waiting),
    "openrknn_voice_ready": ("Whether a voice can answer", lambda one: not one.problem),
}

_LLM = ("model",)
_LLM_COUNTERS: _Values[Language] = {
    "openrknn_llm_prompt_tokens": ("Tokens of prompts", lambda one: one.stats.prompt_tokens),
    "openrknn_llm_reused_tokens": ("Of these, found in a cache", lambda one: one.stats.reused_tokens),
    "openrknn_llm_generated_tokens": ("Tokens that were written", lambda one: one.stats.generated_tokens),
    "openrknn_llm_drafted_tokens": ("Tokens that speculation proposed", lambda one: one.stats.drafted_tokens),
    "openrknn_llm_accepted_tokens": ("Of these, right", lambda one: one.stats.accepted_tokens),
    "openrknn_llm_restarts": ("Processes that ended and were replaced", lambda one: one.restarts),
}
_LLM_GAUGES: _Values[Language] = {
    "openrknn_llm_tokens_per_second": ("Of all requests, over ten seconds", lambda one: one.stats.tokens_per_second),
    "openrknn_llm_active": ("Requests that are computed or wait", lambda one: one.active),
    "openrknn_llm_waiting": ("Requests that wait for a place", lambda one: one.waiting),
    "openrknn_llm_ready": ("Whether a model can answer", lambda one: not one.problem),
}


def registry(plane: Plane) -> CollectorRegistry:
    """What one server has to tell."""
    made = CollectorRegistry()
    ProcessCollector(namespace="openrknn", registry=made)
    made.register(_Metrics(plane))
    return made


def render(made: CollectorRegistry, accepted: str) -> tuple[bytes, str]:
    """The text and its type: Prometheus' own, or OpenMetrics for who asks for it."""
    encoder, kind = choose_encoder(accepted)
    return encoder(made), kind


class _Metrics(Collector):
    """Read when somebody asks; counting is the data plane's work."""

    def __init__(self, plane: Plane) -> None:
        self._plane, self._watch = plane, NpuLoad(plane)

    def describe(self) -> Iterable[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        for part in (_models, _voices, _languages, _sources):
            yield from part(self._plane)
        yield from _npus(self._watch)


def _models(plane: Plane) -> Iterator[Metric]:
    """The server and its models."""
    yield _gauge("openrknn_build_info", "Always 1; the label is what matters", {"version": version()}, 1)
    yield _gauge("openrknn_ready", "Whether this server should get requests", {}, not plane.ready_problem())
    yield _gauge("openrknn_requests_under_way", "Accepted and not answered yet", {}, plane.under_way)
    served = [((one.name, one.version), one) for one in plane.repository.served()]
    about = GaugeMetricFamily(
        "openrknn_model_info", "Always 1; the labels say what the model is", labels=(*_MODEL, "platform")
    )
    for labels, one in served:
        about.add_metric((*labels, one.card.platform), 1)
    yield about
    yield _outcomes("openrknn_requests", "Requests by outcome", _MODEL, served)
    yield from _families(CounterMetricFamily, _COUNTERS, _MODEL, served)
    yield from _families(GaugeMetricFamily, _GAUGES, _MODEL, served)
    for stage, text in _HISTOGRAMS.items():
        name = "openrknn_request_seconds" if stage == "total" else f"openrknn_{stage}_seconds"
        histogram = HistogramMetricFamily(name, f"{text}, in seconds", labels=_MODEL)
        for labels, one in served:
            histogram.add_metric(labels, _buckets(one.stats.stages[stage]), one.stats.stages[stage].sum)
        yield histogram


def _voices(plane: Plane) -> Iterator[Metric]:
    """What was heard and said."""
    voices = [((one.name, one.kind), one) for one in plane.voices.all()]
    yield _outcomes("openrknn_voice_requests", "By outcome", _VOICE, voices)
    yield from _families(CounterMetricFamily, _VOICE_COUNTERS, _VOICE, voices)
    yield from _families(GaugeMetricFamily, _VOICE_GAUGES, _VOICE, voices)


def _languages(plane: Plane) -> Iterator[Metric]:
    """What was read and written."""
    models = [((one.name,), one) for one in plane.languages.all()]
    yield _outcomes("openrknn_llm_requests", "By outcome", _LLM, models)
    yield from _families(CounterMetricFamily, _LLM_COUNTERS, _LLM, models)
    yield from _families(GaugeMetricFamily, _LLM_GAUGES, _LLM, models)
    first = HistogramMetricFamily("openrknn_llm_first_token_seconds", "From a request to its first token", labels=_LLM)
    each = HistogramMetricFamily("openrknn_llm_token_seconds", "Between two tokens, a mean per request", labels=_LLM)
    for labels, one in models:
        first.add_metric(labels, _buckets(one.stats.first_seconds), one.stats.first_seconds.sum)
        each.add_metric(labels, _buckets(one.stats.token_seconds), one.stats.token_seconds.sum)
    yield from (first, each)


def _sources(plane: Plane) -> Iterator[Metric]:
    """Models from the network."""
    remote = plane.repository.sources.remote
    if not remote:
        return
    errors = CounterMetricFamily("openrknn_source_errors", "What went wrong", labels=["source", "reason"])
    when = GaugeMetricFamily(
        "openrknn_source_last_success_seconds", "When a source could last be read, since 1970", labels=["source"]
    )
    for one in remote:
        when.add_metric([one.address.text], one.last_success)
        for reason, count in sorted(one.errors.items()):
            errors.add_metric([one.address.text, reason], count)
    yield errors
    yield when


def _npus(watch: NpuLoad) -> Iterator[Metric]:
    """Load, clock, memory and temperature."""
    load = GaugeMetricFamily("openrknn_npu_load_ratio", "0 to 1, per core", labels=("npu", "core"))
    clock = GaugeMetricFamily("openrknn_npu_clock_hertz", "Now", labels=("npu",))
    memory = GaugeMetricFamily("openrknn_npu_memory_bytes", "By kind", labels=("npu", "kind"))
    heat = GaugeMetricFamily("openrknn_npu_temperature_celsius", "By thermal zone", labels=("npu", "zone"))
    for npu in watch.npus():
        for core in npu.cores:
            if core.load_percent is not None:
                load.add_metric((npu.name, str(core.number)), core.load_percent / 100)
        if npu.clock.hz is not None:
            clock.add_metric((npu.name,), npu.clock.hz)
        for kind, value in asdict(npu.memory).items():
            if value is not None:
                memory.add_metric((npu.name, kind.removesuffix("_bytes")), value)
        for zone in npu.temperatures:
            heat.add_metric((npu.name, zone.zone), zone.celsius)
    yield from (load, clock, memory, heat)


def _outcomes(
    name: str, text: str, labels: tuple[str, ...], rows: _Rows[Served] | _Rows[Voice] | _Rows[Language]
) -> Metric:
    """Requests, by how they ended."""
    requests = CounterMetricFamily(name, text, labels=(*labels, "outcome"))
    for place, one in rows:
        requests.add_metric((*place, "OK"), one.stats.successes)
        for code, count in sorted(one.stats.failures.items()):
            requests.add_metric((*place, code), count)
    return requests


def _families(
    kind: type[CounterMetricFamily | GaugeMetricFamily], values: _Values[_Counted], labels: tuple[str, ...],
    rows: _Rows[_Counted],
) -> Iterator[Metric]:  # fmt: skip
    """One family for each row of a table, with a value for each of `rows`."""
    for name, (text, value) in values.items():
        family = kind(name, text, labels=labels)
        for place, one in rows:
            family.add_metric(place, value(one))
        yield family


def _gauge(name: str, text: str, labels: dict[str, str], value: float) -> Metric:
    gauge = GaugeMetricFamily(name, text, labels=tuple(labels))
    gauge.add_metric(tuple(labels.values()), value)
    return gauge


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    names = [*(f"{limit:g}" for limit in BUCKETS), "+Inf"]
    return list(zip(names, map(float, accumulate(histogram.counts)), strict=True))
