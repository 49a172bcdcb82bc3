"""YOLOv3 and v4. The witness is the decoding that tests/compiler/formats compares with OpenCV's yolo layers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the extra `compile` is not installed")

from openrknn.vision.decoders import darknet
from openrknn.vision.families import FAMILIES, recognize
from openrknn.vision.heads import Head
from tests.compiler.formats.darknet_nets import decoded
from tests.vision import slow
from tests.vision.tensors import FRAME, Array, floats, plain, quantized
from tests.vision.test_detectors import SETTINGS, compare

MASKS = {"yolov3": (8, 16, 32), "yolov4": (8, 16, 32), "yolov3-tiny": (32, 16), "yolov4-tiny": (32, 16)}


def heads_of(family: str, way: Callable[[Array], Head]) -> list[Head]:
    chance = np.random.default_rng(9)
    heads = []
    for stride in MASKS[family]:
        values = chance.normal(-1, 2, (1, 3 * 9, FRAME.height // stride, FRAME.width // stride))
        heads.append(way(values.astype(np.float32)))
    return heads


@pytest.mark.parametrize("way", [plain, quantized])
@pytest.mark.parametrize("family", MASKS)
def test_darknets_heads(family: str, way: Callable[[Array], Head]) -> None:
    heads = heads_of(family, way)
    expected: slow.Found = []
    for head, stride in zip(heads, MASKS[family], strict=True):
        entry = darknet.DARKNET[family][stride]
        rows = decoded(floats(head), [0, 1, 2], list(entry.anchors), 1, entry.grow)
        _, _, down, across = head.shape
        # Decoders go anchor by anchor, Darknet's layer cell by cell.
        rows = rows.reshape(down * across, 3, 9).transpose(1, 0, 2).reshape(-1, 9)
        for x, y, w, h, chance, *scores in rows:
            best = int(np.argmax(scores))
            cx, cy = x * FRAME.width, y * FRAME.height
            if chance >= SETTINGS.threshold and scores[best] >= SETTINGS.threshold:
                expected.append((best, float(scores[best]), (cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2)))
    compare(darknet.decode(heads, FRAME, SETTINGS, family=family), expected)


def test_tiny_networks_are_recognized_and_large_ones_asked_for() -> None:
    by_name = {entry.name: entry for entry in FAMILIES}
    for family in MASKS:
        shapes = [head.shape for head in heads_of(family, plain)]
        assert by_name[family].matches(shapes, FRAME)
    assert recognize([head.shape for head in heads_of("yolov4-tiny", plain)], FRAME)[0].name == "yolov3-tiny"
