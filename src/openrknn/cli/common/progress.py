"""Bars on standard error, for people who wait at a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from openrknn.cli.common.output import Output

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = ["bar_for", "stages"]


@contextmanager
def bar_for(output: Output, *texts: str) -> Iterator[Progress | None]:
    """A bar with these texts around it (the first one on its left), and the time; None where nobody looks."""
    if not output.is_human or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    left, *right = map(TextColumn, texts)
    with Progress(left, BarColumn(), *right, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as bar:
        yield bar


@contextmanager
def stages(output: Output) -> Iterator[Callable[[str, int, int], None]]:
    """A bar that is told (stage, done, of), on a terminal; nothing elsewhere."""
    with bar_for(output, "{task.description}", "{task.completed}/{task.total}") as bar:
        if bar is None:
            yield lambda stage, done, of: None
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
