"""`openrknn demo`: what this is good for, on models and pictures that ship with it."""

from __future__ import annotations

import argparse

from openrknn.cli.output import Output

NAME = "demo"
HELP = "see it work: models and pictures that ship with openrknn"
DESCRIPTION = """Run three models that ship with the repository on the software NPU: one names what is on a photo, one
finds the lines of a printed page, one hears which keys of a telephone were pressed. Writes the pictures with what was
found, and a page that shows it all."""
EXAMPLES = ("openrknn demo", "openrknn demo --save my-demo")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's own arguments."""
    parser.add_argument("--save", metavar="DIR", default="openrknn-demo", help="where to (default: openrknn-demo)")


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Do it all."""
    from openrknn.cli.demo_run import run_demo

    return run_demo(arguments.save, output)
