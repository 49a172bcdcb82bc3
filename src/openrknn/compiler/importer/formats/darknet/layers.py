"""What each kind of layer computes, in Darknet's rules for sizes, padding and the order of weights."""

from __future__ import annotations

import math

import numpy as np

from openrknn.compiler.importer.formats.assembly import Array, Shape
from openrknn.compiler.importer.formats.darknet.cfg import Section
from openrknn.compiler.importer.formats.darknet.place import Place

_EPSILON = 1e-6
"""Of batch normalisation."""
_NOT_READ = ("binary", "xnor", "flipped", "antialiasing", "assisted_excitation", "share_index", "deform", "sway",
             "rotate", "stretch", "stretch_sway")  # fmt: skip


def _normalised(weights: Array, bias: Array, place: Place, count: int) -> tuple[Array, Array]:
    """Batch normalisation inside the weights: (x - mean) / sqrt(var + e) * scale + bias."""
    scales, mean, variance = (place.take(count) for _ in range(3))
    return _folded(weights, bias, scales, mean, variance)


def _folded(weights: Array, bias: Array, scales: Array, mean: Array, variance: Array) -> tuple[Array, Array]:
    factor = scales.astype(np.float64) / np.sqrt(np.maximum(variance.astype(np.float64), 0) + _EPSILON)
    spread = weights * factor.reshape(-1, *[1] * (weights.ndim - 1))
    return spread.astype(np.float32), (bias - mean * factor).astype(np.float32)


def convolutional(place: Place) -> str:
    """Numbers: biases, with batch_normalize scales, means and variances, then weights."""
    section = place.section
    section.refuse(_NOT_READ)
    channels, height, width = place.map_shape()
    filters, size = section.whole("filters", 1, 1), section.whole("size", 1, 1)
    groups, dilation = section.whole("groups", 1, 1), section.whole("dilation", 1, 1)
    pad = size // 2 if section.whole("pad", 0) else section.whole("padding", 0, 0)
    if channels % groups or filters % groups:
        raise section.wrong(f"{channels} channels and {filters} filters cannot be shared by {groups} groups")
    bias = place.take(filters)
    if section.whole("batch_normalize", 0):
        statistics = [place.take(filters) for _ in range(3)]
        weights = place.take(filters, channels // groups, size, size)
        weights, bias = _folded(weights, bias, *statistics)
    else:
        weights = place.take(filters, channels // groups, size, size)
    strides, around, reach = section.strides(), pad * dilation, dilation * (size - 1) + 1
    sizes = [(length + 2 * around - reach) // step + 1 for length, step in zip((height, width), strides, strict=True)]
    made = place.add(
        "Conv",
        [
            place.as_map(),
            place.build.constant(f"{place.name}.weights", weights),
            place.build.constant(f"{place.name}.bias", bias),
        ],
        place.suffix("logistic"),
        [1, filters, *sizes],
        kernel_shape=[size, size], strides=list(strides), pads=[around] * 4, dilations=[dilation] * 2, group=groups,
    )  # fmt: skip
    return place.activated(made, "logistic")


def connected(place: Place) -> str:
    """Numbers: biases, weights, and with batch_normalize scales, means and variances behind them."""
    section = place.section
    outputs, inputs = section.whole("output", 1, 1), math.prod(place.shape[1:])
    bias = place.take(outputs)
    weights = place.take(inputs, outputs).T if place.weights.is_turned else place.take(outputs, inputs)
    if section.whole("batch_normalize", 0):
        weights, bias = _normalised(weights, bias, place, outputs)
    flat = place.source if len(place.shape) == 2 else place.add("Flatten", [place.source], ".flat", [1, inputs])
    constants = [
        place.build.constant(f"{place.name}.weights", weights), place.build.constant(f"{place.name}.bias", bias),
    ]  # fmt: skip
    made = place.add("Gemm", [flat, *constants], place.suffix("logistic"), [1, outputs], transB=1)
    return place.activated(made, "logistic")


def route(place: Place) -> str:
    """Values of other layers side by side; of each, `groups` and `group_id` choose a part of the channels."""
    section = place.section
    numbers = section.wholes("layers")
    if not numbers:
        raise section.wrong("layers= is missing")
    groups = section.whole("groups", 1, 1)
    chosen = section.whole("group_id", 0, 0)
    if chosen >= groups:
        raise section.wrong(f"group_id={chosen} is not one of {groups} groups")
    parts = []
    for at, number in enumerate(numbers):
        value = place.before(number)
        shape = place.build.shapes[value]
        if shape[1] % groups:
            raise section.wrong(f"{shape[1]} channels cannot be divided into {groups} groups")
        if groups > 1:
            each = shape[1] // groups
            name = place.name if len(numbers) == 1 else f"{place.name}.part{at}"
            value = place.build.cut(value, name, 1, chosen * each, (chosen + 1) * each)
        parts.append(value)
    shapes = [place.build.shapes[value] for value in parts]
    if len({(shape[0], *shape[2:]) for shape in shapes}) > 1:
        raise section.wrong(f"its layers have maps of different sizes: {', '.join(str(list(s)) for s in shapes)}")
    if len(parts) == 1:
        return parts[0]
    return place.add("Concat", parts, "", [1, sum(shape[1] for shape in shapes), *shapes[0][2:]], axis=1)


def shortcut(place: Place) -> str:
    """The value before it plus those of other layers, as many channels as both have."""
    section = place.section
    section.refuse(("weights_type", "weights_normalization"))
    total, shape = place.source, place.shape
    numbers = section.wholes("from")
    if not numbers:
        raise section.wrong("from= is missing")
    for at, number in enumerate(numbers):
        is_last = at == len(numbers) - 1
        other = _fitted(place, place.before(number), shape, f"{place.name}.part{at}")
        total = place.add("Add", [total, other], place.suffix() if is_last else f".sum{at}", shape)
    return place.activated(total)


def _fitted(place: Place, value: str, shape: Shape, name: str) -> str:
    """Darknet adds what it has: it leaves out channels, adds none, and of a larger map takes every n-th pixel."""
    have = place.build.shapes[value]
    if len(have) != len(shape):
        raise place.section.wrong(f"{list(have)} cannot be added to {list(shape)}")
    for axis in range(2, len(shape)):
        if have[axis] % shape[axis]:
            raise place.section.wrong(f"{list(have)} cannot be added to {list(shape)}")
        if have[axis] != shape[axis]:
            value = place.build.cut(value, f"{name}.{axis}", axis, 0, have[axis], have[axis] // shape[axis])
    if have[1] > shape[1]:
        return place.build.cut(value, name, 1, 0, shape[1])
    if have[1] < shape[1]:
        pads = [0] * len(shape) * 2
        pads[len(shape) + 1] = shape[1] - have[1]
        return place.build.add("Pad", [value, place.build.constant(f"{name}.pads", pads, np.int64)], name, shape)
    return value


def upsample(place: Place) -> str:
    """Each pixel `stride` times in both directions."""
    section = place.section
    channels, height, width = place.map_shape()
    stride = section.whole("stride", 2, 1)
    factor = section.number("scale", 1.0)
    scales = place.build.constant(f"{place.name}.scales", [1, 1, stride, stride])
    shape = [1, channels, height * stride, width * stride]
    made = place.add(
        "Resize", [place.source, "", scales], "" if factor == 1 else ".pixels", shape,
        mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor",
    )  # fmt: skip
    if factor == 1:
        return made
    return place.add("Mul", [made, place.build.constant(f"{place.name}.scale", factor)], "", shape)


def reorg(place: Place) -> str:
    """Blocks of pixels become channels, as Darknet has done it since YOLOv2.

    It takes the numbers of [c, h, w] for those of [c / s^2, h s, w s], moves pixels of s x s blocks to channels, and
    takes the result for [c s^2, h / s, w / s]. Networks were trained with this order, so it is the right one.
    """
    section = place.section
    section.refuse(("reverse", "flatten", "extra"))
    channels, height, width = place.map_shape()
    side = section.whole("stride", 1, 1)
    if channels % side**2 or height % side or width % side:
        raise section.wrong(f"[{channels}, {height}, {width}] cannot be divided by a stride of {side}")
    few = channels // side**2
    blocks = place.build.reshape(place.source, f"{place.name}.blocks", (few, height, side, width, side))
    turned = place.add("Transpose", [blocks], ".turned", [side, side, few, height, width], perm=[2, 4, 0, 1, 3])
    return place.build.reshape(turned, place.name, (1, channels * side**2, height // side, width // side))


def reorg3d(place: Place) -> str:
    """Blocks of pixels become channels, in the plain order: SpaceToDepth."""
    section = place.section
    section.refuse(("reverse", "flatten", "extra"))
    channels, height, width = place.map_shape()
    side = section.whole("stride", 1, 1)
    if height % side or width % side:
        raise section.wrong(f"[{channels}, {height}, {width}] cannot be divided by a stride of {side}")
    shape = [1, channels * side**2, height // side, width // side]
    return place.add("SpaceToDepth", [place.source], "", shape, blocksize=side)


def product(place: Place) -> str:
    """scale_channels and sam: the value before it times that of another layer."""
    section = place.section
    if section.whole("scale_wh", 0):
        raise section.wrong("scale_wh=1 is not one of the forms that the compiler has")
    other = place.before(section.whole("from", 0))
    shape, mine = place.build.shapes[other], place.shape
    if len(shape) != len(mine) or shape[1] != mine[1] or any(
        one not in {1, many} for one, many in zip(mine, shape, strict=True)
    ):
        raise section.wrong(f"{list(mine)} cannot be multiplied with {list(shape)}")
    return place.activated(place.add("Mul", [other, place.source], place.suffix(), shape))


def softmax(place: Place) -> str:
    """Over all numbers of the picture, over groups of them, or (spatial) over the channels of each pixel."""
    section = place.section
    section.refuse(("tree",))
    shape = place.shape
    heat = section.number("temperature", 1.0)
    value = place.source
    if heat != 1:
        value = place.add("Div", [value, place.build.constant(f"{place.name}.temperature", heat)], ".cooled", shape)
    if section.whole("spatial", 0) or (len(shape) == 2 and section.whole("groups", 1, 1) == 1):
        return place.add("Softmax", [value], "", shape, axis=1)
    groups, count = section.whole("groups", 1, 1), math.prod(shape)
    if count % groups:
        raise section.wrong(f"{count} numbers cannot be divided into {groups} groups")
    flat = place.build.reshape(value, f"{place.name}.flat", (groups, count // groups))
    made = place.add("Softmax", [flat], ".soft", [groups, count // groups], axis=1)
    return place.build.reshape(made, place.name, shape)


def activation(place: Place) -> str:
    """Nothing but the activation."""
    return place.activated(place.source)


def same(place: Place) -> str:
    """Dropout and cost: nothing when a network is used."""
    return place.source


def crop(place: Place) -> str:
    """The middle of the picture, from 0..1 to -1..1 unless `noadjust` is set."""
    section = place.section
    channels, height, width = place.map_shape()
    rows, columns = section.whole("crop_height", 1, 1), section.whole("crop_width", 1, 1)
    if rows > height or columns > width:
        raise section.wrong(f"{rows}x{columns} pixels cannot be cut from {height}x{width}")
    top, left = (height - rows) // 2, (width - columns) // 2
    value = place.build.cut(place.source, f"{place.name}.rows", 2, top, top + rows)
    value = place.build.cut(value, f"{place.name}.columns", 3, left, left + columns)
    if section.whole("noadjust", 0):
        return value
    shape = [1, channels, rows, columns]
    twice = place.add("Mul", [value, place.build.constant(f"{place.name}.two", 2.0)], ".twice", shape)
    return place.add("Sub", [twice, place.build.constant(f"{place.name}.one", 1.0)], "", shape)


def check_head(section: Section, shape: Shape) -> None:
    """A yolo layer has as many channels as anchors and classes need."""
    if section.kind != "yolo":
        return
    anchors = len(section.wholes("mask")) or section.whole("num", 1, 1)
    classes = section.whole("classes", 20, 0)
    if len(shape) != 4 or shape[1] != anchors * (5 + classes):
        raise section.wrong(
            f"{anchors} anchors with {classes} classes need {anchors * (5 + classes)} channels; the layer before it "
            f"makes {list(shape)[1:]}. Change its filters="
        )
