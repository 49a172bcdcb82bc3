"""Progress on standard error: a bar at a terminal, and a line now and then in a file or a log."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from openrknn.cli.common.output import Output

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = ["ProgressLines", "Tell", "bar_for", "lines_for", "stages", "waiting"]

Tell = Callable[[str, int, int], None]
"""Takes (stage, done, of)."""
_FIRST, _EVERY = 2.0, 10.0
"""Seconds before the first line, and between lines of one stage."""


class ProgressLines:
    """Lines for work that takes longer than two seconds where no bar can be drawn."""

    def __init__(
        self, write: Callable[[str], None] = Output.complain, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._write, self._clock = write, clock
        self._begun = clock()
        self._last, self._stage = self._begun, ""

    def __call__(self, stage: str, done: int = 0, of: int = 0) -> None:
        """Work has reached this point of a stage."""
        now = self._clock()
        if now - self._begun < _FIRST or (stage == self._stage and now - self._last < _EVERY):
            return
        self._last, self._stage = now, stage
        self._write(f"{stage.strip()} {done}/{of}" if of else f"{stage.strip()} ...")


def lines_for(output: Output) -> ProgressLines | None:
    """Progress as lines; None where no one reads them: --quiet, --json, or `OPENRKNN_PROGRESS=off`."""
    return ProgressLines() if output.is_human and os.environ.get("OPENRKNN_PROGRESS") != "off" else None


@contextmanager
def waiting(
    output: Output, stage: str, *, first: float = _FIRST, write: Callable[[str], None] = Output.complain
) -> Iterator[None]:
    """Lines for work in one piece: the stage and the seconds so far, after two seconds and then every ten."""
    if not stage or lines_for(output) is None:
        yield
        return
    begun, over = time.monotonic(), threading.Event()

    def watch() -> None:
        wait = first
        while not over.wait(wait):
            write(f"{stage} ... {time.monotonic() - begun:.0f} s")
            wait = _EVERY

    thread = threading.Thread(target=watch, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def bar_for(output: Output, *texts: str) -> Iterator[Progress | None]:
    """A bar with these texts around it (the first one on its left), and the time; None in JSON and quiet mode."""
    if not output.is_human or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    left, *right = map(TextColumn, texts)
    with Progress(left, BarColumn(), *right, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as bar:
        yield bar


@contextmanager
def stages(output: Output) -> Iterator[Tell]:
    """Takes (stage, done, of): a bar on a terminal, lines elsewhere."""
    with bar_for(output, "{task.description}", "{task.completed}/{task.total}") as bar:
        if bar is None:
            lines = lines_for(output)
            yield lines if lines is not None else lambda stage, done, of: None
            return
        from rich.progress import TextColumn, TimeRemainingColumn

        bar.columns = (*bar.columns, TextColumn("left"), TimeRemainingColumn())
        task = bar.add_task("", total=1)
        seen = [""]

        def tell(stage: str, done: int, of: int) -> None:
            if stage != seen[-1]:  # time that is left is counted from the start of the stage
                seen.append(stage)
                bar.reset(task, total=max(of, 1))
            bar.update(task, description=f"{stage:9}", completed=done, total=max(of, 1))

        yield tell
