"""Darknet networks with random weights, written as a `.cfg` and a `.weights`."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np

from tests.compiler.nets import Array


class Darknet:
    """Grows both files layer by layer; `channels` of each layer are kept for what comes after."""

    def __init__(self, channels: int = 3, height: int = 32, width: int = 32, seed: int = 0) -> None:
        self.random = np.random.default_rng(seed)
        self.text = [f"[net]\nbatch=1\nwidth={width}\nheight={height}\nchannels={channels}\n"]
        self.numbers: list[Array] = []
        self.inputs = channels
        self.channels: list[int] = []

    def add(self, kind: str, channels: int | None = None, **options: Any) -> int:
        """A layer without weights; the number of the layer."""
        lines = [f"{name}={value}" for name, value in options.items()]
        self.text.append("\n".join([f"[{kind}]", *lines, ""]))
        self.channels.append(self.last if channels is None else channels)
        return len(self.channels) - 1

    @property
    def last(self) -> int:
        return self.channels[-1] if self.channels else self.inputs

    def conv(
        self, filters: int, size: int = 3, stride: int = 1, *, activation: str = "leaky", normalised: bool = True,
        groups: int = 1, **options: Any,
    ) -> int:  # fmt: skip
        inputs = self.last // groups
        self.numbers.append(self.random.normal(0, 0.1, filters))
        if normalised:
            self.numbers += [
                self.random.uniform(0.5, 1.5, filters), self.random.normal(0, 0.1, filters),
                self.random.uniform(0.5, 1.5, filters),
            ]  # fmt: skip
            options["batch_normalize"] = 1
        fan = inputs * size * size
        self.numbers.append(self.random.normal(0, (2 / fan) ** 0.5, (filters, inputs, size, size)))
        if groups > 1:
            options["groups"] = groups
        return self.add("convolutional", filters, filters=filters, size=size, stride=stride, pad=1,
                        activation=activation, **options)  # fmt: skip

    def connected(self, inputs: int, outputs: int, activation: str = "linear") -> int:
        self.numbers += [self.random.normal(0, 0.1, outputs), self.random.normal(0, inputs**-0.5, (outputs, inputs))]
        return self.add("connected", outputs, output=outputs, activation=activation)

    def route(self, *layers: int, **options: Any) -> int:
        count = sum(self.channels[number] for number in layers) // int(options.get("groups", 1))
        return self.add("route", count, layers=",".join(map(str, layers)), **options)

    def shortcut(self, source: int | str, activation: str) -> int:
        options: dict[str, Any] = {"from": source, "activation": activation}
        return self.add("shortcut", None, **options)

    def yolo(self, mask: str, anchors: str, classes: int, **options: Any) -> int:
        return self.add("yolo", mask=mask, anchors=anchors, classes=classes, num=len(anchors.split(",")) // 2,
                        jitter=".3", ignore_thresh=".7", truth_thresh=1, random=1, **options)  # fmt: skip

    def weights(self, version: tuple[int, int, int] = (0, 2, 5)) -> bytes:
        is_wide = version[0] * 10 + version[1] >= 2
        head = struct.pack("<3i", *version) + struct.pack("<q" if is_wide else "<i", 32_013_312)
        return head + b"".join(part.astype("<f4").tobytes() for part in self.numbers)

    def save(self, folder: Path, name: str = "net") -> Path:
        (folder / f"{name}.weights").write_bytes(self.weights())
        path = folder / f"{name}.cfg"
        path.write_text("\n".join(self.text))
        return path


TINY_ANCHORS = "10,14, 23,27, 37,58, 81,82, 135,169, 344,319"


def yolov3_tiny(side: int = 96, classes: int = 4, width: int = 1) -> Darknet:
    """Every layer of yolov3-tiny.cfg; the channels are an eighth of it, times `width`."""
    net = Darknet(3, side, side)
    for step, filters in enumerate((2, 4, 8, 16, 32, 64)):
        net.conv(filters * width)
        net.add("maxpool", size=2, stride=2 if step < 5 else 1)
    net.conv(128 * width)
    middle = net.conv(32 * width, 1)
    net.conv(64 * width)
    net.conv(3 * (5 + classes), 1, activation="linear", normalised=False)
    net.yolo("3,4,5", TINY_ANCHORS, classes)
    net.add("route", net.channels[middle], layers=-4)
    net.conv(16 * width, 1)
    net.add("upsample", stride=2)
    net.add("route", 16 * width + 32 * width, layers="-1,8")
    net.conv(32 * width)
    net.conv(3 * (5 + classes), 1, activation="linear", normalised=False)
    net.yolo("0,1,2", TINY_ANCHORS, classes)
    return net


def yolov4_tiny(side: int = 96, classes: int = 4, width: int = 1) -> Darknet:
    """Every layer of yolov4-tiny.cfg: three stages that work on half of their channels, and two heads."""
    net = Darknet(3, side, side)
    net.conv(4 * width, stride=2)
    net.conv(8 * width, stride=2)
    fine = 0
    for filters in (8 * width, 16 * width, 32 * width):
        whole = net.conv(filters)
        half = net.route(whole, groups=2, group_id=1)
        assert net.channels[half] == filters // 2
        one = net.conv(filters // 2)
        two = net.conv(filters // 2)
        net.route(two, one)
        fine = net.conv(filters, 1)
        net.route(whole, fine)
        net.add("maxpool", size=2, stride=2)
    net.conv(64 * width)
    middle = net.conv(32 * width, 1)
    net.conv(64 * width)
    net.conv(3 * (5 + classes), 1, activation="linear", normalised=False)
    net.yolo("3,4,5", TINY_ANCHORS, classes, scale_x_y="1.05")
    net.route(middle)
    net.conv(16 * width, 1)
    up = net.add("upsample", stride=2)
    net.route(up, fine)
    net.conv(32 * width)
    net.conv(3 * (5 + classes), 1, activation="linear", normalised=False)
    net.yolo("1,2,3", TINY_ANCHORS, classes, scale_x_y="1.05")
    return net


def decoded(head: Array, mask: list[int], anchors: list[tuple[int, int]], side: int, grow: float = 1.0) -> Array:
    """Rows of x, y, w, h (parts of the picture), object, classes x object: what Darknet's yolo layer makes of a map."""
    _, channels, rows, columns = head.shape
    each = channels // len(mask)
    values = head.reshape(len(mask), each, rows, columns).transpose(2, 3, 0, 1).astype(np.float64)
    soft = 1 / (1 + np.exp(-values))
    x = (soft[..., 0] * grow - (grow - 1) / 2 + np.arange(columns)[None, :, None]) / columns
    y = (soft[..., 1] * grow - (grow - 1) / 2 + np.arange(rows)[:, None, None]) / rows
    sizes = np.array([anchors[number] for number in mask]) / side
    boxes = np.stack([x, y, *np.moveaxis(np.exp(values[..., 2:4]) * sizes, -1, 0), soft[..., 4]], -1)
    return np.concatenate([boxes, soft[..., 5:] * soft[..., 4:5]], -1).reshape(-1, each)
