"""Which decoder fits a model: the table of families, and how the shapes of the outputs distinguish them.

Where two families have the same outputs, the more common one is taken and a note names the other; `family=` decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from openrknn.vision.decoders import (
    blaze,
    classification,
    darknet,
    end_to_end,
    flat,
    landmarks,
    obb,
    pose,
    retinaface,
    segmentation,
    ssd,
    text_boxes,
    text_lines,
    yolo_seg,
    yolov5,
    yolov8,
    yolox,
)
from openrknn.vision.errors import UnknownFamilyError
from openrknn.vision.heads import Frame, Head, Settings
from openrknn.vision.labels import ppocr_characters
from openrknn.vision.results import Found, Reading
from openrknn.vision.thresholds import SAFE

Shapes: TypeAlias = Sequence[tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Family:
    """Models whose outputs mean the same."""

    name: str
    task: str
    """classify, detect, segment, pose, text (where is it) or read (what does it say)."""
    about: str
    matches: Callable[[Shapes, Frame], bool]
    decode: Callable[[Sequence[Head], Frame, Settings], Found]
    classes: Callable[[Shapes], int]
    """How many classes a model with these outputs has; 0 where that means nothing."""
    threshold: float = 0.25
    fit: str = ""
    """How pictures are scaled, where it is not what the task expects."""
    is_guess: bool = False
    """Never taken unless asked for: others have the same outputs and are more common."""


def _read(heads: Sequence[Head], frame: Frame, settings: Settings) -> Reading:
    return text_lines.decode_with(ppocr_characters(), heads)


def _channels(less: int, shapes: Shapes) -> int:
    """Channels of the first output without those of the box."""
    return shapes[0][1] - less


def _second(shapes: Shapes) -> int:
    """Channels of the score output; of the outputs of one stride, box and score are the first two."""
    box, score = [shape[1] for shape in shapes if shape[2:] == shapes[0][2:]][:2]
    return box if box not in yolov8.BOX_CHANNELS and score in yolov8.BOX_CHANNELS else score


def _anchored(shapes: Shapes) -> int:
    return shapes[0][1] // 3 - 5


def _longest(shapes: Shapes) -> int:
    return max(shapes[0], default=0)


def _last(less: int, shapes: Shapes) -> int:
    return max(shape[-1] for shape in shapes) - less


def _none(_: Shapes) -> int:
    return 0


def _one(_: Shapes) -> int:
    return 1


def _two(_: Shapes) -> int:
    return 2


def _masked(less: int, shapes: Shapes) -> int:
    """Rows of the flat output without the box and the coefficients, of which there are as many as prototypes."""
    rows = next(shape for shape in shapes if len(shape) == 3)[1]
    return rows - less - next(shape for shape in shapes if len(shape) == 4)[1]


FAMILIES: tuple[Family, ...] = (
    # The more an output has to have, the earlier its family is asked.
    Family("yolov8-seg", "segment", "YOLOv8-seg, v11-seg (rknn_model_zoo)",
           yolo_seg.matches_split, yolo_seg.decode_split, _second),
    Family("yolov5-seg", "segment", "YOLOv5-seg (rknn_model_zoo)",
           yolo_seg.matches_anchors, yolo_seg.decode_anchors, _anchored),
    Family("yolov8-seg-flat", "segment", "YOLOv8-seg, v11-seg (Ultralytics)",
           yolo_seg.matches_flat, yolo_seg.decode_flat, partial(_masked, 4)),
    Family("yolov8-obb", "detect", "YOLOv8-obb: turned boxes (rknn_model_zoo)",
           obb.matches_split, obb.decode_split, partial(_channels, 64)),
    Family("yolov8-pose", "pose", "YOLOv8-pose (rknn_model_zoo)",
           pose.matches_split, pose.decode_split, partial(_channels, 64), threshold=SAFE),
    Family("retinaface", "detect", "RetinaFace",
           retinaface.matches, retinaface.decode, _one, threshold=SAFE),
    *(Family(f"blaze-{name}", "detect", f"MediaPipe: detector of {what}", partial(blaze.matches, side),
             blaze.decode, _one, threshold=SAFE)
      for name, what, side in (("face", "faces", 128), ("palm", "palms", 192), ("person", "people", 224))),
    *(Family(f"landmarks-{name}", "pose", f"MediaPipe: points of one {name}", partial(landmarks.matches, size),
             partial(landmarks.decode, size), _one, threshold=SAFE)
      for name, size in (("hand", 63), ("person", 195), ("face", 1404))),
    Family("yolov8", "detect", "YOLOv6, v8, v10, v11, PP-YOLOE: boxes and scores apart (rknn_model_zoo)",
           yolov8.matches, yolov8.decode, _second),
    Family("ssd", "detect", "SSD (TensorFlow)",
           ssd.matches, ssd.decode, partial(_last, 1), threshold=0.4),
    Family("ssd-split", "detect", "SSD (TensorFlow) that ends in its convolutions",
           ssd.matches_split, ssd.decode_split, ssd.classes_split, threshold=0.4, fit="stretch"),
    Family("yolov8-pose-flat", "pose", "YOLOv8-pose, v11-pose (Ultralytics)",
           pose.matches_flat, pose.decode_flat, _one, threshold=SAFE),
    Family("yolov8-flat", "detect", "YOLOv8, v11 with one output (Ultralytics)",
           flat.matches_scores, flat.decode_scores, partial(_channels, 4)),
    Family("yolov8-obb-flat", "detect", "YOLOv8-obb with one output (Ultralytics)",
           obb.matches_flat, obb.decode_flat, partial(_channels, 5), is_guess=True),
    Family("yolov5-flat", "detect", "YOLOv5, v7 with one output",
           flat.matches_objects, flat.decode_objects, partial(_last, 5)),
    Family("yolox-flat", "detect", "YOLOX with one output",
           flat.matches_yolox, flat.decode_yolox, partial(_last, 5)),
    Family("yolov10", "detect", "YOLOv10 and others with finished objects",
           end_to_end.matches, end_to_end.decode, _none),
    Family("yolov5", "detect", "YOLOv5 with its anchors",
           yolov5.matches, yolov5.decode, _anchored),
    Family("yolov7", "detect", "YOLOv7 with its anchors",
           yolov5.matches, yolov5.decode_v7, _anchored, is_guess=True),
    Family("yolov3", "detect", "YOLOv3 (Darknet)",
           yolov5.matches, darknet.decode_v3, _anchored, is_guess=True),
    Family("yolov4", "detect", "YOLOv4 (Darknet)",
           yolov5.matches, darknet.decode_v4, _anchored, is_guess=True),
    Family("yolov3-tiny", "detect", "YOLOv3-tiny (Darknet)",
           darknet.matches_tiny, darknet.decode_v3_tiny, _anchored),
    Family("yolov4-tiny", "detect", "YOLOv4-tiny (Darknet)",
           darknet.matches_tiny, darknet.decode_v4_tiny, _anchored, is_guess=True),
    Family("yolov8-merged", "detect", "YOLOv8, v11: box and score in one output per stride",
           yolov8.matches_merged, yolov8.decode_merged, partial(_channels, 64)),
    Family("yolox", "detect", "YOLOX",
           yolox.matches, yolox.decode, partial(_channels, 5), threshold=0.3),
    Family("classification", "classify", "classifiers",
           classification.matches, classification.decode, _longest, threshold=0.0),
    Family("ppocr-det", "text", "PP-OCR detection",
           text_boxes.matches, text_boxes.decode, _none, threshold=0.7),
    Family("ppocr-rec", "read", "PP-OCR recognition",
           text_lines.matches, _read, _none, threshold=0.0),
    Family("segmentation", "segment", "PP-Seg, DeepLab: one class per pixel",
           segmentation.matches, segmentation.decode, partial(_channels, 0), threshold=0.0),
    Family("mask", "segment", "U2-Net, MediaPipe: one foreground", segmentation.matches_mask, segmentation.decode_mask,
           _two, threshold=0.5, fit="stretch", is_guess=True),
)  # fmt: skip

_COMMON_COUNTS = (80, 1, 2, 20, 91, 90, 15)
"""Numbers of classes that detectors often have, the likeliest first: they decide between families that fit alike."""
_TASKS = {"ocr": ("text", "read")}


def recognize(
    shapes: Shapes, frame: Frame, *, task: str | None = None, family: str | None = None, classes: int | None = None
) -> tuple[Family, str]:
    """The family of a model, and a note where others fit as well.

    `task` and `classes` (the number of labels at hand) leave only families that fit them; `family` decides.
    """
    if family is not None:
        return _named(family, shapes, frame), ""
    tasks = None if task is None else _TASKS.get(task, (task,))
    fitting = [entry for entry in FAMILIES if _fits(entry, shapes, frame) and (tasks is None or entry.task in tasks)]
    if classes is not None:
        fitting = [entry for entry in fitting if entry.classes(shapes) in (classes, 0)] or fitting
    # Asked for by its number of classes alone, a guess is as good as the others.
    likely = [entry for entry in fitting if not entry.is_guess] or fitting
    if not likely:
        raise UnknownFamilyError(_unknown(shapes, frame, task))
    chosen = min(likely, key=lambda entry: _rarity(entry.classes(shapes)))
    count = chosen.classes(shapes)
    # With a usual or known number of classes, only families that have as many are left to doubt.
    is_sure = count in (classes, _COMMON_COUNTS[0])
    others = [
        e.name for e in fitting if e is not chosen and (not is_sure or e.classes(shapes) == count)
        and not (e.is_guess and e.task != chosen.task)
    ]  # fmt: skip
    if not others:
        return chosen, ""
    return chosen, (
        f"taken as {chosen.name} ({chosen.about}); the outputs could be those of {' or '.join(others)} as well"
    )


def _rarity(classes: int) -> int:
    return _COMMON_COUNTS.index(classes) if classes in _COMMON_COUNTS else len(_COMMON_COUNTS)


def _fits(entry: Family, shapes: Shapes, frame: Frame) -> bool:
    return entry.matches(shapes, frame) and entry.classes(shapes) >= 0


def _named(name: str, shapes: Shapes, frame: Frame) -> Family:
    for entry in FAMILIES:
        if entry.name == name:
            if not entry.matches(shapes, frame):
                raise UnknownFamilyError(f"the outputs {_text(shapes)} are not those of {name} ({entry.about})")
            return entry
    raise ValueError(f"family={name!r} is unknown; the choices are {', '.join(entry.name for entry in FAMILIES)}")


def _unknown(shapes: Shapes, frame: Frame, task: str | None) -> str:
    kind = f"no {task} family" if task else "no family"
    fitting = [entry for entry in FAMILIES if task and _fits(entry, shapes, frame)]
    hint = "; run the model with `openrknn run` or `Session.run` and decode its arrays yourself"
    if fitting:
        hint = f"; they look like {fitting[0].about}: try the command or task {_command(fitting[0].task)!r}"
    return f"outputs {_text(shapes)} for an input of {frame.width}x{frame.height}: {kind} has these{hint}"


def _command(task: str) -> str:
    """What to ask for: `ocr` covers the tasks of finding and of reading text."""
    return next((name for name, tasks in _TASKS.items() if task in tasks), task)


def _text(shapes: Shapes) -> str:
    return ", ".join("x".join(map(str, shape)) for shape in shapes)
