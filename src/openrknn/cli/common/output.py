"""Where a command's output goes: text for people, JSON for programs, or only the result.

Names in a `.rknn` come from a stranger. They are shown through `printable`, so that none of them can send commands to
the terminal, and rich's markup is switched off.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

__all__ = ["CommandError", "Mode", "Output", "printable", "reason_of"]

_PIPE_COLUMNS = 120


class CommandError(Exception):
    """What was asked for is not possible; the message is one line that says why and what to do."""


class Mode(Enum):
    """Who reads the output."""

    HUMAN = "human"
    JSON = "json"
    QUIET = "quiet"


class Output:
    """The one place through which commands speak."""

    def __init__(self, mode: Mode = Mode.HUMAN, *, color: str = "auto", stream: TextIO | None = None) -> None:
        self.mode = mode
        self.stream = sys.stdout if stream is None else stream
        self._color = color

    @property
    def is_human(self) -> bool:
        return self.mode is Mode.HUMAN

    @property
    def is_json(self) -> bool:
        return self.mode is Mode.JSON

    @property
    def uses_color(self) -> bool:
        """`--color` decides; left alone, NO_COLOR and dumb terminals are honoured."""
        if self._color != "auto":
            return self._color == "always"
        return self.stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"

    @cached_property
    def console(self) -> Console:
        """rich's view of the stream; a pipe has no width, so it gets a comfortable one."""
        from rich.console import Console

        width = None if self.stream.isatty() or os.environ.get("COLUMNS") else _PIPE_COLUMNS
        return Console(
            file=self.stream,
            width=width,
            no_color=not self.uses_color,
            force_terminal=True if self._color == "always" else None,
            markup=False,
            emoji=False,
            highlight=False,
        )

    def show(self, *things: RenderableType) -> None:
        """Draw something for people; nothing in the other modes."""
        if not self.is_human:
            return
        for thing in things:
            if self.stream.isatty():
                self.console.print(thing)
            else:
                self.stream.write(self._without_padding(thing))

    def _without_padding(self, thing: RenderableType) -> str:
        """rich fills lines up with blanks; they are removed in files."""
        with self.console.capture() as capture:
            self.console.print(thing)
        return "".join(f"{line.rstrip()}\n" for line in capture.get().splitlines())

    def line(self, text: str = "") -> None:
        """A plain line for people, for long listings: not wrapped, not coloured."""
        if self.is_human:
            self.stream.write(printable(text) + "\n")

    def next_step(self, text: str) -> None:
        """The end of what people read: what to do now."""
        from rich.text import Text

        self.show(Text(f"next: {printable(text)}"))

    def styled(self, *parts: tuple[str, str]) -> None:
        """A line of (text, style) parts, for long listings: rich would take minutes for a million lines."""
        if self.is_json:
            return
        if self._colored:
            line = "".join(_paint(printable(text), style) for text, style in parts)
        else:
            line = printable("".join([text for text, _ in parts]))
        self.stream.write(line.rstrip(" ") + "\n")

    @cached_property
    def _colored(self) -> bool:
        return self.uses_color

    def value(self, text: str) -> None:
        """The one thing that was asked for: printed in quiet mode too."""
        if not self.is_json:
            self.stream.write(printable(text) + "\n")

    def data(self, value: object) -> None:
        """The whole result for programs; nothing in the other modes."""
        if self.is_json:
            # Plain ASCII: no terminal and no encoding can misread it.
            json.dump(value, self.stream, indent=2, allow_nan=False)
            self.stream.write("\n")

    @staticmethod
    def complain(text: str, *, page: str | None = None) -> None:
        """A message on standard error, red in front on a terminal with colours, and where `page` explains it."""
        stream = sys.stderr
        paints = stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        with contextlib.suppress(OSError):  # nothing reads it; the exit code remains
            stream.write(f"{_paint('openrknn:', 'red' if paints else '')} {printable(text)}\n")
            if page is not None:
                stream.write(f"see: {page}\n")


_PAINT = {"bold": "1", "dim": "2", "red": "1;31"}


def _paint(text: str, style: str) -> str:
    return f"\x1b[{_PAINT[style]}m{text}\x1b[0m" if style and text else text


def _escapes() -> dict[int, str]:
    controls = [*range(0x20), *range(0x7F, 0xA0)]
    # Marks that turn the direction of text, and line separators: what is shown would not be what is there.
    tricks = [0x061C, *range(0x200B, 0x2010), *range(0x2028, 0x202F), *range(0x2060, 0x2070), 0xFEFF]
    surrogates = range(0xD800, 0xE000)
    return {code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" for code in (*controls, *tricks, *surrogates)}


_ESCAPES = _escapes()


def printable(text: str) -> str:
    """`text` on one line, with everything that a terminal could obey written out as an escape."""
    return text if text.isascii() and text.isprintable() else text.translate(_ESCAPES)


def reason_of(error: OSError | UnicodeDecodeError) -> str:
    """Why a text file cannot be read, without the name of the file, which is said already."""
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start} is not UTF-8"
    return (error.strerror or str(error)).lower()
