"""`openrknn COMMAND`: find the command, run it, and turn every failure into one line and an exit code."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import io
import os
import re
import shutil
import signal
import sys
import textwrap
import warnings
from collections.abc import Iterable, Iterator, Sequence
from types import FrameType
from typing import Any, NoReturn, cast

from openrknn import __version__
from openrknn.cli.commands import GROUPS, NAMES, RENAMED, Command, load_command
from openrknn.cli.common.explained import page_for
from openrknn.cli.common.files import os_problem
from openrknn.cli.common.output import CommandError, Mode, Output
from openrknn.cli.common.outputs import add_force, check_outputs, input_paths
from openrknn.cli.common.progress import waiting
from openrknn.errors import InputWarning, RknnError
from openrknn.wholefiles import protected

__all__ = ["build_parser", "main"]

EXIT_IMPOSSIBLE = 2
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141

_NAME_WIDTH = 13
_WIDEST_HELP = 120
_OPTION_WIDTH = 32
"""Room for our longest option, so that its help starts on the same line."""

DESCRIPTION = "Run, inspect, compile and serve .rknn models for Rockchip NPUs, with or without a board."
EXAMPLES = (
    "openrknn run model.rknn -i cat.jpg   run it here, without a board",
    "openrknn inspect model.rknn          what is in it, what to feed, what to expect",
    "openrknn COMMAND --help              everything about one command",
)
_CHOICE = re.compile(r"invalid choice: '([^']*)' \(choose from (.*)\)$")
EXIT_CODES = {0: "success", 1: "something is wrong with the model", EXIT_IMPOSSIBLE: "the command failed"}


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """As wide as the terminal, up to what can be read."""

    def __init__(self, prog: str) -> None:
        width = _help_width()
        super().__init__(prog, max_help_position=min(_OPTION_WIDTH, width // 2), width=width)


def _help_width() -> int:
    return max(min(shutil.get_terminal_size().columns, _WIDEST_HELP) - 2, 40)


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(" ".join(text.split()), _help_width(), initial_indent=indent, subsequent_indent=indent)


def _examples(lines: Iterable[str]) -> str:
    """Each on its line; where the terminal is too narrow, the remark goes below its command."""
    return "\n".join(["examples:", *(part for line in lines for part in _example(f"  {line}"))])


def _example(line: str) -> Iterator[str]:
    command, _, remark = line[2:].partition("  ")
    if len(line) <= _help_width() or not remark:
        yield line
        return
    yield f"  {command}"
    yield _wrapped(remark, " " * 6)


class _Parser(argparse.ArgumentParser):
    """One line instead of argparse's several."""

    def error(self, message: str) -> NoReturn:
        Output.complain(f"{message}; {_guess(message)}see `{self.prog} --help`")
        raise SystemExit(EXIT_IMPOSSIBLE)


def _guess(message: str) -> str:
    """ "did you mean 'get'? " for the choice of an action or option that argparse does not know."""
    found = _CHOICE.search(message)
    if found is None:
        return ""
    close = difflib.get_close_matches(found[1], re.findall(r"[^\s',]+", found[2]), n=1)
    return f"did you mean {close[0]!r}? " if close else ""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    _open_streams()
    _tolerant_streams()
    debug = "--debug" in words
    try:
        with _interruptible_imports(), _plain_warnings():
            code = _run(words)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        _forget_stdout()
        return EXIT_BROKEN_PIPE
    except MemoryError as error:
        if debug:
            raise
        Output.complain(f"there is not enough memory: {str(error)[:200] or 'an allocation failed'}")
        return EXIT_IMPOSSIBLE
    except (CommandError, RknnError, OSError) as error:
        if debug:
            raise
        Output.complain(os_problem(error) if isinstance(error, OSError) else _told(error), page=page_for(error))
        return EXIT_IMPOSSIBLE


def _told(error: BaseException) -> str:
    """An error's message with its notes: which file of several it was."""
    return "; ".join([str(error), *getattr(error, "__notes__", ())])


@contextlib.contextmanager
def _plain_warnings() -> Iterator[None]:
    """What looks like a mistake is a line for people here: the place in our own code says nothing to them."""
    before = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
        if issubclass(category, InputWarning):
            Output.complain(f"warning: {message}")
        else:
            before(message, category, *rest, **more)

    warnings.showwarning = ours = cast(Any, show)
    try:
        yield
    finally:
        if warnings.showwarning is ours:  # a command may have given them to its log
            warnings.showwarning = before


@contextlib.contextmanager
def _interruptible_imports() -> Iterator[None]:
    """NumPy turns a Ctrl-C while it is being imported into an ImportError of several paragraphs."""
    is_interrupted = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal is_interrupted
        is_interrupted = True
        signal.default_int_handler(number, frame)

    is_ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with contextlib.suppress(ValueError):  # not the main thread
        if is_ours:
            signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    except ImportError:
        if is_interrupted:
            raise KeyboardInterrupt from None
        raise
    finally:
        if signal.getsignal(signal.SIGINT) is interrupt:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _run(words: list[str]) -> int:
    wanted = next((word for word in words if not word.startswith("-")), None)
    if wanted is not None and wanted not in NAMES:
        raise CommandError(_unknown(wanted))
    if wanted is None and "--version" in words and "--verbose" in words:
        from openrknn.cli.common.versions import version_lines

        sys.stdout.writelines(f"{line}\n" for line in version_lines())
        return 0
    parser = build_parser(NAMES if wanted is None else (wanted,))
    arguments, unknown = parser.parse_known_args(words)
    if unknown:
        raise CommandError(_unrecognized(unknown, getattr(arguments, "command_parser", parser)))
    if wanted is None:
        parser.print_help(sys.stderr)
        return EXIT_IMPOSSIBLE
    command: Command = arguments.command_module
    check_outputs(arguments.command_parser, arguments)
    output = _output(arguments)
    with protected(input_paths(arguments)), waiting(output, getattr(command, "WAITS", "")):
        return command.run(arguments, output)


def _unknown(word: str) -> str:
    if word.endswith(".rknn") or os.path.exists(word):
        return f"{word!r} is a file, not a command; try `openrknn inspect {word}`"
    close = [RENAMED[word]] if word in RENAMED else difflib.get_close_matches(word, NAMES, n=1)
    guess = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(NAMES)}"
    return f"there is no command {word!r}; {guess}"


def _unrecognized(words: Sequence[str], parser: argparse.ArgumentParser) -> str:
    known = [name for name in parser._option_string_actions if name.startswith("--")]
    options = [word.partition("=")[0] for word in words if word.startswith("--")]
    close = [guess for option in options for guess in difflib.get_close_matches(option, known, n=1)]
    guess = f"did you mean {' and '.join(close)}? " if close else ""
    return f"unrecognized arguments: {' '.join(words)}; {guess}see `{parser.prog} --help`"


def build_parser(commands: Sequence[str]) -> argparse.ArgumentParser:
    """The parser for these commands; the modules of the others are not imported."""
    parser = _Parser(
        prog="openrknn",
        usage="openrknn [-h] [--version] [--debug] COMMAND ...",
        description=_wrapped(DESCRIPTION),
        epilog=f"{_examples(EXAMPLES)}\n\n{_wrapped(f'exit codes: {_exit_codes()}')}",
        formatter_class=_Formatter,
    )
    parser.add_argument(
        "--version", action="version", version=f"openrknn {__version__}",
        help="show the version and exit; with --verbose, all that a bug report needs",
    )  # fmt: skip
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


def _exit_codes() -> str:
    return ", ".join(f"{code} {meaning}" for code, meaning in EXIT_CODES.items())


def _line(command: Command) -> str:
    # argparse indents the text of a group by two blanks itself.
    indent = " " * (_NAME_WIDTH + 2)
    width = _help_width() - 2
    text = textwrap.wrap(command.HELP, width=width, initial_indent=indent, subsequent_indent=indent)
    return f"{command.NAME:<{_NAME_WIDTH}}  " + "\n".join(text).lstrip()


def _add_command(subparsers: argparse._SubParsersAction[_Parser], command: Command) -> None:
    examples: Sequence[str] = getattr(command, "EXAMPLES", ())
    parser = subparsers.add_parser(
        command.NAME,
        help=command.HELP,
        description=_wrapped(getattr(command, "DESCRIPTION", "") or f"{command.HELP[:1].upper()}{command.HELP[1:]}."),
        epilog=_examples(examples) if examples else None,
        formatter_class=_Formatter,
        # A command may declare one of the common options itself, with its own words.
        conflict_handler="resolve",
    )
    common = parser.add_argument_group("output")
    common.add_argument("--json", action="store_true", help="print JSON instead of text")
    common.add_argument("-q", "--quiet", action="store_true", help="print only the result")
    common.add_argument("--color", choices=("auto", "always", "never"), default="auto", help="auto honours NO_COLOR")
    common.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help="show tracebacks")
    command.add_arguments(parser)
    add_force(parser)
    parser.set_defaults(command_module=command, command_parser=parser)


def _output(arguments: argparse.Namespace) -> Output:
    mode = Mode.JSON if arguments.json else Mode.QUIET if arguments.quiet else Mode.HUMAN
    return Output(mode, color=arguments.color)


def _open_streams() -> None:
    """`openrknn ... >&-` closes a standard stream, and Python has None in its place: /dev/null takes it.

    The descriptor is filled as well. Otherwise the next file that is opened would be number 0, 1 or 2, and what any
    library prints would go into it.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is not None:
            continue
        found = os.open(os.devnull, os.O_RDWR)
        try:
            os.fstat(number)  # another file has the number by now
        except OSError:
            os.dup2(found, number)
            os.close(found)
            found = number
        stream = open(found, mode, encoding="utf-8", closefd=False)  # noqa: SIM115 - for the whole program
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _tolerant_streams() -> None:
    """A terminal that cannot show a character gets an escape instead of an exception."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _forget_stdout() -> None:
    """The reader is gone; without this Python complains about it once more at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
