"""What can follow on a line that is being typed, as the parser of its command sees the line."""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
from collections.abc import Iterator, Sequence

from openrknn.cli.commands import NAMES, load_command
from openrknn.cli.completing.candidates import found_for
from openrknn.cli.completing.values import values_of
from openrknn.cli.main import build_parser

__all__ = ["complete"]

Row = tuple[str, str]
"""A value, and what it is; see `scripts`."""


def complete(line: str) -> list[Row]:
    """What the last word of the line can become. Nothing is ever complained about: it would spoil the line."""
    *before, current = _words(line)
    command = next((word for word in before if not word.startswith("-")), None)
    if command is None:
        names = [(name, load_command(name).HELP) for name in NAMES if name.startswith(current)]
        return [*names, *((flag, "") for flag in ("--help", "--version", "--debug") if flag.startswith(current))]
    if command not in NAMES:
        return []
    subparsers = build_parser((command,))._actions
    parser = next(one for one in subparsers if isinstance(one, argparse._SubParsersAction)).choices[command]
    option, argument = _place(parser, before[before.index(command) + 1 :])
    flag, equals, value = current.partition("=")
    if option is None and equals and flag in parser._option_string_actions:
        rows = _rows(command, parser._option_string_actions[flag], [*before, value])
        return [(text if text.startswith(":") else f"{flag}={text}", what) for text, what in rows]
    if option is None and current.startswith("-"):
        shown = [(one, (one.help or "").replace("%%", "%")) for one in parser._actions if one.help != argparse.SUPPRESS]
        return [(name, text) for one, text in shown for name in one.option_strings if name.startswith(current)]
    action = option or argument
    return [] if action is None else list(_rows(command, action, [*before, current]))


def _words(line: str) -> list[str]:
    """The words after `openrknn`; the last one is being typed, and may be empty or in open quotes."""
    words, is_open = line.split(), False
    for end in ("", "'", '"', "\\"):
        with contextlib.suppress(ValueError):
            words, is_open = shlex.split(line + end), bool(end)
            break
    names = [os.path.basename(word) for word in words]
    words = words[names.index("openrknn") + 1 :] if "openrknn" in names else words[1:]
    return [*words, ""] if not words or (line[-1:].isspace() and not is_open) else words


def _place(
    parser: argparse.ArgumentParser, words: Sequence[str]
) -> tuple[argparse.Action | None, argparse.Action | None]:
    """(the option whose value follows these words, the argument that follows them otherwise)."""
    option, number = None, 0
    for word in words:
        if option is None and word.startswith("-") and len(word) > 1:
            found = parser._option_string_actions.get(word)
            option = found if found is not None and found.nargs != 0 else None
        else:
            number += option is None
            option = None
    arguments = [one for one in parser._actions if not one.option_strings and one.help != argparse.SUPPRESS]
    if arguments and arguments[-1].nargs in ("*", "+", argparse.REMAINDER):
        number = min(number, len(arguments) - 1)
    return option, arguments[number] if number < len(arguments) else None


def _rows(command: str, action: argparse.Action, words: Sequence[str]) -> Iterator[Row]:
    values = values_of(command, action)
    yield from ((word, "") for word in values.words if word.startswith(words[-1]))
    yield from ((word, "") for word in found_for(values.ask, words))
    if values.files:
        yield ":files", " ".join(values.files).strip()
    elif values.folders:
        yield ":folders", ""
