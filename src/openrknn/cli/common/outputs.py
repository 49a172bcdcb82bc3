"""What commands may write: one rule for every option that names an output.

Options that write are declared with `action=OutputFile` or `action=OutputFolder`. Before the command runs, `main`
checks what they name:

- never an input of the same command, under any name that it has (links, hard links), not even with --force
- only a regular file: no device node, FIFO, socket or directory; "-" and /dev/stdout where an option allows it
- an existing file only with --force, if it is empty, or if its content is of the option's `kind`: what openrknn wrote
  before is recognised by its first bytes, not by its name
- two outputs of a command are two files

Files are written by `openrknn.wholefiles`, which checks inputs and regular files once more: atomically or not at all.
"""

from __future__ import annotations

import argparse
import glob
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from openrknn.cli.common.output import CommandError
from openrknn.errors import OutputError
from openrknn.wholefiles import check_regular, is_input, protected

__all__ = [
    "BUNDLE", "CDI", "JUNIT", "PAGE", "SARIF", "TEXT", "TIMESTAMPS", "TRACE", "VERDICTS", "Kind", "OutputFile",
    "OutputFolder", "add_force", "check_file", "check_outputs", "input_paths",
]  # fmt: skip

_HEAD_BYTES = 1 << 16
_STDOUT = frozenset({"/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"})


class Kind(NamedTuple):
    """A kind of output that a later run may replace: how it begins, and what its first 64 KiB contain."""

    title: str
    start: bytes
    signs: tuple[bytes, ...]

    def is_in(self, head: bytes) -> bool:
        """Whether a file that begins with `head` is of this kind."""
        if self is TEXT:
            return b"\0" not in head
        return head.startswith(self.start) and all(sign in head for sign in self.signs)


_ZIP = b"PK\x03\x04"
PAGE = Kind("a page of openrknn", b"<!doctype html>", (b'<meta name="generator" content="openrknn"',))
JUNIT = Kind("a JUnit report of openrknn", b"<?xml", (b'<testsuites name="openrknn check"',))
SARIF = Kind("a SARIF report of openrknn", b"{", (b"sarif", b'"name": "openrknn check"'))
TRACE = Kind("a trace of openrknn", _ZIP, (b"trace.json",))
BUNDLE = Kind("a report of `openrknn doctor`", _ZIP, (b"README.txt", b"findings.json"))
CDI = Kind("a CDI file of openrknn", b"{", (b'"cdiVersion"', b'"rockchip.com/npu"'))
VERDICTS = Kind("a report of `openrknn verify`", b"{", (b'"tool": "openrknn verify"',))
TIMESTAMPS = Kind("a file of traces of `openrknn serve`", b'[{"id": ', (b'"timestamps"',))
TEXT = Kind("a text", b"", ())
"""To append to: any text."""


class OutputFile(argparse.Action):
    """An option or argument that names a file to write.

    `kind`: what may be replaced without --force; None: nothing. `stdout`: "-" is standard output. `is_folder`: whether
    the option names a folder instead, for these arguments. `makes_folder`: the command makes the folder of the file.
    """

    def __init__(
        self,
        *words: Any,
        kind: Kind | None = None,
        stdout: bool = False,
        is_folder: Callable[[argparse.Namespace], bool] = lambda _: False,
        makes_folder: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(*words, **options)
        self.kind, self.stdout, self.is_folder = kind, stdout, is_folder
        self.makes_folder = makes_folder

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        setattr(namespace, self.dest, "-" if self.stdout and str(values) in _STDOUT else values)


class OutputFolder(argparse.Action):
    """An option or argument that names a folder to write to; the command says what it does with files in it.

    `is_used`: whether anything is written, with these arguments.
    """

    def __init__(
        self, *words: Any, is_used: Callable[[argparse.Namespace], bool] = lambda _: True, **options: Any
    ) -> None:
        super().__init__(*words, **options)
        self.is_used = is_used

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        setattr(namespace, self.dest, values)


def add_force(parser: argparse.ArgumentParser) -> None:
    """--force, where a command writes files and has no such option of its own."""
    has_output = any(isinstance(action, OutputFile) for action in parser._actions)
    if has_output and "--force" not in parser._option_string_actions:
        parser.add_argument("--force", action="store_true", help="overwrite a file that openrknn did not write")


def check_outputs(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    """All outputs that the arguments name, before any work is done."""
    seen: dict[str, str] = {}
    for action in parser._actions:
        value = getattr(arguments, action.dest, None) if isinstance(action, OutputFile | OutputFolder) else None
        if value is None or (isinstance(action, OutputFile) and action.stdout and value == "-"):
            continue
        path, name = str(value), "/".join(action.option_strings) or str(action.metavar)
        if not path:
            raise CommandError(f"{name}: the name is empty; give a file name")
        place = os.path.realpath(path)
        if place in seen:
            raise CommandError(f"{path}: {seen[place]} and {name} would both write to it; choose two names")
        seen[place] = name
        if isinstance(action, OutputFile) and not action.is_folder(arguments):
            check_file(path, arguments, action.kind, makes_folder=action.makes_folder)
        elif not isinstance(action, OutputFolder) or action.is_used(arguments):
            _check_folder(path)


def check_file(
    path: str, arguments: argparse.Namespace, kind: Kind | None = None, *, makes_folder: bool = False
) -> None:
    """One file that would be written; for names that a command makes itself."""
    try:
        check_regular(path)
    except OutputError as error:
        raise CommandError(str(error)) from None
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or error}") from None
    folder = os.path.dirname(os.path.realpath(path))
    if makes_folder:
        _check_folder(folder)
    elif not os.path.isdir(folder):
        raise CommandError(f"{path}: no such directory {folder}; create it, or choose another")
    elif not os.access(folder, os.W_OK | os.X_OK):
        raise CommandError(f"{path}: the directory {folder} is not writable; choose another")
    if not os.path.exists(path):
        return
    with protected(path for path in _words(arguments) if not os.path.isdir(path)):
        if is_input(path):
            in_place = ", or use --in-place" if hasattr(arguments, "in_place") else ""
            raise CommandError(f"{path}: this is an input of the command; choose another name{in_place}")
    if getattr(arguments, "force", False):
        return
    with open(path, "rb") as file:
        head = file.read(_HEAD_BYTES)
    if head and kind is None:
        raise CommandError(f"{path}: already exists; choose another name, or use --force to overwrite it")
    if head and kind is not None and not kind.is_in(head):
        raise CommandError(
            f"{path}: already exists and is not {kind.title}; choose another name, or use --force to overwrite it"
        )


def _check_folder(path: str) -> None:
    if os.path.lexists(path) and not os.path.isdir(path):
        raise CommandError(f"{path}: this is not a directory; give the name of a directory")
    existing = os.path.realpath(path)
    while not os.path.exists(existing):
        existing = os.path.dirname(existing)
    if not os.path.isdir(existing):
        raise CommandError(f"{path}: {existing} is a file; give the name of a directory")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise CommandError(f"{path}: the directory {existing} is not writable; choose another")


def input_paths(arguments: argparse.Namespace) -> list[str]:
    """Files and folders that the arguments name and that are not outputs."""
    return [path for path in _words(arguments) if os.path.exists(path)]


def _words(arguments: argparse.Namespace) -> Iterator[str]:
    """Every word of the arguments that can be a path, also the FILE of NAME=FILE and what a pattern matches."""
    parser = getattr(arguments, "command_parser", None)
    outputs = {
        action.dest for action in (parser._actions if parser else ()) if isinstance(action, OutputFile | OutputFolder)
    }
    values: Mapping[str, Any] = vars(arguments)
    for name, value in values.items():
        if name in outputs:
            continue
        for word in value if isinstance(value, list | tuple) else (value,):
            if isinstance(word, str | Path) and "\0" not in str(word):
                yield str(word)
                yield str(word).partition("=")[2] or str(word)
                if glob.has_magic(str(word)) and not os.path.exists(word):
                    yield from glob.glob(str(word), recursive=True)
