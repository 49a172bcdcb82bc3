"""Families told apart by their outputs."""

import re

import pytest

from openrknn.vision.errors import UnknownFamilyError
from openrknn.vision.families import FAMILIES, recognize
from openrknn.vision.heads import Frame
from openrknn.vision.labels import LISTS, name_of, names_for, names_of
from tests.container.places import ROOT

SQUARE = Frame(640, 640)
GRIDS = ((80, 80), (40, 40), (20, 20))
Shapes = list[tuple[int, ...]]


def strides(*channels: int) -> Shapes:
    """Outputs of these channels for each of three strides."""
    return [(1, count, *grid) for grid in GRIDS for count in channels]


# What rknn_model_zoo, Ultralytics and the families' own scripts export.
KNOWN: dict[str, tuple[Frame, Shapes]] = {
    "yolov5": (SQUARE, strides(255)),
    "yolov3-tiny": (Frame(416, 416), [(1, 255, 13, 13), (1, 255, 26, 26)]),
    "yolov8": (SQUARE, strides(64, 80, 1)),
    "yolov8-merged": (SQUARE, strides(144)),
    "yolov8-seg": (SQUARE, [*strides(64, 80, 1, 32), (1, 32, 160, 160)]),
    "yolov5-seg": (SQUARE, [*strides(255, 96), (1, 32, 160, 160)]),
    "yolov8-seg-flat": (SQUARE, [(1, 116, 8400), (1, 32, 160, 160)]),
    "yolov8-pose": (SQUARE, [*strides(65), (1, 17, 3, 8400)]),
    "yolov8-pose-flat": (SQUARE, [(1, 56, 8400)]),
    "yolov8-obb": (SQUARE, [*strides(79), (1, 1, 8400)]),
    "yolov8-flat": (SQUARE, [(1, 84, 8400)]),
    "yolov5-flat": (SQUARE, [(1, 25200, 85)]),
    "yolox": (Frame(416, 416), [(1, 85, 52, 52), (1, 85, 26, 26), (1, 85, 13, 13)]),
    "yolox-flat": (Frame(416, 416), [(1, 3549, 85)]),
    "yolov10": (SQUARE, [(1, 300, 6)]),
    "retinaface": (Frame(320, 320), [(1, 4200, 4), (1, 4200, 2), (1, 4200, 10)]),
    "blaze-face": (Frame(128, 128), [(1, 896, 16), (1, 896, 1)]),
    "blaze-palm": (Frame(192, 192), [(1, 2016, 18), (1, 2016, 1)]),
    "blaze-person": (Frame(224, 224), [(1, 2254, 12), (1, 2254, 1)]),
    "landmarks-hand": (Frame(224, 224), [(1, 63), (1, 1), (1, 1), (1, 63)]),
    "landmarks-person": (
        Frame(256, 256),
        [(1, 195), (1, 1), (1, 256, 256, 1), (1, 64, 64, 39), (1, 117)],
    ),
    "landmarks-face": (Frame(192, 192), [(1, 1, 1, 1404), (1, 1, 1, 1)]),
    "ssd": (Frame(300, 300), [(1, 1917, 1, 4), (1, 1917, 91)]),
    "ssd-split": (
        Frame(300, 300),
        [(1, size * (3 if n == 19 else 6), n, n) for n in (19, 10, 5, 3, 2, 1) for size in (4, 91)],
    ),
    "classification": (Frame(224, 224), [(1, 1000)]),
    "segmentation": (Frame(512, 512), [(1, 19, 512, 512)]),
    "ppocr-det": (Frame(480, 480), [(1, 1, 480, 480)]),
    "ppocr-rec": (Frame(320, 48), [(1, 40, 6625)]),
}
CERTAIN = set(KNOWN) - {"yolov5", "yolov3-tiny", "yolov8-pose-flat", "yolox-flat"}


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_a_family_is_recognized_by_its_outputs(name: str) -> None:
    frame, shapes = KNOWN[name]
    family, note = recognize(shapes, frame)
    assert family.name == name
    if name in CERTAIN:
        assert note == ""


@pytest.mark.parametrize(
    ("shapes", "classes"),
    [
        (strides(64, 80), 80),
        (strides(4, 80, 1), 80),    # YOLOv6
        (strides(68, 80, 1), 80),   # PP-YOLOE
        (strides(64, 1, 1), 1),
        (strides(80, 64), 80),      # scores first
        ([*strides(4), *strides(80)], 80),  # YOLO26: boxes of all strides first
    ],
)
def test_relatives_of_yolov8_share_its_decoder(shapes: Shapes, classes: int) -> None:
    family, _ = recognize(shapes, SQUARE)
    assert (family.name, family.classes(shapes)) == ("yolov8", classes)


def test_what_cannot_be_told_apart_is_said() -> None:
    family, note = recognize(strides(255), SQUARE)
    assert family.name == "yolov5"
    assert "yolov7" in note
    assert "yolox" not in note
    assert recognize(strides(255), SQUARE, family="yolov7")[0].name == "yolov7"
    family, note = recognize([(1, 56, 8400)], SQUARE)
    assert family.name == "yolov8-pose-flat"
    assert "yolov8-flat" in note


def test_the_task_and_the_number_of_labels_decide() -> None:
    assert recognize([(1, 56, 8400)], SQUARE, task="detect")[0].name == "yolov8-flat"
    assert recognize([(1, 20, 8400)], SQUARE)[0].name == "yolov8-flat"
    assert recognize([(1, 20, 8400)], SQUARE, classes=15)[0].name == "yolov8-obb-flat"
    assert recognize(strides(18), SQUARE)[0].name == "yolov5"
    assert recognize(strides(18), SQUARE, classes=13)[0].name == "yolox"
    assert recognize([(1, 1, 480, 480)], Frame(480, 480), task="ocr")[0].name == "ppocr-det"


def test_unknown_outputs_are_named_with_a_way_out() -> None:
    with pytest.raises(UnknownFamilyError, match=re.escape("outputs 1x7x3x5 for an input of 640x640")):
        recognize([(1, 7, 3, 5)], SQUARE)
    with pytest.raises(UnknownFamilyError, match="they look like classifiers: try the command or task 'classify'"):
        recognize([(1, 1000)], SQUARE, task="detect")
    with pytest.raises(UnknownFamilyError, match="are not those of yolox"):
        recognize([(1, 1000)], SQUARE, family="yolox")
    with pytest.raises(ValueError, match="'yolov99' is unknown"):
        recognize([(1, 1000)], SQUARE, family="yolov99")


def test_every_family_has_a_name_of_its_own_and_an_example() -> None:
    names = [family.name for family in FAMILIES]
    assert len(set(names)) == len(names)
    asked = {"yolov7", "yolov3", "yolov4", "yolov4-tiny", "yolov8-obb-flat", "mask"}
    assert set(names) - set(KNOWN) == asked  # those that have to be asked for


def test_lists_of_names() -> None:
    for which, count in LISTS.items():
        assert len(names_of(which)) == count
    assert names_of("coco")[0] == "person"
    assert names_of("coco")[5] == "bus"
    assert names_of("coco90")[11] == "N/A"
    assert list(names_of("imagenet")) == (ROOT / "examples/models/imagenet_labels.txt").read_text().splitlines()
    assert names_for("detect", 80) == names_of("coco")
    assert names_for("detect", 15, "yolov8-obb") == names_of("dota")
    assert names_for("classify", 1001) == ("background", *names_of("imagenet"))
    assert names_for("detect", 7) is None
    assert name_of(None, 7) == "class 7"
    assert name_of(("a",), 7) == "class 7"
    with pytest.raises(ValueError, match="'klingon'"):
        names_of("klingon")
