"""Work in stages, for people who wait."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from openrknn.cli.common.output import Output

__all__ = ["stages"]


@contextmanager
def stages(output: Output) -> Iterator[Callable[[str, int, int], None]]:
    """A bar that is told (stage, done, of), on a terminal; nothing elsewhere."""
    if not output.is_human or not sys.stderr.isatty():
        yield lambda stage, done, of: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"), TimeElapsedColumn(),
        TextColumn("left"), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=1)
        seen = [""]

        def tell(stage: str, done: int, of: int) -> None:
            if stage != seen[-1]:  # time that is left is counted from the start of the stage
                seen.append(stage)
                bar.reset(task, total=max(of, 1))
            bar.update(task, description=f"{stage:9}", completed=done, total=max(of, 1))

        yield tell
