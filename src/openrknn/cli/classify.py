"""`openrknn classify`: what pictures show."""

from __future__ import annotations

import argparse

from openrknn.cli.detect_options import add_picture_arguments
from openrknn.cli.options import positive
from openrknn.cli.output import Output

NAME = "classify"
HELP = "say what pictures show"
DESCRIPTION = """Name what each picture shows. The names of ImageNet's 1000 classes are built in; for others give
--labels, or put labels.txt beside the model."""
EXAMPLES = (
    "openrknn classify classifier.rknn cat.jpg",
    "openrknn classify classifier.rknn photos/ --top 1 --quiet",
    "openrknn classify classifier.rknn 'photos/*.png' --save out",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's own arguments."""
    add_picture_arguments(parser)
    parser.add_argument("--top", type=positive, metavar="N", default=5, help="show the N best classes (default: 5)")


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Classify."""
    from openrknn.cli.detect_run import run_pictures

    return run_pictures(arguments, output, task="classify")
