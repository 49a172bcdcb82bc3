"""Commands, options and arguments as the parser has them, with what can follow each."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from openrknn.cli.completing.values import Values, values_of

__all__ = ["Command", "Option", "parsed_commands"]


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a command."""

    flags: tuple[str, ...]
    takes_value: bool
    values: Values
    help: str


@dataclass(frozen=True, slots=True)
class Command:
    """A command, its options, and what each of its arguments can be; the last one where there may be many."""

    name: str
    help: str
    options: tuple[Option, ...]
    arguments: tuple[Values, ...]
    repeats: bool
    """Whether the last argument may be given several times."""

    @property
    def any_argument(self) -> Values:
        """All that any of its arguments can be, for shells that do not count."""
        found = Values()
        for one in self.arguments:
            found = found | one
        return found


def parsed_commands() -> tuple[Command, ...]:
    """All of them."""
    from openrknn.cli.commands import NAMES
    from openrknn.cli.main import build_parser

    parser = build_parser(NAMES)
    subparsers = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    helps = {action.dest: action.help or "" for action in subparsers._choices_actions}
    return tuple(_command(name, helps.get(name, ""), command) for name, command in subparsers.choices.items())


def _command(name: str, text: str, parser: argparse.ArgumentParser) -> Command:
    shown = [action for action in parser._actions if action.help != argparse.SUPPRESS]
    options = tuple(_option(name, action) for action in shown if action.option_strings)
    arguments = [action for action in shown if not action.option_strings]
    repeats = bool(arguments) and arguments[-1].nargs in ("*", "+", argparse.REMAINDER)
    return Command(name, text, options, tuple(values_of(name, action) for action in arguments), repeats)


def _option(command: str, action: argparse.Action) -> Option:
    takes_value = action.nargs != 0
    values = values_of(command, action) if takes_value else Values()
    return Option(tuple(action.option_strings), takes_value, values, (action.help or "").replace("%%", "%"))
