"""A source through a model, shown to browsers as it goes."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import threading
import time
from collections.abc import Iterator

from openrknn.cli.common.output import Output
from openrknn.cli.pictures.pipeline import open_pipeline
from openrknn.cli.stream.stats import StreamStats
from openrknn.quantities import count_of
from openrknn.vision.errors import SourceError
from openrknn.vision.live import Broadcast, Meter, serve
from openrknn.vision.pipeline import Pipeline
from openrknn.vision.result import Result
from openrknn.vision.sources import entries

__all__ = ["run_stream"]

_PAUSE_SECONDS = 2.0
"""Before a source that was lost is opened again."""


def run_stream(arguments: argparse.Namespace, output: Output) -> int:
    """Run the model, publish every picture, and count."""
    entries(arguments.sources)  # complains before anything is loaded
    with (
        open_pipeline(arguments.model, arguments, arguments.task) as pipeline,
        serve(arguments.host, arguments.port) as (broadcast, address),
    ):
        for note in pipeline.notes:
            output.complain(f"note: {note}")
        output.value(f"{address}  {pipeline.family.about} on {pipeline.device}; Ctrl-C stops it")
        output.stream.flush()
        meter, stats = Meter(broadcast, pipeline), StreamStats()
        with contextlib.suppress(KeyboardInterrupt):
            _play(arguments, output, pipeline, broadcast, (meter, stats))
    output.line(count_of(meter.count, "picture"))
    if arguments.stats and output.is_human:
        stats.show(output)
    about = {"stats": stats.as_json()} if arguments.stats else {}
    output.data({"schema_version": 1, "address": address, "pictures": meter.count, **about})
    return 0


def _play(
    arguments: argparse.Namespace,
    output: Output,
    pipeline: Pipeline,
    broadcast: Broadcast,
    seen: tuple[Meter, StreamStats],
) -> None:
    meter, stats = seen
    results = itertools.islice(_results(pipeline, arguments, output, broadcast, stats), arguments.count)
    for result in _paced(results, arguments.fps):
        if result.problem:
            output.complain(f"{result.problem}; skipped")
        else:
            stats.add(result, meter.show(result))
    broadcast.close()
    if meter.count and not (arguments.count or arguments.exit):
        output.line("that was the last picture; the page stays up until Ctrl-C")
        output.stream.flush()
        threading.Event().wait()  # for ever; Ctrl-C raises KeyboardInterrupt


def _results(
    pipeline: Pipeline, arguments: argparse.Namespace, output: Output, broadcast: Broadcast, stats: StreamStats
) -> Iterator[Result]:
    """With --repeat: again and again, also when a camera was lost; but not what never gave a picture."""
    readable = 0
    while True:
        before = readable
        try:
            for result in pipeline.stream(arguments.sources, stats.opened):
                readable += not result.problem
                yield result
        except SourceError as error:
            if not arguments.repeat or not readable:
                raise
            output.complain(f"{error}; opening it again")
            broadcast.trouble(str(error))
            time.sleep(_PAUSE_SECONDS)
            continue
        if not arguments.repeat or readable == before:
            return


def _paced(results: Iterator[Result], fps: float | None) -> Iterator[Result]:
    """No faster than `fps`."""
    due = time.perf_counter()
    for result in results:
        if fps is not None:
            time.sleep(max(due - time.perf_counter(), 0))
            due = max(due, time.perf_counter()) + 1 / fps
        yield result
