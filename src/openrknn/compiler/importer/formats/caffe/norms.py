"""Layers that divide by what is around: LRN, MVN, SSD's Normalize; and SSD's priors."""

from __future__ import annotations

import math

import numpy as np

from openrknn.compiler.importer.formats.caffe.place import Place

_MOST_PRIORS = 1 << 24


def lrn(place: Place) -> str:
    """x / (k + alpha / n * sum of squares)^beta, over n channels, or over a window of n x n pixels."""
    fields = place.param("lrn")
    size, bias = fields.whole("local_size", 5, 1), fields.number("k", 1.0)
    alpha, beta = fields.number("alpha", 1.0), fields.number("beta", 0.75)
    if not size % 2:
        raise place.wrong(f"local_size: {size} is even; Caffe takes odd ones only")
    if fields.word("norm_region", "ACROSS_CHANNELS") in {"ACROSS_CHANNELS", "0"}:
        return place.add("LRN", [place.source], place.shape, alpha=alpha, beta=beta, bias=bias, size=size)
    square = place.add("Mul", [place.source, place.source], place.shape, "square")
    mean = place.add("AveragePool", [square], place.shape, "mean", kernel_shape=[size, size], pads=[size // 2] * 4,
                     count_include_pad=1)  # fmt: skip
    scaled = place.with_number("Mul", mean, alpha, "scaled")
    shifted = place.with_number("Add", scaled, 1.0, "shifted")
    divisor = place.with_number("Pow", shifted, beta, "divisor")
    return place.add("Div", [place.source, divisor], place.shape)


def mvn(place: Place) -> str:
    """Mean 0 and variance 1, per channel or over the whole picture."""
    fields = place.param("mvn")
    axes = list(range(1 if fields.flag("across_channels", False) else 2, len(place.shape)))
    if not axes:
        raise place.wrong(f"there are no pixels in {list(place.shape)}")
    small = [1 if axis in axes else size for axis, size in enumerate(place.shape)]
    mean = place.add("ReduceMean", [place.source], small, "mean", axes=axes)
    if not fields.flag("normalize_variance", True):
        return place.add("Sub", [place.source, mean], place.shape)
    centred = place.add("Sub", [place.source, mean], place.shape, "centred")
    square = place.add("Mul", [centred, centred], place.shape, "square")
    variance = place.add("ReduceMean", [square], small, "variance", axes=axes)
    deviation = place.add("Sqrt", [variance], small, "deviation")
    divisor = place.with_number("Add", deviation, fields.number("eps", 1e-9), "divisor")
    return place.add("Div", [centred, divisor], place.shape)


def normalize(place: Place) -> str:
    """SSD's: divided by the length of each pixel's vector, or of the whole picture, times a factor per channel."""
    fields = place.layer.inner("norm_param")
    channels = place.shape[1]
    axes = list(range(1, len(place.shape))) if fields.flag("across_spatial", True) else [1]
    small = [1 if axis in axes else size for axis, size in enumerate(place.shape)]
    square = place.add("Mul", [place.source, place.source], place.shape, "square")
    total = place.add("ReduceSum", [square, place.constant("axes", axes, "int64")], small, "total", keepdims=1)
    safe = place.with_number("Add", total, fields.number("eps", 1e-10), "safe")
    divisor = place.add("Sqrt", [safe], small, "divisor")
    unit = place.add("Div", [place.source, divisor], place.shape, "unit")
    count = 1 if fields.flag("channel_shared", True) else channels
    factors = place.array(0, (count,), "factors").reshape(count, *[1] * (len(place.shape) - 2))
    return place.add("Mul", [unit, place.constant("factors", factors)], place.shape)


def prior_box(place: Place) -> str:
    """SSD's boxes: they depend on sizes only, and are a constant [1, 2, 4 n] of corners and variances."""
    fields = place.param("prior_box")
    if len(place.sources) != 2:
        raise place.wrong("it needs a map and the picture")
    _, _, height, width = place.map_shape()
    picture = place.build.shapes[place.sources[1]]
    if len(picture) != 4:
        raise place.wrong(f"the picture has the shape {list(picture)}")
    frame_h = fields.whole("img_h", fields.whole("img_size", picture[2], 1), 1)
    frame_w = fields.whole("img_w", fields.whole("img_size", picture[3], 1), 1)
    step = fields.number("step", 0.0)
    step_h = fields.number("step_h", step) or frame_h / height
    step_w = fields.number("step_w", step) or frame_w / width
    sizes = np.array(_sizes(place), np.float64)
    if len(sizes) * height * width > _MOST_PRIORS:
        raise place.wrong(f"{len(sizes)} boxes for each of {height}x{width} cells are too many")
    offset = fields.number("offset", 0.5)
    y, x = np.meshgrid((np.arange(height) + offset) * step_h, (np.arange(width) + offset) * step_w, indexing="ij")
    centres = np.stack([x, y], -1)[:, :, None]
    corners = np.concatenate([centres - sizes / 2, centres + sizes / 2], -1) / [frame_w, frame_h, frame_w, frame_h]
    if fields.flag("clip", False):
        corners = np.clip(corners, 0, 1)
    spread = fields.numbers("variance") or [0.1]
    if len(spread) not in {1, 4}:
        raise place.wrong(f"{len(spread)} variances; there are 1 or 4")
    variances = np.tile(np.resize(spread, 4), corners.size // 4)
    made = place.constant("priors", np.stack([corners.reshape(-1), variances])[None])
    return place.add("Identity", [made], [1, 2, corners.size])


def _sizes(place: Place) -> list[tuple[float, float]]:
    """Width and height of each box of a cell."""
    fields = place.param("prior_box")
    least, most = fields.numbers("min_size"), fields.numbers("max_size")
    if not least or (most and len(most) != len(least)) or min(least) <= 0:
        raise place.wrong("min_size is missing, or there are not as many max_size")
    ratios: list[float] = []
    for ratio in fields.numbers("aspect_ratio"):
        if ratio <= 0:
            raise place.wrong(f"aspect_ratio: {ratio} cannot be")
        for one in (ratio, 1 / ratio) if fields.flag("flip", True) else (ratio,):
            if all(abs(one - other) > 1e-6 for other in (1.0, *ratios)):
                ratios.append(one)
    made = []
    for at, size in enumerate(least):
        made.append((size, size))
        if most:
            made.append((math.sqrt(size * most[at]),) * 2)
        made += [(size * math.sqrt(ratio), size / math.sqrt(ratio)) for ratio in ratios]
    return made
