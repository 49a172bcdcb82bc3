"""What pages about commands read from argparse: subcommands, placeholders, help. Man pages and HTML share it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

__all__ = ["argument_groups", "help_of", "metavar", "placeholders", "subparsers"]


def subparsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The subcommands of a parser, in its order; none if it has none."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def argument_groups(parser: argparse.ArgumentParser) -> Iterator[tuple[argparse._ArgumentGroup, list[argparse.Action]]]:
    """Each group that shows something, with the arguments that it shows."""
    for group in parser._action_groups:
        shown = [
            action
            for action in group._group_actions
            if action.help != argparse.SUPPRESS and not isinstance(action, argparse._SubParsersAction)
        ]
        if shown:
            yield group, shown


def metavar(action: argparse.Action) -> str:
    """The placeholder of an argument's value."""
    if isinstance(action.metavar, tuple):
        return " ".join(action.metavar)
    if action.metavar is not None:
        return action.metavar
    if action.choices is not None:
        return "|".join(map(str, action.choices))
    return action.dest.upper()


def placeholders(action: argparse.Action, name: str) -> str:
    """The placeholder as often as the argument takes values: `name` is it, in whatever markup the page has."""
    if action.nargs == 0:
        return ""
    repeated = {
        "?": f"[{name}]", "*": f"[{name} ...]", "+": f"{name} [{name} ...]", "...": f"{name} ...",
    }  # fmt: skip
    return repeated.get(str(action.nargs), name)


def help_of(action: argparse.Action) -> str:
    """The help as argparse prints it, with its `%(default)s` and `%%`, on one line."""
    formatter = argparse.HelpFormatter("openrknn")
    return " ".join(formatter._expand_help(action).split()) if action.help else ""
