"""The decoders once more: slow, plain, with loops, straight from the formulas. Float arrays only."""

import math
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Found = list[tuple[int, float, tuple[float, ...]]]
"""class, score, left, top, right, bottom"""


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def iou(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    both = width * height
    return both / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both)


def suppressed(found: Found, overlap: float) -> list[int]:
    """The rows that stay, by the definition."""
    order = sorted(range(len(found)), key=lambda row: (-np.float32(found[row][1]), row))
    kept: list[int] = []
    for row in order:
        rivals = [other for other in kept if found[other][0] == found[row][0]]
        if all(iou(found[other][2], found[row][2]) <= overlap for other in rivals):
            kept.append(row)
    return kept


def mean_bin(scores: Array) -> float:
    """Distribution focal loss of one side."""
    if len(scores) == 1:
        return float(scores[0])
    powers = [math.exp(float(score)) for score in scores]
    return sum(index * power for index, power in enumerate(powers)) / sum(powers)


def yolov8(branches: list[tuple[Array, Array]], width: int, threshold: float) -> tuple[Found, list[tuple[int, int]]]:
    """Boxes [1, 4 * bins, h, w] and scores [1, classes, h, w]; also which stride and cell each one is."""
    found: Found = []
    places = []
    for number, (box, score) in enumerate(branches):
        rows, columns = score.shape[2:]
        bins, stride = box.shape[1] // 4, width / columns
        for y in range(rows):
            for x in range(columns):
                best = int(score[0, :, y, x].argmax())
                value = float(score[0, best, y, x])
                if value < threshold:
                    continue
                sides = [mean_bin(box[0, side * bins : (side + 1) * bins, y, x]) for side in range(4)]
                corners = (x + 0.5 - sides[0], y + 0.5 - sides[1], x + 0.5 + sides[2], y + 0.5 + sides[3])
                found.append((best, value, tuple(corner * stride for corner in corners)))
                places.append((number, y * columns + x))
    return found, places


def yolov5(heads: list[Array], anchors: dict[int, Any], width: int, threshold: float) -> tuple[Found, list[Any]]:
    """After the sigmoid."""
    found: Found = []
    places = []
    for number, head in enumerate(heads):
        rows, columns = head.shape[2:]
        each, stride = head.shape[1] // 3, width // columns
        for anchor in range(3):
            for y in range(rows):
                for x in range(columns):
                    part = head[0, anchor * each : (anchor + 1) * each, y, x].astype(float)
                    best = int(part[5:].argmax())
                    score = float(np.float32(part[4]) * np.float32(part[5 + best]))
                    if part[4] < threshold or score < threshold:
                        continue
                    cx, cy = (2 * part[0] - 0.5 + x) * stride, (2 * part[1] - 0.5 + y) * stride
                    w = (2 * part[2]) ** 2 * anchors[stride][anchor][0]
                    h = (2 * part[3]) ** 2 * anchors[stride][anchor][1]
                    found.append((best, score, (cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2)))
                    places.append((number, anchor, y * columns + x))
    return found, places


def yolox(heads: list[Array], width: int, threshold: float) -> Found:
    """After the sigmoid."""
    found: Found = []
    for head in heads:
        rows, columns = head.shape[2:]
        stride = width / columns
        for y in range(rows):
            for x in range(columns):
                part = head[0, :, y, x].astype(float)
                best = int(part[5:].argmax())
                score = float(np.float32(part[4]) * np.float32(part[5 + best]))
                if part[4] < threshold or score < threshold:
                    continue
                cx, cy = (part[0] + x) * stride, (part[1] + y) * stride
                w, h = math.exp(part[2]) * stride, math.exp(part[3]) * stride
                found.append((best, score, (cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2)))
    return found


def centre_box(cx: float, cy: float, w: float, h: float) -> tuple[float, float, float, float]:
    return cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2


def retinaface_priors(width: int, height: int) -> list[tuple[float, float, float]]:
    """Centre and size, in pixels."""
    priors = []
    for stride, sizes in ((8, (16, 32)), (16, (64, 128)), (32, (256, 512))):
        for y in range(math.ceil(height / stride)):
            for x in range(math.ceil(width / stride)):
                priors += [((x + 0.5) * stride, (y + 0.5) * stride, float(size)) for size in sizes]
    return priors


def ssd_priors(width: int, height: int) -> list[tuple[float, float, float, float]]:
    """Centre and size in parts of the frame."""
    scales = [0.2 + 0.15 * layer for layer in range(6)] + [1.0]
    rows, columns = math.ceil(height / 16), math.ceil(width / 16)
    priors = []
    for layer in range(6):
        if layer == 0:
            pairs = [(0.1, 1.0), (0.2, 2.0), (0.2, 0.5)]
        else:
            pairs = [(scales[layer], ratio) for ratio in (1.0, 2.0, 0.5, 3.0, 1 / 3)]
            pairs.append((math.sqrt(scales[layer] * scales[layer + 1]), 1.0))
        for y in range(rows):
            for x in range(columns):
                for scale, ratio in pairs:
                    size = (scale * math.sqrt(ratio), scale / math.sqrt(ratio))
                    priors.append(((x + 0.5) / columns, (y + 0.5) / rows, *size))
        rows, columns = math.ceil(rows / 2), math.ceil(columns / 2)
    return priors


def bilinear(picture: Array, y: float, x: float) -> float:
    """The value at a place between pixel centres; outside, that of the edge."""
    rows, columns = picture.shape
    y, x = min(max(y - 0.5, 0), rows - 1), min(max(x - 0.5, 0), columns - 1)
    top, left = min(int(y), rows - 2), min(int(x), columns - 2)
    down, right = y - top, x - left
    upper = picture[top, left] * (1 - right) + picture[top, left + 1] * right
    lower = picture[top + 1, left] * (1 - right) + picture[top + 1, left + 1] * right
    return float(upper * (1 - down) + lower * down)


def ctc(best: list[int], characters: str) -> str:
    """First fold equal neighbours, then drop the blank."""
    folded = [number for at, number in enumerate(best) if at == 0 or best[at - 1] != number]
    return "".join(characters[number - 1] for number in folded if number)


def flood(mask: Array) -> list[set[tuple[int, int]]]:
    """Groups of pixels that touch, by filling."""
    left = {(int(y), int(x)) for y, x in zip(*np.nonzero(mask), strict=True)}
    groups = []
    while left:
        group, edge = set(), [left.pop()]
        while edge:
            y, x = edge.pop()
            group.add((y, x))
            near = {(y + dy, x + dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1)} & left
            left -= near
            edge += near
        groups.append(group)
    return groups
