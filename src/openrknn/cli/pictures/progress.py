"""A bar for pictures under way, with pictures per second."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from openrknn.cli.common.output import Output

__all__ = ["progress"]


@contextmanager
def progress(output: Output, total: int | None) -> Iterator[Callable[[int, float], None]]:
    """On standard error, for people at a terminal only; without a total it just counts."""
    if not output.is_human or not sys.stderr.isatty() or total == 1:
        yield lambda count, speed: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("pictures"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[speed]:.2f} per second"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("pictures", total=total, speed=0.0)
        yield lambda count, speed: bar.update(task, completed=count, speed=speed)
