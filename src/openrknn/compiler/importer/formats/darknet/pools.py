"""Pooling layers of Darknet."""

from __future__ import annotations

from typing import Any

from openrknn.compiler.importer.formats.darknet.place import Place


def _window(place: Place) -> tuple[list[int], dict[str, Any]]:
    """The shape of the result, and the window as ONNX has it."""
    section = place.section
    channels, height, width = place.map_shape()
    strides = section.strides()
    size = section.whole("size", strides[0], 1)
    padding = section.whole("padding", size - 1, 0)
    before, behind = padding // 2, padding - padding // 2
    if behind >= size > 1 or (size == 1 and padding):
        raise section.wrong(f"padding={padding} is larger than the window of size={size}")
    sizes = [(length + padding - size) // step + 1 for length, step in zip((height, width), strides, strict=True)]
    pads = [before, before, behind, behind]
    return [1, channels, *sizes], {"kernel_shape": [size, size], "strides": list(strides), "pads": pads}


def maxpool(place: Place) -> str:
    """`padding` pixels in all, the smaller half before: size - 1 unless it is said, so that stride 1 keeps the size."""
    section = place.section
    section.refuse(("antialiasing",))
    if section.whole("maxpool_depth", 0):
        return _depth_pool(place)
    shape, window = _window(place)
    return place.add("MaxPool", [place.as_map()], "", shape, **window)


def _depth_pool(place: Place) -> str:
    """The largest of the channels k, k + n, k + 2 n ... for each of n outputs."""
    channels, height, width = place.map_shape()
    outputs = place.section.whole("out_channels", 1, 1)
    if channels % outputs:
        raise place.section.wrong(f"{channels} channels cannot be divided into {outputs} groups")
    parts = place.build.reshape(place.source, f"{place.name}.parts", (1, channels // outputs, outputs, height * width))
    most = place.add("ReduceMax", [parts], ".most", [1, outputs, height * width], axes=[1], keepdims=0)
    return place.build.reshape(most, place.name, (1, outputs, height, width))


def avgpool(place: Place) -> str:
    """The mean of each map."""
    channels, _, _ = place.map_shape()
    return place.add("GlobalAveragePool", [place.as_map()], "", [1, channels, 1, 1])


def local_avgpool(place: Place) -> str:
    """Means of windows; pixels outside are not counted."""
    shape, window = _window(place)
    return place.add("AveragePool", [place.as_map()], "", shape, count_include_pad=0, **window)
