"""`openrknn COMMAND`: find the command, run it, and turn every failure into one line and an exit code."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import io
import os
import sys
import textwrap
from collections.abc import Sequence
from typing import NoReturn

from openrknn import __version__
from openrknn.cli.commands import GROUPS, NAMES, Command, load_command
from openrknn.cli.files import os_problem
from openrknn.cli.output import CommandError, Mode, Output
from openrknn.errors import RknnError

__all__ = ["build_parser", "main"]

EXIT_IMPOSSIBLE = 2
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141

_NAME_WIDTH = 13
_TEXT_WIDTH = 78

_DESCRIPTION = "Run, look into, make and serve .rknn models for Rockchip NPUs, with or without a board."
_EPILOG = """examples:
  openrknn run model.rknn -i cat.jpg   run it: here, without a board
  openrknn inspect model.rknn          what is in it, what to feed, what to expect
  openrknn COMMAND --help              everything about one command

exit codes: 0 well, 1 something is wrong with the model, 2 it could not be done"""


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Room for our longest option, so that its help starts on the same line."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=32)


class _Parser(argparse.ArgumentParser):
    """One line instead of argparse's several."""

    def error(self, message: str) -> NoReturn:
        Output.complain(f"{message}; see `{self.prog} --help`")
        raise SystemExit(EXIT_IMPOSSIBLE)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    _tolerant_streams()
    debug = "--debug" in words
    try:
        code = _run(words)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        _forget_stdout()
        return EXIT_BROKEN_PIPE
    except (CommandError, RknnError, OSError) as error:
        if debug:
            raise
        Output.complain(os_problem(error) if isinstance(error, OSError) else str(error))
        return EXIT_IMPOSSIBLE


def _run(words: list[str]) -> int:
    wanted = next((word for word in words if not word.startswith("-")), None)
    if wanted is not None and wanted not in NAMES:
        raise CommandError(_unknown(wanted))
    parser = build_parser(NAMES if wanted is None else (wanted,))
    arguments = parser.parse_args(words)
    if wanted is None:
        parser.print_help(sys.stderr)
        return EXIT_IMPOSSIBLE
    command: Command = arguments.command_module
    return command.run(arguments, _output(arguments))


def _unknown(word: str) -> str:
    if word.endswith(".rknn") or os.path.exists(word):
        return f"{word!r} is a file, not a command; try `openrknn inspect {word}`"
    close = difflib.get_close_matches(word, NAMES, n=1)
    guess = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(NAMES)}"
    return f"there is no command {word!r}; {guess}"


def build_parser(commands: Sequence[str]) -> argparse.ArgumentParser:
    """The parser for these commands; the modules of the others are not imported."""
    parser = _Parser(
        prog="openrknn",
        usage="openrknn [-h] [--version] [--debug] COMMAND ...",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=_Formatter,
    )
    parser.add_argument("--version", action="version", version=f"openrknn {__version__}")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    # argparse lists all commands in one heap; people look for what they want to do.
    subparsers = parser.add_subparsers(prog="openrknn", metavar="COMMAND", parser_class=_Parser, help=argparse.SUPPRESS)
    loaded = {name: load_command(name) for name in commands}
    for command in loaded.values():
        _add_command(subparsers, command)
    for title, members in GROUPS.items():
        present = [loaded[name] for name in members if name in loaded]
        if present:
            parser.add_argument_group(title, "\n".join(map(_line, present)))
    return parser


def _line(command: Command) -> str:
    indent = " " * (_NAME_WIDTH + 2)
    text = textwrap.wrap(command.HELP, width=_TEXT_WIDTH, initial_indent=indent, subsequent_indent=indent)
    return f"{command.NAME:<{_NAME_WIDTH}}  " + "\n".join(text).lstrip()


def _add_command(subparsers: argparse._SubParsersAction[_Parser], command: Command) -> None:
    examples: Sequence[str] = getattr(command, "EXAMPLES", ())
    parser = subparsers.add_parser(
        command.NAME,
        help=command.HELP,
        description=(getattr(command, "DESCRIPTION", "") or command.HELP[:1].upper() + command.HELP[1:] + "."),
        epilog="\n".join(["examples:", *(f"  {example}" for example in examples)]) if examples else None,
        formatter_class=_Formatter,
        # A command may declare one of the common options itself, with its own words.
        conflict_handler="resolve",
    )
    common = parser.add_argument_group("output")
    common.add_argument("--json", action="store_true", help="JSON for programs instead of text for people")
    common.add_argument("-q", "--quiet", action="store_true", help="print only what was asked for")
    common.add_argument("--color", choices=("auto", "always", "never"), default="auto", help="auto honours NO_COLOR")
    common.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help="show tracebacks")
    command.add_arguments(parser)
    parser.set_defaults(command_module=command)


def _output(arguments: argparse.Namespace) -> Output:
    mode = Mode.JSON if arguments.json else Mode.QUIET if arguments.quiet else Mode.HUMAN
    return Output(mode, color=arguments.color)


def _tolerant_streams() -> None:
    """A terminal that cannot show a character gets an escape instead of an exception."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _forget_stdout() -> None:
    """The reader is gone; without this Python complains about it once more at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
