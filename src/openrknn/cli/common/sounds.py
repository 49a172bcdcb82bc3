"""What commands that read sound share: `--rate`, and errors in what was asked for as one line."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager

from openrknn.cli.common.options import number
from openrknn.cli.common.output import CommandError

__all__ = ["add_rate", "asked", "check_source"]


def add_rate(parser: argparse.ArgumentParser) -> None:
    """--rate."""
    rate = number("a rate, 1000 to 1000000 samples a second", 1000, 1_000_000, whole=True)
    help_ = "standard input is raw 16-bit samples of this rate"
    parser.add_argument("--rate", metavar="HZ", type=rate, help=help_)


def check_source(arguments: argparse.Namespace) -> None:
    """The sound that the arguments name can be read, as far as its name says."""
    if not arguments.audio:
        raise CommandError("the name of the recording is empty; give a file, - for standard input, or mic")
    if arguments.rate is not None and arguments.audio != "-":
        raise CommandError(
            f"--rate is for raw samples on standard input, and {arguments.audio} is not: leave it out, or give the "
            "samples with `- < FILE`"
        )


@contextmanager
def asked() -> Iterator[None]:
    """A device or chip that does not exist is an error of the command, not of the program."""
    try:
        yield
    except ValueError as error:
        raise CommandError(str(error)) from error
