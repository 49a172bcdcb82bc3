"""Vision pipelines: pictures in, boxes and names out.

    from openrknn.vision import Pipeline

    with Pipeline("yolo.rknn") as detect:
        detect("street.jpg").save("street_boxes.jpg")

    pipeline    Pipeline: picture -> model -> objects;   ocr: TextReader
    families    which decoder fits a model;   decoders: one file per family, with its formula
    heads       outputs as they are stored, compared without making floats of them;   thresholds: which one to use
    geometry    letterbox, crop, stretch and the way back;   pictures: reading and scaling;   inputs: for any model
    nms, grids, polygons, components        the arithmetic
    sources     files, folders, patterns;   video: cameras and streams
    prefetch    reading ahead;   parallel: several at a time
    outcome     Result;   results: what decoders find;   draw: pictures with boxes;   labels: names of classes
    live        results in a browser, as they arrive
"""

from __future__ import annotations

from openrknn.vision.errors import SourceError, UnknownFamilyError
from openrknn.vision.families import FAMILIES, Family, recognize
from openrknn.vision.heads import Frame, Head, Settings
from openrknn.vision.inputs import picture_for
from openrknn.vision.ocr import TextReader
from openrknn.vision.pipeline import Pipeline
from openrknn.vision.result import Result
from openrknn.vision.results import Areas, Objects, Ranking, Reading

__all__ = [
    "FAMILIES", "Areas", "Family", "Frame", "Head", "Objects", "Pipeline", "Ranking", "Reading", "Result", "Settings",
    "SourceError", "TextReader", "UnknownFamilyError", "picture_for", "recognize",
]  # fmt: skip
