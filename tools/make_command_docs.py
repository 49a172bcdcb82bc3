"""Writes `docs/commands/all.md`: every command with its help, as the program prints it.

python tools/make_command_docs.py
"""

from __future__ import annotations

import argparse
import os
import textwrap
from collections.abc import Iterator
from pathlib import Path

from openrknn.cli.commands import GROUPS, NAMES
from openrknn.cli.main import build_parser

PAGE = Path(__file__).parents[1] / "docs" / "commands" / "all.md"
_WIDTH = "100"
_HEAD = """# All commands

What `openrknn COMMAND --help` prints. This page is made by `python tools/make_command_docs.py`.

Files that commands write follow one rule:

- An input of the same command is never overwritten, under any name that it has, not even with `--force`
  (`edit --in-place` says so itself).
- Only regular files are written: no device nodes, FIFOs, sockets or directories. Standard output is `-`, for the
  options that say so.
- A file that exists is overwritten with `--force`, or if it is empty. Reports and traces that openrknn wrote are
  replaced without it; they are recognised by their content, not by their name. Models, sounds and subtitles always
  need `--force`.
- A file is complete or not there: it is written beside its place and then renamed. If the disk is full, or you press
  Ctrl-C, the old file stays.
"""


def page() -> str:
    """The page as Markdown."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = _WIDTH  # argparse asks for the width of the terminal
    try:
        return "\n".join([_HEAD, *_sections()])
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before


def _sections() -> Iterator[str]:
    parsers = _parsers(build_parser(NAMES))
    for title, members in GROUPS.items():
        yield f"## {title[0].upper()}{title[1:]}\n"
        for name in members:
            if name in parsers:
                yield f"### {name}\n"
                yield from _help(parsers[name])


def _help(parser: argparse.ArgumentParser) -> Iterator[str]:
    yield f"```text\n{textwrap.dedent(parser.format_help()).rstrip()}\n```\n"
    for inner in _parsers(parser).values():
        yield f"```text\n{textwrap.dedent(inner.format_help()).rstrip()}\n```\n"


def _parsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def main() -> int:
    """Write it."""
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
