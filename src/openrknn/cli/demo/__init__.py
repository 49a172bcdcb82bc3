"""`openrknn demo`: the example models on the example pictures and sounds."""

from __future__ import annotations

import argparse

from openrknn.cli.common.output import Output
from openrknn.cli.common.outputs import OutputFolder

NAME = "demo"
HELP = "run the example models on the example pictures and sounds"
DESCRIPTION = """Run three models that ship with the repository on the software NPU: one names what a photo shows, one
finds the lines of a printed page, one recognises which telephone keys were pressed by their tones. Writes the annotated
pictures and an HTML page with all results. With --voice a spoken sentence is written down as well; its models are
fetched by the name of their package and compiled, which takes a minute the first time."""
EXAMPLES = ("openrknn demo", "openrknn demo --save my-demo", "openrknn demo --voice")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's own arguments."""
    parser.add_argument(
        "--save", metavar="DIR", action=OutputFolder, default="openrknn-demo",
        help="where to write (default: openrknn-demo)",
    )
    parser.add_argument("--voice", action="store_true", help="also write down a spoken sentence (fetches its models)")


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Run the demo."""
    from openrknn.cli.demo.parts import run_demo

    return run_demo(arguments.save, output, voice=arguments.voice)
