"""How detectors are evaluated, which is not how they are used: every candidate counts, however unlikely.

Average precision looks at all thresholds, so that the lowest is nearly zero; each class of a cell is a candidate; and
suppression leaves more overlap than a user wants. These are the values that the makers of the families publish their
results with.
"""

from __future__ import annotations

THRESHOLD = 0.001
LIMIT = 300
"""Detections per image before COCO's own limit of 100 per class."""
MASK_LIMIT = 100
"""The same for masks and oriented boxes, which take long."""
ORIENTED_THRESHOLD = 0.01

_OVERLAPS = {"yolov8": 0.7, "yolov10": 0.7, "yolov5": 0.6, "yolov7": 0.65, "yolox": 0.65, "ssd": 0.6,
             "yolov3": 0.6, "yolov4": 0.6, "retinaface": 0.4}  # fmt: skip


def overlap_for(family: str) -> float:
    """The IoU above which the weaker of two boxes goes, as the family's own evaluation has it."""
    return _OVERLAPS.get(family.partition("-")[0], 0.6)
