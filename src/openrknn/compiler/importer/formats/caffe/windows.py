"""Convolutions and pooling, with Caffe's rules for sizes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from openrknn.compiler.importer.formats.caffe.message import Message
from openrknn.compiler.importer.formats.caffe.place import Place


def _pair(place: Place, fields: Message, name: str, short: str, default: int | None, least: int) -> tuple[int, int]:
    """kernel_size: 3, kernel_size: 3 kernel_size: 5, or kernel_h: 3 kernel_w: 5."""
    if f"{short}_h" in fields or f"{short}_w" in fields:
        return fields.whole(f"{short}_h", default or 0, least), fields.whole(f"{short}_w", default or 0, least)
    found = fields.wholes(name)
    if not found:
        if default is None:
            raise place.wrong(f"{name} is missing")
        return default, default
    if len(found) > 2 or min(found) < least:
        raise place.wrong(f"{name}: {', '.join(map(str, found))} cannot be")
    return found[0], found[-1]


def _parts(place: Place, group: int | None) -> tuple[int, int, list[str], dict[str, Any], list[tuple[int, ...]]]:
    """What both directions of a convolution have in common."""
    fields = place.param("convolution")
    _, channels, _, _ = place.map_shape()
    if fields.whole("axis", 1) not in {1, -3}:
        raise place.wrong("a convolution over another axis than 1 is not one of the forms that the compiler has")
    outputs = fields.whole("num_output", 0, 1)
    if outputs < 1:
        raise place.wrong("num_output is missing")
    groups = fields.whole("group", 1, 1) if group is None else group
    if channels % groups or outputs % groups:
        raise place.wrong(f"{channels} channels and {outputs} outputs cannot be shared by {groups} groups")
    kernel = _pair(place, fields, "kernel_size", "kernel", None, 1)
    stride, pad = _pair(place, fields, "stride", "stride", 1, 1), _pair(place, fields, "pad", "pad", 0, 0)
    dilation = _pair(place, fields, "dilation", "dilation", 1, 1)
    is_deconvolution = place.kind == "Deconvolution"
    first, second = (channels, outputs // groups) if is_deconvolution else (outputs, channels // groups)
    constants = [place.constant("weights", place.array(0, (first, second, *kernel), "weights"))]
    if fields.flag("bias_term", True):
        constants.append(place.constant("bias", place.array(1, (outputs,), "biases")))
    attributes: dict[str, Any] = {
        "kernel_shape": list(kernel), "strides": list(stride), "pads": [*pad, *pad], "dilations": list(dilation),
        "group": groups,
    }  # fmt: skip
    return outputs, groups, constants, attributes, [kernel, stride, pad, dilation]


def convolution(place: Place) -> str:
    """Sizes are rounded down."""
    return _convolution(place, None)


def depthwise(place: Place) -> str:
    """A fork's layer: one filter per channel, whatever `group` says."""
    return _convolution(place, place.map_shape()[1])


def _convolution(place: Place, group: int | None) -> str:
    outputs, _, constants, attributes, windows = _parts(place, group)
    sizes = [
        (length + 2 * pad - (dilation * (kernel - 1) + 1)) // stride + 1
        for length, kernel, stride, pad, dilation in zip(place.shape[2:], *windows, strict=True)
    ]
    return place.add("Conv", [place.source, *constants], [place.shape[0], outputs, *sizes], **attributes)


def deconvolution(place: Place) -> str:
    """A convolution backwards."""
    outputs, _, constants, attributes, windows = _parts(place, None)
    sizes = [
        (length - 1) * stride + dilation * (kernel - 1) + 1 - 2 * pad
        for length, kernel, stride, pad, dilation in zip(place.shape[2:], *windows, strict=True)
    ]
    return place.add("ConvTranspose", [place.source, *constants], [place.shape[0], outputs, *sizes], **attributes)


def inner_product(place: Place) -> str:
    """All dimensions from `axis` on are one vector."""
    fields = place.param("inner_product")
    axis, outputs = place.axis(fields.whole("axis", 1)), fields.whole("num_output", 0, 1)
    if outputs < 1:
        raise place.wrong("num_output is missing")
    rows, inputs = math.prod(place.shape[:axis]), math.prod(place.shape[axis:])
    is_turned = fields.flag("transpose", False)
    weights = place.array(0, (inputs, outputs) if is_turned else (outputs, inputs), "weights")
    constants = [place.constant("weights", weights)]
    if fields.flag("bias_term", True):
        constants.append(place.constant("bias", place.array(1, (outputs,), "biases")))
    value = place.source
    if axis == 1 and len(place.shape) > 2:
        value = place.add("Flatten", [value], [rows, inputs], "flat", axis=1)
    elif len(place.shape) != 2 or axis != 1:
        value = place.reshape(value, [rows, inputs], "flat")
    turn = 0 if is_turned else 1
    if axis == 1:
        return place.add("Gemm", [value, *constants], [rows, outputs], transB=turn)
    made = place.add("Gemm", [value, *constants], [rows, outputs], "rows", transB=turn)
    return place.reshape(made, [*place.shape[:axis], outputs])


def pooling(place: Place) -> str:
    """Sizes are rounded up, and the last window begins inside the picture or its padding.

    A mean counts the padding that was asked for, and nothing of what a last window reaches beyond it.
    """
    fields = place.param("pooling")
    batch, channels, height, width = place.map_shape()
    method = {"0": "MAX", "1": "AVE"}.get(fields.word("pool", "MAX"), fields.word("pool", "MAX"))
    if method not in {"MAX", "AVE"}:
        raise place.wrong(f"pool: {method} is not one of the forms that the compiler has; there are MAX and AVE")
    if len(place.tops) > 1:
        raise place.wrong("its mask (a second top) is not one of the forms that the compiler has")
    if fields.flag("global_pooling", False):
        kind = "GlobalMaxPool" if method == "MAX" else "GlobalAveragePool"
        return place.add(kind, [place.source], [batch, channels, 1, 1])
    kernel = _pair(place, fields, "kernel_size", "kernel", None, 1)
    stride, pad = _pair(place, fields, "stride", "stride", 1, 1), _pair(place, fields, "pad", "pad", 0, 0)
    is_up = fields.word("round_mode", "CEIL") in {"CEIL", "0"} and fields.flag("ceil_mode", True)
    sizes, behind, beyond = [], [], []
    for length, reach, step, before in zip((height, width), kernel, stride, pad, strict=True):
        if before >= reach:
            raise place.wrong(f"pad: {before} is not less than the window of {reach}")
        room = length + 2 * before - reach
        count = (-(-room // step) if is_up else room // step) + 1
        if before and (count - 1) * step >= length + before:
            count -= 1
        last = (count - 1) * step + reach - length - before
        if count > 0 and last >= reach:
            raise place.wrong("its last window would lie outside of the picture; check kernel_size and stride")
        sizes.append(count)
        behind.append(max(0, last))
        beyond.append(max(0, last - before))
    shape = [batch, channels, *sizes]
    window: dict[str, Any] = {"kernel_shape": list(kernel), "strides": list(stride), "pads": [*pad, *behind]}
    if method == "MAX":
        return place.add("MaxPool", [place.source], shape, **window)
    if not any(beyond) or not any(pad):
        is_counted = 0 if any(beyond) else 1
        return place.add("AveragePool", [place.source], shape, count_include_pad=is_counted, **window)
    # Some windows reach beyond the padding: what is divided by too much is multiplied again.
    counted = [
        np.minimum(np.arange(count) * step + reach, length + 2 * before) - np.arange(count) * step
        for count, reach, step, before, length in zip(sizes, kernel, stride, pad, (height, width), strict=True)
    ]
    again = math.prod(kernel) / np.outer(counted[0], counted[1])
    mean = place.add("AveragePool", [place.source], shape, "mean", count_include_pad=1, **window)
    return place.add("Mul", [mean, place.constant("again", again[None, None])], shape)


def roi_pooling(place: Place) -> str:
    """Fast R-CNN's: the largest number of each cell of a box."""
    fields = place.param("roi_pooling")
    if len(place.sources) != 2:
        raise place.wrong("it needs a map and boxes")
    sizes = [fields.whole("pooled_h", 0, 1), fields.whole("pooled_w", 0, 1)]
    boxes = place.build.shapes[place.sources[1]]
    rows = place.sources[1] if len(boxes) == 2 else place.reshape(place.sources[1], [boxes[0], 5], "boxes")
    return place.add("MaxRoiPool", [place.source, rows], [boxes[0], place.shape[1], *sizes], pooled_shape=sizes,
                     spatial_scale=fields.number("spatial_scale", 1.0))  # fmt: skip
