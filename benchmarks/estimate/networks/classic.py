"""Classifiers and the face detector of the model zoo."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.estimate.networks.graph import Cube, Graph

__all__ = ["CLASSIC"]

_IMAGENET = 1000
_RESNET50 = (3, 4, 6, 3)


def mobilenet_v1(classes: int = 1001) -> Graph:
    """Depthwise and pointwise in turns."""
    g = Graph(224, 224)
    x = g.conv(g.input, 32, 3, 2, "relu6")
    plan = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)]
    for channels, stride in plan:
        x = g.conv(g.conv(x, x.channels, 3, stride, "relu6", groups=x.channels), channels, act="relu6")
    return _classify(g, x, classes)


def _classify(g: Graph, x: Cube, classes: int = _IMAGENET) -> Graph:
    g.output(g.conv(g.mean(x), classes, act=None))
    return g


def mobilenet_v2() -> Graph:
    """Inverted bottlenecks."""
    g = Graph(224, 224)
    x = g.conv(g.input, 32, 3, 2, "relu6")
    plan = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
    for factor, channels, count, first in plan:
        for number in range(count):
            y = g.conv(x, x.channels * factor, act="relu6") if factor > 1 else x
            y = g.conv(y, y.channels, 3, first if number == 0 else 1, "relu6", groups=y.channels)
            y = g.conv(y, channels, act=None)
            x = g.add(x, y) if number else y
    return _classify(g, g.conv(x, 1280, act="relu6"))


def _stem(g: Graph) -> Cube:
    return g.pool(g.conv(g.input, 64, 7, 2, "relu"), 3, 2)


def _basic(g: Graph, x: Cube, channels: int, stride: int) -> Cube:
    y = g.conv(g.conv(x, channels, 3, stride, "relu"), channels, 3, act=None)
    same = x if stride == 1 and x.channels == channels else g.conv(x, channels, 1, stride, None, pad=0)
    return g.act(g.add(y, same), "relu")


def _bottleneck(g: Graph, x: Cube, channels: int, stride: int) -> Cube:
    y = g.conv(g.conv(x, channels, act="relu"), channels, 3, stride, "relu")
    y = g.conv(y, 4 * channels, act=None)
    same = x if x.channels == y.channels else g.conv(x, y.channels, 1, stride, None, pad=0)
    return g.act(g.add(y, same), "relu")


def _preactivated(g: Graph, x: Cube, channels: int, stride: int) -> Cube:
    """Version 2: normalisation and ReLU come before each convolution, so the one after a sum stays alone."""
    clean = g.act(g.normalise(x), "relu")
    y = g.conv(g.conv(clean, channels, act="relu"), channels, 3, stride, "relu")
    y = g.conv(y, 4 * channels, act=None)
    return g.add(y, x if x.channels == y.channels else g.conv(clean, y.channels, 1, stride, None, pad=0))


def _stages(g: Graph, block: Callable[[Graph, Cube, int, int], Cube], counts: tuple[int, ...]) -> list[Cube]:
    x, levels = _stem(g), []
    for stage, count in enumerate(counts):
        for number in range(count):
            x = block(g, x, 64 << stage, 2 if stage and not number else 1)
        levels.append(x)
    return levels


def resnet(block: Callable[[Graph, Cube, int, int], Cube], counts: tuple[int, ...]) -> Graph:
    """Version 1 ends in a ReLU, version 2 in one more normalisation."""
    g = Graph(224, 224)
    x = _stages(g, block, counts)[-1]
    return _classify(g, g.act(g.normalise(x), "relu") if block is _preactivated else x)


def _small_levels(g: Graph) -> list[Cube]:
    """A quarter of MobileNetV1."""
    x, levels = g.conv(g.input, 8, 3, 2, "leaky"), []
    plan = [(16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2), *[(128, 1)] * 5, (256, 2), (256, 1)]
    for number, (channels, stride) in enumerate(plan):
        x = g.conv(g.conv(x, x.channels, 3, stride, "leaky", groups=x.channels), channels, act="leaky")
        if number in {4, 10, 12}:
            levels.append(x)
    return levels


def retinaface(small: bool) -> Graph:
    """A pyramid of three levels, context modules, and three heads over all of them."""
    g = Graph(320, 320)
    levels = _small_levels(g) if small else _stages(g, _bottleneck, _RESNET50)[1:]
    width, act = (64, "leaky") if small else (256, "relu")
    one, two, three = (g.conv(level, width, act=act) for level in levels)
    two = g.conv(g.add(two, g.up(three)), width, 3, act=act)
    one = g.conv(g.add(one, g.up(two)), width, 3, act=act)
    features = [_context(g, level, act) for level in (one, two, three)]
    for size in (4, 2, 10):
        rows = []
        for level in features:
            x = g.conv(level, 2 * size, act=None)
            moved = g.node("Transpose", x.name, perm=[0, 2, 3, 1])[0]
            shape = g.constant(np.array([1, 2 * x.height * x.width, size], np.int64))
            rows.append(g.node("Reshape", moved, shape)[0])
        joined = g.node("Concat", *rows, axis=1)[0]
        g.output(g.node("Softmax", joined, axis=-1)[0] if size == 2 else joined, [1, 4200, size])
    return g


def _context(g: Graph, x: Cube, act: str) -> Cube:
    half, quarter = x.channels // 2, x.channels // 4
    middle = g.conv(x, quarter, 3, act=act)
    wide = g.conv(g.conv(middle, quarter, 3, act=act), quarter, 3, act=None)
    return g.act(g.cat(g.conv(x, half, 3, act=None), g.conv(middle, quarter, 3, act=None), wide), "relu")


CLASSIC: dict[str, Callable[[], Graph]] = {
    "MobileNetV1": mobilenet_v1,
    "MobileNetV2": mobilenet_v2,
    "ResNet18": partial(resnet, _basic, (2, 2, 2, 2)),
    "ResNet50-v2": partial(resnet, _preactivated, _RESNET50),
    "RetinaFace mobile": partial(retinaface, small=True),
    "RetinaFace ResNet50": partial(retinaface, small=False),
}
