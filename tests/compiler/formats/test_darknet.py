"""Darknet's files. The witness is OpenCV's own reader; where it has no such layer, NumPy after Darknet's source."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from openrknn.compiler import read_model
from tests.compiler.formats.darknet_nets import TINY_ANCHORS, Darknet, decoded, yolov3_tiny, yolov4_tiny
from tests.compiler.formats.witness import opencv, ran
from tests.compiler.nets import Array


def ours(path: Any, feed: Array) -> dict[str, Array]:
    model = read_model(path)
    onnx.checker.check_model(model, full_check=True)
    return ran(model, {"data": feed})


def picture(net: Darknet, seed: int = 3) -> Array:
    sizes = [int(line.split("=")[1]) for line in net.text[0].splitlines() if line[:5] in {"width", "heigh", "chann"}]
    return np.random.default_rng(seed).uniform(0, 1, (1, sizes[2], sizes[1], sizes[0])).astype(np.float32)


def compare(net: Darknet, folder: Path) -> Array:
    """The last layer, ours and OpenCV's."""
    path = net.save(folder)
    feed = picture(net)
    reader = opencv().dnn.readNetFromDarknet(str(path), str(path.with_suffix(".weights")))
    reader.setInput(feed)
    wanted = np.asarray(reader.forward())
    (got,) = ours(path, feed).values()
    np.testing.assert_allclose(got.reshape(wanted.shape), wanted, rtol=1e-4, atol=1e-5)
    return got


ACTIVATIONS = ("leaky", "relu", "mish", "swish", "logistic", "tanh", "linear")


@pytest.mark.parametrize("kind", ACTIVATIONS)
def test_activations_are_opencvs(kind: str, tmp_path: Path) -> None:
    net = Darknet(3, 9, 11)
    net.conv(8, activation="linear")
    net.conv(6, activation=kind)
    compare(net, tmp_path)


def grouped(net: Darknet) -> None:
    net.conv(8)
    net.conv(16, groups=4, normalised=False, activation="linear")


def strided(net: Darknet) -> None:
    net.conv(8, 5, 2)
    net.conv(4, 1, 2, activation="linear")


def pool(size: int, stride: int, **options: int) -> Callable[[Darknet], None]:
    def make(net: Darknet) -> None:
        net.conv(4)
        net.add("maxpool", size=size, stride=stride, **options)

    return make


def mean(net: Darknet) -> None:
    net.conv(4)
    net.add("avgpool")


def routes(net: Darknet) -> None:
    net.conv(4)
    net.conv(6)
    net.conv(2, 1)
    net.route(2, 0, 1)


def parts(net: Darknet) -> None:
    net.conv(8)
    net.route(0, groups=4, group_id=2)
    net.conv(3, 1)


def shortcuts(net: Darknet) -> None:
    net.conv(4)
    net.conv(4, 1)
    net.conv(4, 1)
    net.shortcut(-3, "leaky")


def narrow_shortcut(net: Darknet) -> None:
    net.conv(6)
    net.conv(4, 1)
    net.shortcut(-2, "linear")


def upsampled(net: Darknet) -> None:
    net.conv(4)
    net.add("upsample", stride=2)


def gates(net: Darknet) -> None:
    net.conv(4)
    net.add("avgpool")
    net.conv(4, 1, activation="logistic", normalised=False)
    net.add("scale_channels", None, **{"from": 0})


def attention(net: Darknet) -> None:
    net.conv(4)
    net.conv(4, 3, activation="logistic", normalised=False)
    net.add("sam", None, **{"from": 0})


def classes(net: Darknet) -> None:
    net.conv(10, 1)
    net.add("avgpool")
    net.add("softmax", groups=1)


def vectors(net: Darknet) -> None:
    net.conv(4, 3, 2)
    net.connected(4 * 12 * 10, 12, "leaky")
    net.connected(12, 5)


def blocks(net: Darknet) -> None:
    net.conv(8)
    net.add("reorg", stride=2)


def dropped(net: Darknet) -> None:
    net.conv(8)
    net.add("dropout", probability=".5")
    net.conv(4, 1)


LAYERS = [
    grouped, strided, mean, routes, parts, shortcuts, narrow_shortcut, upsampled, gates, attention, classes, blocks,
    dropped, vectors, pool(2, 2), pool(2, 1), pool(3, 1), pool(3, 2), pool(5, 1), pool(13, 1), pool(2, 2, padding=0),
]  # fmt: skip


@pytest.mark.parametrize("make", LAYERS, ids=lambda make: make.__name__)
def test_layers_are_opencvs(make: Callable[[Darknet], None], tmp_path: Path) -> None:
    net = Darknet(3, 24, 20)
    make(net)
    compare(net, tmp_path)


@pytest.mark.parametrize(("make", "masks", "grow"), [
    (yolov3_tiny, {"yolo_16": [3, 4, 5], "yolo_23": [0, 1, 2]}, 1.0),
    (yolov4_tiny, {"yolo_30": [3, 4, 5], "yolo_37": [1, 2, 3]}, 1.05),
])  # fmt: skip
def test_whole_detectors_are_opencvs(
    make: Callable[[], Darknet], masks: dict[str, list[int]], grow: float, tmp_path: Path
) -> None:
    net = make()
    path, feed = net.save(tmp_path), picture(net)
    reader = opencv().dnn.readNetFromDarknet(str(path), str(path.with_suffix(".weights")))
    assert list(reader.getUnconnectedOutLayersNames()) == list(masks)
    reader.setInput(feed)
    got = ours(path, feed)
    assert list(got) == list(masks)
    numbers = [int(part) for part in TINY_ANCHORS.split(",")]
    anchors = list(zip(numbers[::2], numbers[1::2], strict=True))
    for (name, mask), boxes in zip(masks.items(), reader.forward(list(masks)), strict=True):
        assert got[name].shape[1] == 27
        mine = decoded(got[name], mask, anchors, 96, grow)
        # OpenCV leaves out scores below its own threshold: 0.
        np.testing.assert_allclose(mine[:, :5], boxes[:, :5], rtol=1e-4, atol=1e-5)
        seen = boxes[:, 5:] > 0
        assert seen.any()
        np.testing.assert_allclose(mine[:, 5:][seen], boxes[:, 5:][seen], rtol=1e-4, atol=1e-5)
