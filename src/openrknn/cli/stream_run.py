"""A source through a model, shown to browsers as it goes."""

from __future__ import annotations

import argparse
import itertools
import os
import time
from collections import deque
from collections.abc import Iterator
from io import BytesIO
from typing import Any

from openrknn.cli.detect_text import in_words
from openrknn.cli.files import load_model
from openrknn.cli.output import CommandError, Output
from openrknn.cli.run_results import read_labels
from openrknn.cli.stream_server import Broadcast, serve
from openrknn.vision.outcome import Result
from openrknn.vision.pipeline import Pipeline
from openrknn.vision.sources import entries

__all__ = ["run_stream"]

_QUALITY = 80
_WINDOW = 30
"""Speed and load are means over so many pictures."""
_LARGEST_SIDE = 1280
"""Larger pictures are scaled down for the browser."""


def run_stream(arguments: argparse.Namespace, output: Output) -> int:
    """Run the model, publish every picture, and count."""
    entries(arguments.sources)  # complains before anything is loaded
    with _pipeline(arguments) as pipeline, serve(arguments.host, arguments.port) as (broadcast, address):
        for note in pipeline.notes:
            output.complain(f"note: {note}")
        output.value(f"{address}  shows {pipeline.family.about} on {pipeline.device}; Ctrl-C ends it")
        output.stream.flush()
        meter = _Meter(pipeline)
        try:
            for result in itertools.islice(_results(pipeline, arguments), arguments.count):
                _publish(broadcast, meter, result, output)
        except KeyboardInterrupt:
            pass
        finally:
            broadcast.close()
    output.line(f"{meter.count} pictures")
    output.data({"schema_version": 1, "address": address, "pictures": meter.count})
    return 0


def _pipeline(arguments: argparse.Namespace) -> Pipeline:
    model = load_model(arguments.model)
    try:
        return Pipeline(
            model,
            task=arguments.task,
            family=arguments.family,
            labels=read_labels(arguments.labels, None).names if arguments.labels else None,
            threshold=arguments.threshold,
            overlap=arguments.overlap,
            device=arguments.device,
            cores=arguments.cores,
            workers=arguments.workers,
        )
    except (ValueError, TypeError) as error:
        raise CommandError(str(error)) from error


def _results(pipeline: Pipeline, arguments: argparse.Namespace) -> Iterator[Result]:
    for _ in itertools.count() if arguments.repeat else range(1):
        readable = 0
        for result in pipeline.stream(arguments.sources):
            readable += not result.problem
            yield result
        if not readable:
            return  # repeating would never end and never show anything


def _publish(broadcast: Broadcast, meter: _Meter, result: Result, output: Output) -> None:
    if result.problem:
        output.complain(f"{result.problem}; skipped")
        return
    picture = result.annotated()
    picture.thumbnail((_LARGEST_SIDE, _LARGEST_SIDE))
    data = BytesIO()
    picture.save(data, "jpeg", quality=_QUALITY)
    broadcast.publish(data.getvalue(), meter.state(result))


class _Meter:
    """How fast it goes, and how busy the parts are."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.count = 0
        self._about = {"model": os.path.basename(pipeline.model.path or ""), "device": pipeline.device}
        self._workers = pipeline.workers
        self._seen: deque[tuple[float, float, float]] = deque(maxlen=_WINDOW)
        """When each picture was done, the processor's seconds until then, and how long the NPU worked on it."""

    def state(self, result: Result) -> dict[str, Any]:
        """Everything that the page shows."""
        self.count += 1
        used = os.times()
        self._seen.append((time.perf_counter(), used.user + used.system, result.run_seconds))
        elapsed = max(self._seen[-1][0] - self._seen[0][0], 1e-9)
        steps = len(self._seen) - 1
        latency = result.prepare_seconds + result.run_seconds + result.decode_seconds
        return {
            **self._about,
            "picture": self.count,
            "name": result.name,
            "found": in_words(result),
            "pictures_per_second": steps / elapsed if steps else 0.0,
            "latency_ms": 1e3 * latency,
            "run_ms": 1e3 * result.run_seconds,
            "npu_percent": min(100 * sum(entry[2] for entry in list(self._seen)[1:]) / elapsed / self._workers, 100.0),
            "cpu_percent": 100 * (self._seen[-1][1] - self._seen[0][1]) / elapsed if steps else 0.0,
            "cores": os.cpu_count() or 1,
        }
