"""Pictures through a model, one after the other: read, run, save, report."""

from __future__ import annotations

import argparse
import os
import threading
import time
from contextlib import ExitStack, suppress
from io import BytesIO
from itertools import islice
from typing import Any

from openrknn.cli.common.folder import Folder, safe_name
from openrknn.cli.common.output import CommandError, Output
from openrknn.cli.common.progress import bar_for
from openrknn.cli.pictures.pipeline import open_pipeline
from openrknn.cli.pictures.text import as_json, show_picture, show_summary
from openrknn.vision.live import Meter, serve
from openrknn.vision.ocr import TextReader
from openrknn.vision.pipeline import Pipeline
from openrknn.vision.result import Result
from openrknn.vision.sources import entries

__all__ = ["run_pictures"]

SCHEMA_VERSION = 1
_QUALITY = 92
_INTERRUPTED = 130


def run_pictures(arguments: argparse.Namespace, output: Output, *, task: str) -> int:
    """All pictures of one command. Ctrl-C ends it, and keeps what was found and saved until then."""
    found = entries(arguments.sources)
    folder = Folder(arguments.save, force=arguments.force) if arguments.save else None
    total = len(found) if all(entry.kind == "picture" for entry in found) else None
    total = min(total or arguments.count, arguments.count) if arguments.count else total
    session = _Session(arguments, output, folder)
    with ExitStack() as stack:
        pipeline = stack.enter_context(open_pipeline(arguments.model, arguments, task))
        session.begin(pipeline)
        source: Pipeline | TextReader = pipeline
        if getattr(arguments, "reader", None):
            source = _reader(pipeline, stack.enter_context(open_pipeline(arguments.reader, arguments, "ocr")))
        if arguments.show:
            session.page = _page(stack, pipeline)
        try:
            texts = ("pictures", "{task.completed}/{task.total}", "{task.fields[speed]:.2f} per second")
            with bar_for(output, *texts) as bar:
                shown = bar.add_task("pictures", total=total, speed=0.0, visible=total != 1) if bar else None
                for result in islice(source.stream(arguments.sources), arguments.count):
                    session.take(result)
                    if bar is not None and shown is not None:
                        bar.update(shown, completed=session.count, speed=session.speed())
        except KeyboardInterrupt:
            session.is_interrupted = True
        code = session.end()
        if arguments.show and not session.is_interrupted:
            _stay(output)
    return code


def _page(stack: ExitStack, pipeline: Pipeline) -> Meter:
    """On standard error, because standard output may be for programs."""
    broadcast, address = stack.enter_context(serve("127.0.0.1", 0))
    Output.complain(f"the pictures are shown at {address} until Ctrl-C")
    return Meter(broadcast, pipeline)


def _stay(output: Output) -> None:
    output.stream.flush()
    with suppress(KeyboardInterrupt):
        threading.Event().wait()  # for ever; Ctrl-C raises KeyboardInterrupt


def _reader(finder: Pipeline, reader: Pipeline) -> TextReader:
    try:
        return TextReader(finder, reader)
    except ValueError as error:
        raise CommandError(str(error)) from error


class _Session:
    """What one command has seen so far."""

    def __init__(self, arguments: argparse.Namespace, output: Output, folder: Folder | None) -> None:
        self.arguments, self.output, self.folder = arguments, output, folder
        self.top: int = getattr(arguments, "top", 5)
        self.count = self.problems = 0
        self.is_interrupted = False
        self.page: Meter | None = None
        self.started = time.perf_counter()
        self.about: dict[str, Any] = {}
        self._told: set[str] = set()
        self._names: dict[str, int] = {}
        self._rows: list[dict[str, Any]] = []

    def begin(self, pipeline: Pipeline) -> None:
        self.about = {
            "schema_version": SCHEMA_VERSION,
            "model": self.arguments.model,
            "device": pipeline.device,
            "task": pipeline.family.task,
            "family": pipeline.family.name,
            "threshold": pipeline.settings.threshold,
            "notes": list(pipeline.notes),
        }
        self._note(pipeline.notes)
        self.started = time.perf_counter()

    def take(self, result: Result) -> None:
        """Save and show one picture."""
        file = None
        if result.problem:
            self.problems += 1
            self.output.complain(f"{result.problem}; skipped")
        else:
            self.count += 1
            self._note(result.notes)
            file = self._save(result) if self.folder is not None else None
            if self.page is not None:
                self.page.show(result)
            show_picture(self.output, result, top=self.top)
        if self.output.is_json:
            self._rows.append(as_json(result, file, top=self.top))

    def _note(self, notes: tuple[str, ...]) -> None:
        """Each note once; programs get them in the JSON."""
        for note in notes:
            if note not in self._told:
                self._told.add(note)
                self.output.complain(f"note: {note}")

    def _save(self, result: Result) -> str:
        """The annotated picture, at once, so that an end of any kind loses nothing."""
        assert self.folder is not None
        stem, suffix = os.path.splitext(os.path.basename(result.name))
        stem = safe_name(stem if "#" not in result.name else result.name)
        kind = "png" if suffix.lower() == ".png" else "jpeg"  # what came without losses stays so
        seen = self._names[stem] = self._names.get(stem, 0) + 1
        name = f"{stem}{'' if seen == 1 else f'_{seen}'}.{'png' if kind == 'png' else 'jpg'}"
        data = BytesIO()
        result.annotated().save(data, kind, quality=_QUALITY)
        about = {"source": result.name, "found": list(result.rows(self.top))}
        self.folder.add_bytes(name, data.getbuffer(), "annotated picture", **about)
        return name

    def speed(self) -> float:
        """Pictures per second."""
        return self.count / max(time.perf_counter() - self.started, 1e-9)

    def end(self) -> int:
        """The index of the saved pictures, the summary, the exit code."""
        self.about |= {"pictures_per_second": self.speed(), "interrupted": self.is_interrupted}
        if self.folder is not None:
            self.folder.finish(**self.about)
        self.output.data({**self.about, "pictures": self._rows})
        show_summary(self.output, self.about, count=self.count, problems=self.problems, saved=self.arguments.save)
        if self.is_interrupted:
            return _INTERRUPTED
        return 2 if self.problems and not self.count else 1 if self.problems else 0
