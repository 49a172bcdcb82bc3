"""`openrknn ocr`: text in pictures."""

from __future__ import annotations

import argparse

from openrknn.cli.detect_options import add_picture_arguments, share
from openrknn.cli.output import Output

NAME = "ocr"
HELP = "find text in pictures, and read it"
DESCRIPTION = """Find lines of text with a PP-OCR detection model, and read them with the recognition model of
--reader. With a recognition model alone each picture is read as one line."""
EXAMPLES = (
    "openrknn ocr ppocr_det.rknn page.jpg --save out                           where the lines are",
    "openrknn ocr ppocr_det.rknn page.jpg --reader ppocr_rec.rknn --save out   and what they say",
    "openrknn ocr ppocr_rec.rknn sign.png                                      one line, cut out already",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's own arguments."""
    add_picture_arguments(parser)
    parser.add_argument("--reader", metavar="MODEL", help="a recognition model, to read what was found")
    parser.add_argument("--threshold", type=share, metavar="T", help="leave out what is less probable (0 to 1)")


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Find and read."""
    from openrknn.cli.detect_run import run_pictures

    return run_pictures(arguments, output, task="ocr")
