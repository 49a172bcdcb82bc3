"""How segments are shown: lines, lines with a growing one below them, or JSON lines."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from openrknn.cli.common.output import Output, printable

if TYPE_CHECKING:
    from rich.live import Live

    from openrknn.voice import Segment

__all__ = ["Screen", "screen_for", "tell_lines"]


class Screen(Protocol):
    """Takes segments as they arrive."""

    def tell(self, segment: Segment) -> None:
        """Show one, partial or final."""


@contextmanager
def screen_for(output: Output, *, is_live: bool, is_late: bool = False) -> Iterator[Screen]:
    """The screen for an output; `is_late`: unless live, the caller prints all lines at the end (`tell_lines`)."""
    if is_live and output.is_json:
        yield _JsonLines(output)
    elif not output.is_human or (is_late and not is_live):
        yield _Nothing()
    elif is_live and output.stream.isatty() and os.environ.get("TERM") != "dumb":
        from rich.live import Live

        with Live(console=output.console, transient=True, refresh_per_second=8) as live:
            yield _Growing(output, live)
    else:
        yield _Lines(output)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(int(minutes), 60)
    return f"{hours}:{minutes:02}:{rest:05.2f}" if hours else f"{minutes:02}:{rest:05.2f}"


def tell_lines(output: Output, segments: Iterable[Segment]) -> None:
    """Segments that are all known, a line each."""
    lines = _Lines(output)
    for segment in segments:
        lines.tell(segment)


class _Nothing:
    def tell(self, segment: Segment) -> None:
        """JSON and the bare text come at the end."""


class _JsonLines:
    def __init__(self, output: Output) -> None:
        self._stream = output.stream

    def tell(self, segment: Segment) -> None:
        """One object a line, at once: somebody is waiting at the other end of the pipe."""
        self._stream.write(json.dumps(segment.as_json()) + "\n")
        self._stream.flush()


class _Lines:
    def __init__(self, output: Output) -> None:
        self._output = output

    def tell(self, segment: Segment) -> None:
        """Final ones only: a line that was printed cannot be taken back."""
        if segment.final and segment.text:
            times = f"[{_clock(segment.start)} - {_clock(segment.end)}]"
            name = f" {segment.speaker}:" if segment.speaker else ""
            self._output.styled((times, "dim"), (f"{name} {segment.text}", ""))
            self._output.stream.flush()


class _Growing:
    """Final segments as lines, the one that is being spoken below them, in gray."""

    def __init__(self, output: Output, live: Live) -> None:
        self._lines, self._live = _Lines(output), live

    def tell(self, segment: Segment) -> None:
        from rich.text import Text

        if segment.final:
            self._live.update(Text(""))
            if segment.text:
                line = Text(f"[{_clock(segment.start)} - {_clock(segment.end)}]", style="dim")
                self._live.console.print(line.append(f" {printable(segment.text)}", style="default"))
        else:
            self._live.update(Text(f"[{_clock(segment.start)} ...] {printable(segment.text)}", style="dim italic"))
