"""The commands that look at pictures: `classify`, `detect`, `segment`, `pose` and `ocr`.

options     what they share on the command line
pipeline    the model with its decoder and its labels;   `openrknn stream` opens the same
run         picture by picture: run, save, report;   text: what is printed
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

from openrknn.cli.common.options import positive, share
from openrknn.cli.common.output import Output
from openrknn.cli.pictures.options import add_picture_arguments, add_score_arguments

__all__ = ["COMMANDS", "PictureCommand"]


@dataclass
class PictureCommand:
    """One of them: its name is the task of the pipeline, `add_own` declares the options that others lack."""

    NAME: str
    HELP: str
    DESCRIPTION: str
    EXAMPLES: tuple[str, ...]
    add_own: Callable[[argparse.ArgumentParser], None] = add_score_arguments
    needs_model: bool = True
    """Whether a model has to be named; for the others `openrknn models get` gets one."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_picture_arguments(parser, needs_model=self.needs_model)
        self.add_own(parser)

    def run(self, arguments: argparse.Namespace, output: Output) -> int:
        from openrknn.cli.pictures.ready import find_model, find_named
        from openrknn.cli.pictures.run import run_pictures

        (find_named if self.needs_model else find_model)(arguments, self.NAME)
        return run_pictures(arguments, output, task=self.NAME)


def _add_top(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--top", type=positive, metavar="N", default=5, help="show the N best classes (default: 5)")


def _add_reader(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--reader", metavar="MODEL", help="a recognition model, to read the lines that were found")
    parser.add_argument("--threshold", type=share, metavar="T", help="leave out lines with a lower score (0 to 1)")


COMMANDS = (
    PictureCommand(
        "classify",
        "say what pictures show",
        """Name what each picture shows. The names of ImageNet's 1000 classes are built in; for other classes use
--labels, or put labels.txt beside the model.""",
        (
            "openrknn classify classifier.rknn cat.jpg",
            "openrknn classify classifier.rknn photos/ --top 1 --quiet",
            "openrknn classify classifier.rknn 'photos/*.png' --save out",
        ),
        _add_top,
    ),
    PictureCommand(
        "detect",
        "find objects in pictures, and draw boxes around them",
        """Find objects in pictures with a detector: YOLOv5 to v11, YOLOX, PP-YOLOE, SSD, RetinaFace. The family is
recognised by the model's outputs; where they are ambiguous, a note says what was assumed, and --family overrides
it. Without MODEL it uses the detector that `openrknn models get coco-ssd` downloaded.""",
        (
            "openrknn models get coco-ssd                            once: a detector of 80 kinds of objects",
            "openrknn detect street.jpg --save out                   out/street.jpg has the boxes",
            "openrknn detect yolo.rknn street.jpg --save out         with your own model",
            "openrknn detect yolo.rknn photos/ --json > found.json   every picture in a folder",
            "openrknn detect yolo.rknn video.mp4 --save out --workers 3",
            "openrknn detect yolo.rknn 0 --count 100                 a camera",
            "openrknn detect yolov7.rknn street.jpg --family yolov7  where the outputs are ambiguous",
        ),
        needs_model=False,
    ),
    PictureCommand(
        "segment",
        "outline objects in pictures, or give every pixel a class",
        """Colour the pixels of pictures by what they show: objects with masks (YOLOv5-seg, v8-seg, v11-seg), or one
class for every pixel (PP-Seg, DeepLab).""",
        (
            "openrknn segment yolov8_seg.rknn street.jpg --save out",
            "openrknn segment pp_liteseg.rknn street.jpg --save out",
        ),
    ),
    PictureCommand(
        "pose",
        "find people in pictures, with eyes, shoulders, hands, knees",
        """Find people with their 17 key points (nose, eyes, ears, shoulders, elbows, wrists, hips, knees, ankles),
with YOLOv8-pose or v11-pose.""",
        ("openrknn pose yolov8_pose.rknn team.jpg --save out",),
    ),
    PictureCommand(
        "ocr",
        "find text in pictures, and read it",
        """Find lines of text with a PP-OCR detection model, and read them with the recognition model of --reader.
With a recognition model alone each picture is read as one line.""",
        (
            "openrknn ocr ppocr_det.rknn page.jpg --save out                           where the lines are",
            "openrknn ocr ppocr_det.rknn page.jpg --reader ppocr_rec.rknn --save out   and what they say",
            "openrknn ocr ppocr_rec.rknn sign.png                                      one line, already cropped",
        ),
        _add_reader,
    ),
)
