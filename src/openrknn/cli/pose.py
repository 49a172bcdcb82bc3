"""`openrknn pose`: people and how they stand."""

from __future__ import annotations

import argparse

from openrknn.cli.detect_options import add_picture_arguments, add_score_arguments
from openrknn.cli.output import Output

NAME = "pose"
HELP = "find people in pictures, with eyes, shoulders, hands, knees"
DESCRIPTION = """Find people with their 17 key points (nose, eyes, ears, shoulders, elbows, wrists, hips, knees,
ankles), with YOLOv8-pose or v11-pose."""
EXAMPLES = ("openrknn pose yolov8_pose.rknn team.jpg --save out",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's own arguments."""
    add_picture_arguments(parser)
    add_score_arguments(parser)


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Find people."""
    from openrknn.cli.detect_run import run_pictures

    return run_pictures(arguments, output, task="pose")
