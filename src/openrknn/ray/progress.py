"""A bar that says how far a job is."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

__all__ = ["Bar"]

Progress = Callable[[int, int, int], None]


class Bar:
    """Chooses: a function of the user's, a bar on a terminal, or nothing."""

    @staticmethod
    @contextlib.contextmanager
    def of(wanted: bool | Progress | None, total: int) -> Iterator[Progress]:
        """What to call with: done, in all, errors."""
        if callable(wanted):
            yield wanted
            return
        if wanted is False or (wanted is None and not sys.stderr.isatty()):
            yield lambda done, total, errors: None
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[errors]}"), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True)) as bar:
            task = bar.add_task("items", total=total, errors="")

            def show(done: int, total: int, errors: int) -> None:
                bar.update(task, completed=done, total=total, errors=f"{errors} failed" if errors else "")

            yield show
