"""Writes man pages: `openrknn.1`, and `openrknn-COMMAND.1` for each command, from the parser that prints `--help`.

    python tools/make_man_pages.py FOLDER       packages put them in share/man/man1
    man -l FOLDER/openrknn-compile.1

Roff has few rules, and these are kept here: a backslash is `\\e`, a minus to copy into a shell is `\\-`, and a
line of text does not begin with a dot or an apostrophe. Nothing in a page depends on the time, the machine or the
terminal (`SOURCE_DATE_EPOCH` may date the pages), so two builds make the same files.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from openrknn import __version__
from openrknn.cli.commands import GROUPS, NAMES, load_command
from openrknn.cli.main import DESCRIPTION, EXAMPLES, EXIT_CODES, build_parser

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tools.command_parsers import argument_groups, help_of, metavar, placeholders, subparsers

_ROFF = {
    "\\": r"\e", "-": r"\-", "'": r"\(aq", '"': r"\(dq", "`": r"\(ga", "^": r"\(ha", "~": r"\(ti"
}  # fmt: skip
"""Characters that roff reads as something else, or that it would draw as typographers do."""


def pages() -> dict[str, str]:
    """File name -> the page."""
    parser = build_parser(NAMES)
    commands = subparsers(parser)
    made = {"openrknn.1": _main_page(parser)}
    for name in NAMES:
        made[f"openrknn-{name}.1"] = _command_page(name, commands[name])
    return made


def _main_page(parser: argparse.ArgumentParser) -> str:
    lines = [_title("openrknn"), ".SH NAME", r"openrknn \- the open RKNN stack for Rockchip NPUs"]
    lines += [".SH SYNOPSIS", ".B openrknn", r"[\fB\-\-version\fR] [\fB\-\-debug\fR] \fICOMMAND\fR ..."]
    lines += [".SH DESCRIPTION", _text(DESCRIPTION)]
    lines += [".PP", r"Each command has a page of its own: \fBopenrknn\-\fICOMMAND\fR(1)."]
    lines += [".SH COMMANDS"]
    for title, members in GROUPS.items():
        lines += [f".SS {_heading(title)}"]
        for name in members:
            lines += [".TP", rf"\fB{_text(f'openrknn-{name}')}\fR(1)", _text(load_command(name).HELP)]
    lines += [*_arguments(parser), *_examples(EXAMPLES), *_exit_status()]
    lines += [*_environment()]
    return _page(lines)


def _command_page(name: str, parser: argparse.ArgumentParser) -> str:
    command = load_command(name)
    lines = [_title(f"openrknn-{name}"), ".SH NAME", rf"{_text(f'openrknn-{name}')} \- {_text(command.HELP)}"]
    lines += [".SH SYNOPSIS", *_usage(parser)]
    inner = subparsers(parser)
    for one in inner.values():
        lines += [".br", *_usage(one)]
    description = getattr(command, "DESCRIPTION", "") or f"{command.HELP[:1].upper()}{command.HELP[1:]}."
    lines += [".SH DESCRIPTION", _text(" ".join(description.split()))]
    lines += _arguments(parser)
    for word, one in inner.items():
        lines += [f".SH {_heading(f'openrknn {name} {word}')}", _text(" ".join((one.description or "").split()))]
        lines += _arguments(one, level=".SS")
    lines += [*_examples(getattr(command, "EXAMPLES", ())), *_exit_status()]
    lines += [".SH SEE ALSO", r"\fBopenrknn\fR(1)"]
    return _page(lines)


# ---------------------------------------------------------------- parts of a page


def _title(name: str) -> str:
    return f'.TH {_text(name.upper())} 1 "{_date()}" "openrknn {_text(__version__)}" "openrknn"'


def _date() -> str:
    """Of the sources if the build says so; none otherwise, for a page of today would be another one tomorrow."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    return time.strftime("%Y-%m-%d", time.gmtime(int(epoch))) if epoch.isdigit() else ""


def _usage(parser: argparse.ArgumentParser) -> Iterator[str]:
    """The command's words, its options in brackets, what it takes: each on a line that may break anywhere."""
    yield rf"\fB{_text(parser.prog)}\fR"
    for action in parser._actions:
        if action.help == argparse.SUPPRESS and not isinstance(action, argparse._SubParsersAction):
            continue
        if action.option_strings:
            flag = action.option_strings[-1]
            shown = rf"\fB{_text(flag)}\fR{_value(action)}"
            yield shown if action.required else f"[{shown}]"
        elif isinstance(action, argparse._SubParsersAction):
            yield r"\fI" + _text(str(action.metavar or "ACTION")) + r"\fR ..."
        else:
            yield _positional(action)


def _positional(action: argparse.Action) -> str:
    return placeholders(action, rf"\fI{_text(metavar(action))}\fR")


def _value(action: argparse.Action) -> str:
    return f" {shown}" if (shown := _positional(action)) else ""


def _arguments(parser: argparse.ArgumentParser, level: str = ".SH") -> Iterator[str]:
    for group, shown in argument_groups(parser):
        title = {"positional arguments": "arguments"}.get(group.title or "", group.title or "options")
        yield f"{level} {_heading(title.upper() if level == '.SH' else title)}"
        if group.description:
            yield _text(" ".join(group.description.split()))
        yield from _options(shown)


def _options(actions: Sequence[argparse.Action]) -> Iterator[str]:
    for action in actions:
        yield ".TP"
        if action.option_strings:
            yield ", ".join(rf"\fB{_text(flag)}\fR" for flag in action.option_strings) + _value(action)
        else:
            yield _positional(action)
        yield _text(help_of(action)) or r"\&"


def _examples(examples: Sequence[str]) -> Iterator[str]:
    if not examples:
        return
    yield ".SH EXAMPLES"
    for number, line in enumerate(examples):
        command, _, remark = line.partition("  ")
        if number:
            yield ".PP"
        yield from (".nf", _text(command), ".fi")
        if remark.strip():
            yield from (".RS 4", _text(remark.strip()), ".RE")


def _exit_status() -> Iterator[str]:
    yield ".SH EXIT STATUS"
    for code, meaning in EXIT_CODES.items():
        yield from (".TP", rf"\fB{code}\fR", meaning)


def _environment() -> Iterator[str]:
    yield ".SH ENVIRONMENT"
    for name, meaning in (
        ("OPENRKNN_DEVICE", "the device where none is asked for: software, rknpu, rocket, vendor or auto"),
        ("OPENRKNN_KERNELS", "numpy: compute without the native library"),
        ("OPENRKNN_CACHE", "where models and prepared programs are kept, or off"),
        ("OPENRKNN_PROGRESS", "off: no lines about progress where there is no terminal"),
        ("NO_COLOR", "no colours"),
    ):
        yield from (".TP", rf"\fB{_text(name)}\fR", _text(meaning))


# ---------------------------------------------------------------- roff


def _text(text: str) -> str:
    """Plain text as roff takes it."""
    text = "".join(_ROFF.get(char, char if ord(char) < 128 else f"\\[u{ord(char):04X}]") for char in text)
    return rf"\&{text}" if text.startswith(".") else text


def _heading(text: str) -> str:
    return f'"{_text(text)}"'


def _page(lines: list[str]) -> str:
    return "\n".join(line for line in lines if line) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Write them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="where they go; it is made")
    folder: Path = parser.parse_args(argv).folder
    folder.mkdir(parents=True, exist_ok=True)
    for name, page in pages().items():
        (folder / name).write_text(page, encoding="ascii", newline="\n")
    print(f"wrote {len(NAMES) + 1} pages into {folder}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
