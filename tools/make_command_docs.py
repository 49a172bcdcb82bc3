"""Writes `docs/commands/`: a page for each command, from the parser that prints `--help`, and an index.

    python tools/make_command_docs.py

A page may begin with text written by hand, up to the line `<!-- options: ... -->`; everything after that line is
generated.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from openrknn.cli.commands import GROUPS, NAMES, load_command
from openrknn.cli.main import EXIT_CODES, build_parser

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tools.command_parsers import argument_groups, help_of, metavar, placeholders, subparsers

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "commands"
MARK = "<!-- options: written by tools/make_command_docs.py -->\n"
_TITLES = {"positional arguments": "Arguments", "options": "Options"}
_INDEX = """# Commands

`openrknn COMMAND --help` prints the same, and `openrknn completion SHELL` completes commands and options.

{table}
## Files that commands write

- An input of the same command is never overwritten, under any name that it has, not even with `--force`
  (`edit --in-place` is the exception, by name).
- Only regular files are written: no device nodes, FIFOs, sockets or directories. Standard output is `-`, for the
  options that allow it.
- A file that exists is overwritten with `--force`, or if it is empty. Reports and traces that openrknn wrote are
  replaced without it; they are recognised by their content, not by their name. Models, sounds and subtitles always
  need `--force`.
- A file is complete or absent: it is written under a temporary name and then renamed. If the disk is full, or you
  press Ctrl-C, the old file stays.

## Exit status

{status}
```{{toctree}}
:hidden:

{names}
```
"""


def pages() -> dict[Path, str]:
    """File -> its text, with the part written by hand as it is now."""
    parsers = subparsers(build_parser(NAMES))
    made = {FOLDER / "index.md": _index()}
    for name in NAMES:
        path = FOLDER / f"{name}.md"
        made[path] = _by_hand(path, name).rstrip("\n") + "\n\n" + MARK + "".join(_generated(name, parsers[name]))
    return made


def _index() -> str:
    table = ""
    for title, members in GROUPS.items():
        table += f"## {title[0].upper()}{title[1:]}\n\n| command | what it does |\n|---|---|\n"
        table += "".join(f"| [`{name}`]({name}.md) | {_cell(load_command(name).HELP)} |\n" for name in members) + "\n"
    status = "| code | meaning |\n|---|---|\n"
    status += "".join(f"| {code} | {_cell(meaning)} |\n" for code, meaning in EXIT_CODES.items())
    return _INDEX.format(table=table.rstrip("\n") + "\n", status=status, names="\n".join(NAMES))


def _by_hand(path: Path, name: str) -> str:
    """What an author wrote at the beginning of the page, or the command's own description."""
    if path.exists() and not (text := path.read_text(encoding="utf-8").split(MARK)[0]).startswith("<!-- generated"):
        return text
    command = load_command(name)
    description = getattr(command, "DESCRIPTION", "") or f"{command.HELP[:1].upper()}{command.HELP[1:]}."
    lines = [f"<!-- generated: replace this line and what follows to write an introduction -->\n# openrknn {name}\n"]
    lines.append(f"{_prose(' '.join(description.split()))}\n")
    return "\n".join(lines) + "\n"


def _generated(name: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    yield "\n## Usage\n"
    yield from _usage(parser)
    if examples := getattr(load_command(name), "EXAMPLES", ()):
        yield "\n## Examples\n\n```text\n" + "".join(map(_example, examples)) + "```\n"
    for inner in subparsers(parser).values():
        yield f"\n## {inner.prog}\n"
        if inner.description:
            yield f"\n{_prose(' '.join(inner.description.split()))}\n"
        yield from _usage(inner)
        yield from _tables(inner, "###")
    yield from _tables(parser, "##")


def _usage(parser: argparse.ArgumentParser) -> Iterator[str]:
    words = [parser.prog, "[OPTION ...]"]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            words.append(f"{action.metavar or 'ACTION'} ...")
        elif action.option_strings and action.required:
            words.append(f"{action.option_strings[-1]} {placeholders(action, metavar(action))}")
        elif not action.option_strings and action.help != argparse.SUPPRESS:
            words.append(placeholders(action, metavar(action)))
    yield f"\n```text\n{' '.join(words)}\n```\n"


def _example(line: str) -> str:
    """The remark goes above the command: beside it, it would be out of sight on a narrow page."""
    command, _, remark = line.partition("  ")
    return f"# {remark.strip()}\n{command}\n" if remark.strip() else f"{command}\n"


def _tables(parser: argparse.ArgumentParser, level: str) -> Iterator[str]:
    for group, shown in argument_groups(parser):
        title = group.title or "options"
        yield f"\n{level} {_TITLES.get(title, title[0].upper() + title[1:])}\n"
        if group.description:
            yield f"\n{_prose(' '.join(group.description.split()))}\n"
        yield "\n| argument | meaning |\n|---|---|\n"
        for action in shown:
            yield f"| {_argument(action)} | {_cell(help_of(action))} |\n"


def _argument(action: argparse.Action) -> str:
    value = placeholders(action, metavar(action))
    if not action.option_strings:
        return _code(value)
    return ", ".join(_code(f"{flag} {value}".strip()) for flag in action.option_strings)


def _code(text: str) -> str:
    return "`" + text.replace("|", "\\|") + "`"


def _prose(text: str) -> str:
    """Help is plain text: options and backticked words become code, other markup characters stay themselves."""
    parts = re.split(r"(`[^`]+`|(?<![\w-])--[a-z][a-z-]*)", text)
    escaped = (re.sub(r"([\\`*_\[\]<>{}$|])", r"\\\1", part) for part in parts[::2])
    code = (*(_code(part.strip("`")) for part in parts[1::2]), "")
    return "".join(f"{plain}{quoted}" for plain, quoted in zip(escaped, code, strict=True))


def _cell(text: str) -> str:
    return _prose(text) or "&nbsp;"


def main() -> int:
    """Write them, and remove pages of commands that no longer exist."""
    made = pages()
    for path in set(FOLDER.glob("*.md")) - set(made):
        if MARK in path.read_text(encoding="utf-8"):
            path.unlink()
    for path, text in made.items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
