"""`openrknn detect`: boxes around the things in pictures."""

from __future__ import annotations

import argparse

from openrknn.cli.detect_options import add_picture_arguments, add_score_arguments
from openrknn.cli.output import Output

NAME = "detect"
HELP = "find things in pictures, and draw boxes around them"
DESCRIPTION = """Find things in pictures with a detector: YOLOv5 to v11, YOLOX, PP-YOLOE, SSD, RetinaFace. Which of
them the model is, its outputs tell; where they do not, a note says what was taken, and --family decides."""
EXAMPLES = (
    "openrknn detect yolo.rknn street.jpg --save out         out/street.jpg has the boxes",
    "openrknn detect yolo.rknn photos/ --json > found.json   every picture in a folder",
    "openrknn detect yolo.rknn video.mp4 --save out --workers 3",
    "openrknn detect yolo.rknn 0 --count 100                 a camera",
    "openrknn detect yolov7.rknn street.jpg --family yolov7  where the outputs do not tell",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's own arguments."""
    add_picture_arguments(parser)
    add_score_arguments(parser)


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Detect."""
    from openrknn.cli.detect_run import run_pictures

    return run_pictures(arguments, output, task="detect")
