"""Options of the commands that look at pictures: classify, detect, segment, pose, ocr."""

from __future__ import annotations

import argparse

from openrknn.cli.common.options import add_device_arguments, positive, share
from openrknn.cli.common.outputs import OutputFolder

__all__ = ["add_picture_arguments", "add_score_arguments", "share"]



def add_picture_arguments(parser: argparse.ArgumentParser, *, needs_model: bool = True) -> None:
    """The model, the pictures, and what to do with them. Where no model is needed, the first word may be a picture."""
    sources = "pictures, folders, patterns, videos, cameras (0), rtsp://..., gst:PIPELINE, - (stdin)"
    if needs_model:
        parser.add_argument("model", metavar="MODEL", help="a .rknn model, or a name of `openrknn models`")
        parser.add_argument("sources", metavar="SOURCE", nargs="+", help=sources)
    else:
        parser.add_argument(
            "model", metavar="MODEL", nargs="?",
            help="a .rknn model, or a name of `openrknn models` (default: one that is here)",
        )  # fmt: skip
        parser.add_argument("sources", metavar="SOURCE", nargs="*", help=sources)
    parser.add_argument(
        "--save", metavar="DIR", action=OutputFolder, help="write the annotated pictures to this directory"
    )
    parser.add_argument("--show", action="store_true", help="also show them in a browser, until Ctrl-C")
    parser.add_argument("--force", action="store_true", help="overwrite files in a directory that is not empty")
    parser.add_argument("--labels", metavar="FILE", help="file with the class names, one per line")
    parser.add_argument(
        "--family", metavar="NAME", help="decode the outputs as this family (default: recognised by their shapes)"
    )
    fits = ("letterbox", "stretch", "crop", "line")
    parser.add_argument("--fit", choices=fits, help="how pictures are resized (default: what the task expects)")
    parser.add_argument("--order", choices=("rgb", "bgr"), help="colour order (default: as calibrated)")
    parser.add_argument("--count", type=positive, metavar="N", help="stop after N pictures")
    parser.add_argument(
        "--workers", type=positive, metavar="N", default=1, help="pictures processed in parallel (default: 1)"
    )
    add_device_arguments(parser)


def add_score_arguments(parser: argparse.ArgumentParser) -> None:
    """Which objects count."""
    parser.add_argument(
        "--threshold",
        type=share,
        metavar="T",
        help="leave out objects with a lower score (default: the family's usual one)",
    )
    parser.add_argument(
        "--overlap",
        type=share,
        metavar="T",
        default=0.45,
        help="keep one of boxes that overlap more than this (default: 0.45)",
    )
