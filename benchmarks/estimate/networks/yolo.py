"""Detectors of the YOLO kind, as the vendor's model zoo exports them: the heads end in convolutions and sigmoids.

Written from the published layer tables: depth and width factors, and what each block is made of.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.estimate.networks.graph import Cube, Graph

__all__ = ["YOLO"]

_CLASSES = 80
_BINS = 64
"""Four sides, 16 bins each."""


def _wide(channels: int, factor: float, most: int = 1024) -> int:
    return math.ceil(min(channels, most) * factor / 8) * 8


def _deep(count: int, factor: float) -> int:
    return max(round(count * factor), 1)


def _bottleneck(g: Graph, x: Cube, channels: int, e: float, add: bool, act: str, kernel: int = 3) -> Cube:
    y = g.conv(g.conv(x, int(channels * e), kernel, act=act), channels, 3, act=act)
    return g.add(x, y) if add and x.channels == channels else y


def _c3(g: Graph, x: Cube, channels: int, count: int, add: bool, act: str, kernel: int = 1) -> Cube:
    half = channels // 2
    y = g.conv(x, half, act=act)
    for _ in range(count):
        y = _bottleneck(g, y, half, 1.0, add, act, kernel)
    return g.conv(g.cat(y, g.conv(x, half, act=act)), channels, act=act)


Block = Callable[[Graph, Cube], Cube]


def _c2f(g: Graph, x: Cube, channels: int, count: int, block: Block, e: float = 0.5) -> Cube:
    """Split, a row of blocks of which each result is kept, and a convolution over all of them."""
    parts = list(g.split(g.conv(x, 2 * int(channels * e))))
    for _ in range(count):
        parts.append(block(g, parts[-1]))
    return g.conv(g.cat(*parts), channels)


def _plain(channels: int, add: bool, e: float = 1.0) -> Block:
    return lambda g, x: _bottleneck(g, x, channels, e, add, "silu")


def _sppf(g: Graph, x: Cube, channels: int, act: str = "silu") -> Cube:
    parts = [g.conv(x, x.channels // 2, act=act)]
    for _ in range(3):
        parts.append(g.pool(parts[-1], 5))
    return g.conv(g.cat(*parts), channels, act=act)


def yolov5(depth: float, width: float, act: str = "silu", masks: int = 0) -> Graph:
    """v5 since 6.0; with masks, the segmenting one."""
    g = Graph(640, 640)
    ch = [_wide(value, width) for value in (64, 128, 256, 512, 1024)]
    x = g.conv(g.input, ch[0], 6, 2, act, pad=2)
    levels = []
    for stage, count in enumerate((3, 6, 9, 3), 1):
        x = _c3(g, g.conv(x, ch[stage], 3, 2, act), ch[stage], _deep(count, depth), True, act)
        levels.append(x)
    n = _deep(3, depth)
    p5 = g.conv(_sppf(g, levels[3], ch[4], act), ch[3], act=act)
    p4 = g.conv(_c3(g, g.cat(g.up(p5), levels[2]), ch[3], n, False, act), ch[2], act=act)
    out3 = _c3(g, g.cat(g.up(p4), levels[1]), ch[2], n, False, act)
    out4 = _c3(g, g.cat(g.conv(out3, ch[2], 3, 2, act), p4), ch[3], n, False, act)
    out5 = _c3(g, g.cat(g.conv(out4, ch[3], 3, 2, act), p5), ch[4], n, False, act)
    for level in (out3, out4, out5):
        g.output(g.conv(level, 3 * (5 + _CLASSES), act="sigmoid"))
        if masks:
            g.output(g.conv(level, 3 * masks, act=None))
    if masks:
        proto = g.up(g.conv(out3, _wide(256, width), 3, act=act))
        g.output(g.conv(g.conv(proto, proto.channels, 3, act=act), masks, act=act))
    return g


def _pyramid(
    g: Graph, levels: list[Cube], block: Callable[[Cube, int, int], Cube], down: list[Block], ch: list[int]
) -> list[Cube]:
    """Up and down again: three levels in, three out; `block` knows its place by number."""
    p4 = block(g.cat(g.up(levels[2]), levels[1]), ch[1], 0)
    out3 = block(g.cat(g.up(p4), levels[0]), ch[0], 1)
    out4 = block(g.cat(down[0](g, out3), p4), ch[1], 2)
    return [out3, out4, block(g.cat(down[1](g, out4), levels[2]), ch[2], 3)]


def _head(g: Graph, levels: list[Cube], *, light: bool, classes: int = _CLASSES, extra: int = 0) -> None:
    """Boxes in bins, class scores, the sum of the scores, and what a variant adds."""
    boxes, scores = max(16, levels[0].channels // 4, _BINS), max(levels[0].channels, min(classes, 100))
    for level in levels:
        g.output(g.conv(g.conv(g.conv(level, boxes, 3), boxes, 3), _BINS, act=None))
        x = level
        for _ in range(2):
            x = g.conv(g.conv(x, x.channels, 3, groups=x.channels), scores) if light else g.conv(x, scores, 3)
        x = g.conv(x, classes, act="sigmoid")
        g.output(x)
        total = g.node("ReduceSum", x.name, g.constant(np.array([1], np.int64)), keepdims=1)[0]
        clipped = g.node("Clip", total, g.constant(np.float32(0)), g.constant(np.float32(1)))[0]
        g.output(x._replace(name=clipped, channels=1))
        if extra:
            more = max(levels[0].channels // 4, extra)
            g.output(g.conv(g.conv(g.conv(level, more, 3), more, 3), extra, act=None))


def yolov8(depth: float, width: float, most: int, masks: int = 0, classes: int = _CLASSES, extra: int = 0) -> Graph:
    """v8; `extra`: channels of a third branch (angles, mask coefficients)."""
    g = Graph(640, 640)
    ch = [_wide(value, width, most) for value in (64, 128, 256, 512, 1024)]
    x = g.conv(g.input, ch[0], 3, 2)
    levels = []
    for stage, count in enumerate((3, 6, 6, 3), 1):
        n = _deep(count, depth)
        x = _c2f(g, g.conv(x, ch[stage], 3, 2), ch[stage], n, _plain(ch[stage] // 2, True))
        levels.append(x)
    levels[3] = _sppf(g, levels[3], ch[4])
    n = _deep(3, depth)
    down: list[Block] = [lambda g, x: g.conv(x, x.channels, 3, 2)] * 2
    outs = _pyramid(g, levels[1:], lambda x, c, _: _c2f(g, x, c, n, _plain(c // 2, False)), down, ch[2:])
    _head(g, outs, light=False, classes=classes, extra=extra or masks)
    if masks:
        proto = g.conv(outs[0], _wide(256, width, most), 3)
        proto = g.deconv(proto, proto.channels)
        g.output(g.conv(g.conv(proto, proto.channels, 3), masks))
    return g


def _attend(g: Graph, x: Cube) -> Cube:
    """Attention over all pixels, with a depthwise convolution for the places."""
    heads, dim, pixels = max(x.channels // 64, 1), x.channels, x.height * x.width
    each = dim // heads
    key = each // 2
    qkv = g.conv(x, dim + 2 * key * heads, act=None)
    flat = g.node("Reshape", qkv.name, g.constant(np.array([1, heads, 2 * key + each, pixels], np.int64)))[0]
    sizes = g.constant(np.array([key, key, each], np.int64))
    q, k, v = g.node("Split", flat, sizes, outputs=3, axis=2)
    scores = g.node("MatMul", g.node("Transpose", q, perm=[0, 1, 3, 2])[0], k)[0]
    scores = g.node("Mul", scores, g.constant(np.float32(key**-0.5)))[0]
    weights = g.node("Transpose", g.node("Softmax", scores, axis=-1)[0], perm=[0, 1, 3, 2])[0]
    shape = g.constant(np.array([1, dim, x.height, x.width], np.int64))
    mixed = x._replace(name=g.node("Reshape", g.node("MatMul", v, weights)[0], shape)[0])
    values = x._replace(name=g.node("Reshape", v, shape)[0])
    return g.conv(g.add(mixed, g.conv(values, dim, 3, groups=dim, act=None)), dim, act=None)


def _psa(g: Graph, x: Cube, count: int = 1) -> Cube:
    a, b = g.split(g.conv(x, x.channels))
    for _ in range(count):
        b = g.add(b, _attend(g, b))
        b = g.add(b, g.conv(g.conv(b, 2 * b.channels), b.channels, act=None))
    return g.conv(g.cat(a, b), x.channels)


def _cib(channels: int) -> Block:
    """Depthwise and pointwise in turns; the middle one is 7x7."""

    def block(g: Graph, x: Cube) -> Cube:
        y = g.conv(g.conv(x, x.channels, 3, groups=x.channels), 2 * channels)
        y = g.conv(g.conv(y, y.channels, 7, groups=y.channels), channels)
        return g.add(x, g.conv(y, channels, 3, groups=channels))

    return block


def _scdown(channels: int) -> Block:
    return lambda g, x: g.conv(g.conv(x, channels), channels, 3, 2, None, groups=channels)


def yolov10(width: float, *, compact_p5: bool) -> Graph:
    """v10, the head that needs no suppression; `compact_p5`: the deepest stage is made of compact blocks too."""
    g = Graph(640, 640)
    ch = [_wide(value, width) for value in (64, 128, 256, 512, 1024)]
    x = g.conv(g.input, ch[0], 3, 2)
    levels = []
    for stage, count in enumerate((1, 2, 2, 1), 1):
        x = _scdown(ch[stage])(g, x) if stage > 2 else g.conv(x, ch[stage], 3, 2)
        block = _cib(ch[stage] // 2) if stage == 4 and compact_p5 else _plain(ch[stage] // 2, True)
        x = _c2f(g, x, ch[stage], count, block)
        levels.append(x)
    levels[3] = _psa(g, _sppf(g, levels[3], ch[4]))

    def made(x: Cube, channels: int, place: int) -> Cube:
        return _c2f(g, x, channels, 1, _cib(channels // 2) if place == 3 else _plain(channels // 2, False))

    down: list[Block] = [lambda g, x: g.conv(x, x.channels, 3, 2), _scdown(ch[3])]
    _head(g, _pyramid(g, levels[1:], made, down, ch[2:]), light=True)
    return g


def _c3k(channels: int) -> Block:
    return lambda g, x: _c3(g, x, channels, 2, True, "silu", 3)


def yolo11(width: float, most: int = 1024, *, nested: bool = False) -> Graph:
    """11; `nested`: all blocks are blocks of blocks (from m on)."""
    g = Graph(640, 640)
    ch = [_wide(value, width, most) for value in (64, 128, 256, 512, 512, 1024)]
    ch[4] = _wide(512, width, most)

    def made(x: Cube, channels: int, deep: bool, e: float = 0.5) -> Cube:
        half = int(channels * e)
        return _c2f(g, x, channels, 1, _c3k(half) if deep or nested else _plain(half, True, 0.5), e)

    x = g.conv(g.conv(g.input, ch[0], 3, 2), ch[1], 3, 2)
    x = made(x, ch[2], False, 0.25)
    p3 = made(g.conv(x, ch[2], 3, 2), ch[3], False, 0.25)
    p4 = made(g.conv(p3, ch[4], 3, 2), ch[4], True)
    p5 = made(g.conv(p4, ch[5], 3, 2), ch[5], True)
    p5 = _psa(g, _sppf(g, p5, ch[5]))
    down: list[Block] = [lambda g, x: g.conv(x, x.channels, 3, 2)] * 2
    sizes = [_wide(value, width, most) for value in (256, 512, 1024)]
    _head(g, _pyramid(g, [p3, p4, p5], lambda x, c, place: made(x, c, place == 3), down, sizes), light=True)
    return g


def yolox(depth: float, width: float) -> Graph:
    """The picture's four phases are taken by one 6x6 convolution; heads apart for classes and boxes."""
    g = Graph(640, 640)
    ch = [_wide(value, width) for value in (64, 128, 256, 512, 1024)]
    x = g.conv(g.input, ch[0], 6, 2, pad=2)
    levels = []
    for stage, count in enumerate((3, 9, 9, 3), 1):
        x = g.conv(x, ch[stage], 3, 2)
        if stage == 4:
            x = _sppf(g, x, ch[4])
        x = _c3(g, x, ch[stage], _deep(count, depth), stage != 4, "silu")
        levels.append(x)
    n = _deep(3, depth)
    p5 = g.conv(levels[3], ch[3])
    p4 = g.conv(_c3(g, g.cat(g.up(p5), levels[2]), ch[3], n, False, "silu"), ch[2])
    out3 = _c3(g, g.cat(g.up(p4), levels[1]), ch[2], n, False, "silu")
    out4 = _c3(g, g.cat(g.conv(out3, ch[2], 3, 2), p4), ch[3], n, False, "silu")
    out5 = _c3(g, g.cat(g.conv(out4, ch[3], 3, 2), p5), ch[4], n, False, "silu")
    for level in (out3, out4, out5):
        stem = g.conv(level, ch[2])
        classes = g.conv(g.conv(stem, ch[2], 3), ch[2], 3)
        boxes = g.conv(g.conv(stem, ch[2], 3), ch[2], 3)
        parts = g.conv(boxes, 4, act=None), g.conv(boxes, 1, act="sigmoid"), g.conv(classes, _CLASSES, act="sigmoid")
        g.output(g.cat(*parts))
    return g


YOLO: dict[str, Callable[[], Graph]] = {
    "YOLOv5n": partial(yolov5, 0.33, 0.25),
    "YOLOv5s": partial(yolov5, 0.33, 0.5),
    "YOLOv5m": partial(yolov5, 0.67, 0.75),
    "YOLOv5s-relu": partial(yolov5, 0.33, 0.5, "relu"),
    "YOLOv5n-seg": partial(yolov5, 0.33, 0.25, masks=32),
    "YOLOv5s-seg": partial(yolov5, 0.33, 0.5, masks=32),
    "YOLOv8n": partial(yolov8, 0.33, 0.25, 1024),
    "YOLOv8s": partial(yolov8, 0.33, 0.5, 1024),
    "YOLOv8m": partial(yolov8, 0.67, 0.75, 768),
    "YOLOv8n-obb": partial(yolov8, 0.33, 0.25, 1024, classes=15, extra=1),
    "YOLOv8n-seg": partial(yolov8, 0.33, 0.25, 1024, masks=32),
    "YOLOv8s-seg": partial(yolov8, 0.33, 0.5, 1024, masks=32),
    "YOLOv10n": partial(yolov10, 0.25, compact_p5=False),
    "YOLOv10s": partial(yolov10, 0.5, compact_p5=True),
    "YOLO11n": partial(yolo11, 0.25),
    "YOLO11s": partial(yolo11, 0.5),
    "YOLO11m": partial(yolo11, 1.0, 512, nested=True),
    "YOLOX-s": partial(yolox, 0.33, 0.5),
    "YOLOX-m": partial(yolox, 0.67, 0.75),
}
