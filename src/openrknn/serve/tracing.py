"""Traces by OpenTelemetry, where it is installed (extra `otel`) and somebody wants them; nothing elsewhere.

One span per request, with the caller's trace context, and one below it for each stage: queue, pre, npu, post.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from openrknn.errors import UnsupportedError
from openrknn.extras import how_to_install
from openrknn.serve.plane.job import Stages
from openrknn.serve.plane.served import Served

__all__ = ["Span", "request", "start", "stop", "use"]

_tracer: Any = None
_provider: Any = None


def start(endpoint: str) -> None:
    """Send spans to a collector that speaks OTLP over HTTP."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise UnsupportedError(f"traces need OpenTelemetry; {how_to_install('otel')}") from None
    provider = TracerProvider(resource=Resource.create({"service.name": "openrknn"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{endpoint.rstrip('/')}/v1/traces")))
    use(provider)


def use(provider: Any) -> None:
    """Make spans with a provider of one's own; None: make none."""
    global _tracer, _provider  # noqa: PLW0603 - one process has one tracer
    _provider = provider
    _tracer = provider.get_tracer("openrknn.serve") if provider is not None else None


def stop() -> None:
    """Send what is left."""
    if _provider is not None:
        _provider.shutdown()
    use(None)


class Span:
    """A request's span; does nothing where there are no traces."""

    def __init__(self, span: Any = None) -> None:
        self._span = span

    def stages(self, stages: Stages) -> None:
        """The children: they follow each other and end now."""
        if self._span is None or _tracer is None:
            return
        from opentelemetry import trace

        context = trace.set_span_in_context(self._span)
        at = time.time_ns() - int(stages.total * 1e9)
        for name in ("pre", "queue", "npu", "post"):
            child = _tracer.start_span(name, context=context, start_time=at)
            at += int(getattr(stages, name) * 1e9)
            child.end(at)
        self._span.set_attribute("openrknn.batch_size", stages.batch)


@contextmanager
def request(kind: str, served: Served, headers: Mapping[str, str]) -> Iterator[Span]:
    """A span around one request; `traceparent` among the headers makes it part of the caller's trace."""
    if _tracer is None:
        yield Span()
        return
    from opentelemetry import trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier = {name: value for name in ("traceparent", "tracestate") if (value := headers.get(name)) is not None}
    context = TraceContextTextMapPropagator().extract(carrier)
    attributes = {"openrknn.model": served.name, "openrknn.model_version": served.version}
    with _tracer.start_as_current_span(
        kind, context=context, kind=trace.SpanKind.SERVER, attributes=attributes
    ) as span:
        yield Span(span)
