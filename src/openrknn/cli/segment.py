"""`openrknn segment`: the outlines of things in pictures."""

from __future__ import annotations

import argparse

from openrknn.cli.detect_options import add_picture_arguments, add_score_arguments
from openrknn.cli.output import Output

NAME = "segment"
HELP = "find the outlines of things in pictures, or a class for every pixel"
DESCRIPTION = """Colour the pixels of pictures by what they show: objects with masks (YOLOv5-seg, v8-seg, v11-seg), or
one class for every pixel (PP-Seg, DeepLab)."""
EXAMPLES = (
    "openrknn segment yolov8_seg.rknn street.jpg --save out",
    "openrknn segment pp_liteseg.rknn street.jpg --save out",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's own arguments."""
    add_picture_arguments(parser)
    add_score_arguments(parser)


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Segment."""
    from openrknn.cli.detect_run import run_pictures

    return run_pictures(arguments, output, task="segment")
