"""`openrknn completion SHELL`: a completion script, made from the parser itself, so it is never out of date."""

from __future__ import annotations

import argparse

from openrknn.cli.common.output import CommandError, Output

NAME = "completion"
HELP = "print a completion script for bash, zsh or fish"
EXAMPLES = (
    'eval "$(openrknn completion bash)"                                     in ~/.bashrc',
    'eval "$(openrknn completion zsh)"                                      in ~/.zshrc, after compinit',
    "openrknn completion fish > ~/.config/fish/completions/openrknn.fish",
)

_SHELLS = ("bash", "zsh", "fish")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's own arguments."""
    parser.add_argument("shell", metavar="SHELL", nargs="?", choices=_SHELLS, help="bash, zsh or fish")
    # For the scripts: which values there are, and the line so far.
    parser.add_argument("--values", metavar="KIND", help=argparse.SUPPRESS)
    parser.add_argument("--words", nargs=argparse.REMAINDER, default=[], help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Print the script, or the values that a script asks for."""
    if arguments.values is not None:
        from openrknn.cli.completing.dynamic_values import values

        output.stream.write("".join(f"{value}\n" for value in values(arguments.values, arguments.words)))
        return 0
    if arguments.shell is None:
        raise CommandError(f"for which shell? {', '.join(_SHELLS)}")
    from openrknn.cli.completing import bash, fish, zsh
    from openrknn.cli.completing.parser_tree import parsed_commands

    scripts = {"bash": bash.script, "zsh": zsh.script, "fish": fish.script}
    output.stream.write(scripts[arguments.shell](parsed_commands()))
    return 0
