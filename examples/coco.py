"""Boxes around what a COCO detector (YOLOv5 to v11, YOLOX, PP-YOLOE, SSD) finds in a picture.

    python examples/coco.py yolo.rknn street.jpg        writes boxes.jpg
"""

from __future__ import annotations

import sys

from openrknn.vision import Pipeline


def main() -> None:
    """Detect, print, draw."""
    model, picture = sys.argv[1:]
    with Pipeline(model, task="detect") as detect:
        result = detect(picture)
    for row in result.rows():
        print(f"{row['score']:.2f} {row['label']} {[round(value) for value in row['box']]}")
    result.save("boxes.jpg")


if __name__ == "__main__":
    main()
