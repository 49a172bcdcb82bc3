"""Operators over maps (batch, channels, rows, columns): convolutions, pools, resizing, rearranging."""

from __future__ import annotations

import numpy as np

from .graph import MOST_ELEMENTS, Graph, Value

CHANNELS = (1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 20, 24, 30, 31, 32, 33, 40, 47, 48, 56, 63, 64, 65, 72, 80, 95, 96)


def span(size: int, kernel: int, dilation: int) -> int:
    """Elements that a kernel covers."""
    return (kernel - 1) * dilation + 1


def window(graph: Graph, value: Value, most: int, dilated: bool) -> dict[str, list[int]]:
    """Kernel, stride, padding and dilation that fit the map. Padding stays below the kernel's span."""
    kernels: list[int] = []
    strides: list[int] = []
    dilations: list[int] = []
    starts: list[int] = []
    ends: list[int] = []
    square = graph.often(0.7)
    for axis, size in enumerate(value.shape[2:]):
        if axis and square and kernels[0] <= size:
            kernel, dilation, stride = kernels[0], dilations[0], strides[0]
        else:
            kernel = graph.one_of([1, 2, 3, 3, 3, 4, 5, 6, 7][: most + 2])
            dilation = graph.one_of([1, 1, 1, 2, 3]) if dilated and kernel > 1 else 1
            stride = graph.one_of([1, 1, 1, 2, 2, 3, 4])
        if kernel == 1:
            dilation = 1
        covered = span(size, kernel, dilation)
        if graph.often(0.6):
            start = end = (covered - 1) // 2
        else:
            start, end = graph.integer(0, covered - 1), graph.integer(0, covered - 1)
        if covered > size + start + end:
            kernel, dilation, start, end = 1, 1, 0, 0
        kernels.append(kernel)
        strides.append(stride)
        dilations.append(dilation)
        starts.append(start)
        ends.append(end)
    return {"kernel_shape": kernels, "strides": strides, "dilations": dilations, "pads": starts + ends}


def after(value: Value, shape: dict[str, list[int]], ceil: bool = False) -> list[int]:
    """Rows and columns of the result of a window."""
    sizes = []
    for axis, size in enumerate(value.shape[2:]):
        start, end = shape["pads"][axis], shape["pads"][axis + 2]
        covered = span(size, shape["kernel_shape"][axis], shape.get("dilations", [1, 1])[axis])
        free, stride = size + start + end - covered, shape["strides"][axis]
        sizes.append((-(-free // stride) if ceil else free // stride) + 1)
    return sizes


def inside(value: Value, shape: dict[str, list[int]]) -> bool:
    """Whether the last window of a rounded-up pool begins before the padding: versions of ONNX differ on the others."""
    counts = after(value, shape, ceil=True)
    starts, strides = shape["pads"], shape["strides"]
    return all((counts[axis] - 1) * strides[axis] < size + starts[axis] for axis, size in enumerate(value.shape[2:]))


def convolution(graph: Graph, value: Value) -> Value:
    """Dense, grouped or depthwise (with a multiplier now and then), with or without a bias."""
    shape, inside = window(graph, value, 7, True), value.channels
    groups = [group for group in range(2, inside) if inside % group == 0]
    style = graph.chance.random()
    if style < 0.25 and inside > 1:
        group, outside = inside, inside * graph.one_of([1, 1, 1, 1, 2])
    elif style < 0.4 and groups:
        group = graph.one_of(groups)
        outside = group * graph.integer(1, max(1, 96 // group))
    else:
        group, outside = 1, graph.one_of(CHANNELS)
    fan = inside // group * int(np.prod(shape["kernel_shape"]))
    inputs: list[Value | str] = [value, graph.normal(outside, inside // group, *shape["kernel_shape"], scale=fan**-0.5)]
    if graph.often(0.8):
        inputs.append(graph.normal(outside, scale=0.3))
    return graph.add("Conv", inputs, [1, outside, *after(value, shape)], group=group, **shape)


def deconvolution(graph: Graph, value: Value) -> Value:
    """Transposed convolution: dense or depthwise, kernel at least the stride."""
    stride = graph.one_of([1, 2, 2, 2, 3, 4])
    kernel = graph.integer(stride, min(7, stride + 3))
    start, end = graph.integer(0, (kernel - 1) // 2), graph.integer(0, (kernel - 1) // 2)
    extra = graph.integer(0, stride - 1) if graph.often(0.2) else 0
    sizes = [(size - 1) * stride + kernel - start - end + extra for size in value.shape[2:]]
    depthwise = value.channels > 1 and graph.often(0.3)
    outside = value.channels if depthwise else graph.one_of(CHANNELS)
    if outside * sizes[0] * sizes[1] > MOST_ELEMENTS or min(sizes) < 1:
        return convolution(graph, value)
    fan = (1 if depthwise else value.channels) * (kernel / stride) ** 2
    weights = graph.normal(value.channels, 1 if depthwise else outside, kernel, kernel, scale=fan**-0.5)
    inputs: list[Value | str] = [value, weights]
    if graph.often(0.8):
        inputs.append(graph.normal(outside, scale=0.3))
    return graph.add(
        "ConvTranspose",
        inputs,
        [1, outside, *sizes],
        group=value.channels if depthwise else 1,
        kernel_shape=[kernel, kernel],
        strides=[stride, stride],
        pads=[start, start, end, end],
        output_padding=[extra, extra],
    )


def pool(graph: Graph, value: Value) -> Value:
    """MaxPool or AveragePool; padding stays below the kernel, as ONNX asks for."""
    shape = window(graph, value, 7, False)
    shape.pop("dilations")
    shape["pads"] = [min(pad, shape["kernel_shape"][axis % 2] - 1) for axis, pad in enumerate(shape["pads"])]
    for axis, size in enumerate(value.shape[2:]):
        if shape["kernel_shape"][axis] > size + shape["pads"][axis] + shape["pads"][axis + 2]:
            shape["kernel_shape"][axis], shape["pads"][axis], shape["pads"][axis + 2] = 1, 0, 0
    ceil = graph.often(0.25) and inside(value, shape)
    sizes = [1, value.channels, *after(value, shape, ceil)]
    if graph.often(0.5):
        return graph.add("MaxPool", [value], sizes, ceil_mode=int(ceil), **shape)
    include = graph.integer(0, 1)
    return graph.add("AveragePool", [value], sizes, ceil_mode=int(ceil), count_include_pad=include, **shape)


def whole(graph: Graph, value: Value) -> Value:
    """Global pools and means over the map."""
    kind = graph.one_of(["GlobalAveragePool", "GlobalMaxPool", "ReduceMean"])
    sizes = [1, value.channels, 1, 1]
    if kind != "ReduceMean":
        return graph.add(kind, [value], sizes)
    return graph.add(kind, [value], sizes, axes=[2, 3], keepdims=1)


def mean(graph: Graph, value: Value) -> Value:
    """ReduceMean, ReduceSum or ReduceMax over one axis, kept."""
    axis = graph.integer(1, len(value.shape) - 1)
    sizes = [1 if number == axis else size for number, size in enumerate(value.shape)]
    kind = graph.one_of(["ReduceMean", "ReduceMean", "ReduceMax", "ReduceSum"])
    if kind == "ReduceSum":
        scaled = graph.add("Mul", [value, graph.constant(np.float32(1 / value.shape[axis]))], value.shape)
        return graph.add(kind, [scaled, graph.numbers(axis)], sizes, keepdims=1)
    return graph.add(kind, [value], sizes, axes=[axis], keepdims=1)


def resize(graph: Graph, value: Value) -> Value:
    """Nearest or linear, whole factors mostly."""
    factors = [graph.one_of([2, 2, 2, 3, 4, 1, 1.5]) for _ in range(2)]
    if graph.often(0.7):
        factors[1] = factors[0]
    sizes = [1, value.channels, *(int(size * factor) for size, factor in zip(value.shape[2:], factors, strict=True))]
    if int(np.prod(sizes)) > MOST_ELEMENTS:
        return pool(graph, value)
    scales = graph.constant(np.array([1, 1, *factors], np.float32))
    if graph.often(0.5):
        mode = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    else:
        coordinates = graph.one_of(["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"])
        mode = {"mode": "linear", "coordinate_transformation_mode": coordinates}
    return graph.add("Resize", [value, "", scales], sizes, **mode)


def depth(graph: Graph, value: Value) -> Value:
    """DepthToSpace or SpaceToDepth where the sizes allow it, else a pool."""
    channels, rows, columns = value.shape[1:]
    options = [("DepthToSpace", block) for block in (2, 3, 4) if channels % (block * block) == 0]
    options += [
        ("SpaceToDepth", block)
        for block in (2, 3, 4)
        if rows % block == 0 and columns % block == 0 and channels * block * block <= 256
    ]
    if not options:
        return pool(graph, value)
    kind, block = graph.one_of(options)
    if kind == "SpaceToDepth":
        return graph.add(kind, [value], [1, channels * block**2, rows // block, columns // block], blocksize=block)
    sizes = [1, channels // block**2, rows * block, columns * block]
    return graph.add(kind, [value], sizes, blocksize=block, mode=graph.one_of(["DCR", "CRD"]))


def normalise(graph: Graph, value: Value) -> Value:
    """BatchNormalization or InstanceNormalization."""
    channels = value.channels
    scale, bias = graph.normal(channels, scale=0.2, mean=1.0), graph.normal(channels, scale=0.2)
    if graph.often(0.3):
        return graph.add("InstanceNormalization", [value, scale, bias], value.shape, epsilon=1e-5)
    variance = graph.constant(graph.chance.uniform(0.5, 1.5, channels).astype(np.float32))
    center = graph.normal(channels, scale=0.2)
    return graph.add("BatchNormalization", [value, scale, bias, center, variance], value.shape)
