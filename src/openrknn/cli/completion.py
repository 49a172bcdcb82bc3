"""`openrknn completion SHELL`: a completion script that asks the parser itself, so it is never out of date."""

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
    # For the scripts: the line up to the cursor.
    parser.add_argument("--line", help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Print the script, or what can follow on the line of a script."""
    if arguments.line is not None:
        from openrknn.cli.completing.complete import complete

        output.stream.write("".join(f"{value}\t{text}\n" for value, text in complete(arguments.line)))
        return 0
    if arguments.shell is None:
        raise CommandError(f"for which shell? {', '.join(_SHELLS)}")
    from openrknn.cli.completing.scripts import SCRIPTS

    output.stream.write(SCRIPTS[arguments.shell])
    return 0
