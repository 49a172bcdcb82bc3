"""Datasets in the formats that the field uses, recognised by their content.

find        which reader fits a file or a folder;   files: bounded reading, images and sounds in folders
coco        instances and keypoints of COCO
yolo        data.yaml, images/ and labels/
classes     a folder per class, or a table of files and classes;   masks: a class per pixel
lines       images with text;   speech: recordings with transcripts
jsonlines   inputs and expected outputs of any model
"""

from __future__ import annotations

from openrknn.evaluate.datasets.find import FORMATS, open_dataset

__all__ = ["FORMATS", "open_dataset"]
