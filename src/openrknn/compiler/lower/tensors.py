"""A tensor for every value: pictures and feature maps for the NPU, plain arrays at the ends of other shapes."""

from __future__ import annotations

from math import prod

from openrknn.compiler.formats import align, dtype_of
from openrknn.compiler.forms import Conv
from openrknn.compiler.ir import Op, Value
from openrknn.compiler.legalise import takes_plain
from openrknn.compiler.lower.context import Lowering
from openrknn.compiler.lower.cpu import INTEGER
from openrknn.compiler.program import Tensor
from openrknn.container.parts import Kind


def make_tensors(low: Lowering, pictures: set[str]) -> None:
    """`pictures` names the inputs that are rows of pixels."""
    graph = low.graph
    makers, readers = graph.producers(), graph.readers()
    for name, value in graph.values.items():
        kind = Kind.INPUT if name in graph.inputs else Kind.OUTPUT if name in graph.outputs else Kind.INTERNAL
        low.program.tensors[name] = _tensor(low, value, kind, name in pictures, makers.get(name), readers[name])


def _tensor(
    low: Lowering, value: Value, kind: Kind, is_picture: bool, maker: Op | None, readers: list[Op]
) -> Tensor:
    form = low.format_of(value.name)
    channels, height, width = value.cube
    tensor = Tensor(
        value.name, kind, dtype_of(form), value.shape, "feature", cube=value.cube, quantization=value.quantization,
        element_bytes=form.element_bytes, atom_bytes=form.atom_bytes,
    )  # fmt: skip
    if value.integer:
        tensor.dtype = INTEGER[value.integer]
        tensor.element_bytes = tensor.dtype.bits // 8
    by_cpu = maker is None or takes_plain(maker)
    only_cpu = by_cpu and all(takes_plain(op) for op in readers)
    if is_picture:
        tensor.layout = "picture"
        tensor.native_shape = (1, 1, height, width, channels)
        rows = align(width, form.atom)
        tensor.size_bytes = align(height * rows * channels * form.element_bytes, 64)
        return tensor
    if only_cpu or (kind in {Kind.INPUT, Kind.OUTPUT} and len(value.shape) != 4):
        tensor.layout = "plain"
        tensor.native_shape = value.shape
        tensor.pitch = 1
        tensor.size_bytes = align(align(prod(value.shape), form.depthwise_group) * tensor.element_bytes, 64)
        return tensor
    pixels = height * width
    tensor.pitch = pixels if kind is Kind.INPUT else align(pixels, 4) if pixels > 1 else 1
    surfaces = form.surfaces(channels)
    tensor.native_shape = (1, surfaces, height, width, form.atom)
    tensor.shape = (1, channels, height, width)
    group = 1
    if maker is not None and maker.type in {"Conv", "ConvTranspose"}:
        group = 4 if maker.get(Conv).group > 1 else 2
    elif kind is not Kind.INPUT:
        group = 2
    tensor.size_bytes = align(align(surfaces, group) * tensor.pitch * form.atom_bytes, 64)
    return tensor

