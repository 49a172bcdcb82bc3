"""A tensor for every value: pictures and feature maps for the NPU, plain arrays at the ends of other shapes."""

from __future__ import annotations

from math import prod

from openrknn.compiler.formats import Format, align, dtype_of
from openrknn.compiler.ir import Graph, Op, Value
from openrknn.compiler.lower.context import Lowering
from openrknn.compiler.lower.cpu import WHOLE
from openrknn.compiler.program import Tensor
from openrknn.compiler.tile import LONGEST
from openrknn.container.parts import Kind

__all__ = ["fit_converts", "fit_cpu", "fit_ends", "make_tensors", "may_be_picture", "picture_inputs"]

_PICTURE_CHANNELS = (1, 3, 4)


def fit_ends(graph: Graph) -> None:
    """Inputs and outputs of two, three or more dimensions that are not one run of channels get a Reshape in between."""
    for name in list(graph.inputs):
        value = graph.values[name]
        readers = [op for op in graph.ops if name in op.inputs]
        if _is_natural(value) or all(_takes_plain(op) for op in readers):
            continue
        inner = graph.add_value(f"{name}_cube", (1, *value.cube))
        graph.values[inner].quantization = value.quantization
        for op in readers:
            if not _takes_plain(op):  # the CPU's operators see the model's own shape
                op.inputs = [inner if entry == name else entry for entry in op.inputs]
        graph.ops.insert(0, Op("Reshape", inner, [name], [inner]))
    for name in list(graph.outputs):
        value = graph.values[name]
        maker = graph.producer(name)
        if maker is None or _is_natural(value):
            continue
        if _takes_plain(maker):
            _as_map(graph, name, maker)
            continue
        inner = graph.add_value(f"{name}_cube", (1, *value.cube))
        graph.values[inner].quantization = value.quantization
        seen = _like(graph, name) if any(op.type == "Cpu" and name in op.inputs for op in graph.ops) else ""
        for op in graph.ops:
            source = seen if op.type == "Cpu" else inner
            op.inputs = [source if entry == name else entry for entry in op.inputs]
            op.outputs = [inner if entry == name else entry for entry in op.outputs]
        if seen:
            graph.ops.insert(graph.ops.index(maker) + 1, Op("Reshape", seen, [inner], [seen]))
        graph.ops.append(Op("Reshape", name, [inner], [name]))


def _as_map(graph: Graph, name: str, maker: Op) -> None:
    """An output that the CPU makes is a plain array: the NPU's operators read it as a map."""
    readers = [op for op in graph.ops if name in op.inputs and not _takes_plain(op)]
    if not readers:
        return
    inner = graph.add_value(f"{name}_cube", (1, *graph.values[name].cube))
    graph.values[inner].quantization = graph.values[name].quantization
    for op in readers:
        op.inputs = [inner if entry == name else entry for entry in op.inputs]
    graph.ops.insert(graph.ops.index(maker) + 1, Op("Reshape", inner, [name], [inner]))


def fit_converts(graph: Graph) -> None:
    """A change of format does not care what the first dimension is, a map of the NPU does: it becomes channels."""
    for op in [entry for entry in graph.ops if entry.type == "Convert"]:
        shape = graph.shape(op.output)
        if len(shape) < 2 or shape[0] == 1:
            continue
        cube, ends = (1, shape[0], prod(shape[1:-1]), shape[-1]), (op.inputs[0], op.output)
        inner = [graph.add_value(f"{op.output}_{name}", cube) for name in ("item", "made")]
        for made, like in zip(inner, ends, strict=True):
            graph.values[made].quantization = graph.values[like].quantization
        op.inputs, op.outputs = [inner[0]], [inner[1]]
        at = graph.ops.index(op)
        graph.ops.insert(at, Op("Reshape", inner[0], [ends[0]], [inner[0]], {}, op.fused))
        graph.ops.insert(at + 2, Op("Reshape", ends[1], [inner[1]], [ends[1]], {}, op.fused))


def fit_cpu(graph: Graph) -> None:
    """The NPU keeps all shapes as four dimensions; the CPU's operators see the model's, so a Reshape stands between."""
    for op in [entry for entry in graph.ops if entry.type == "Cpu"]:
        for name in dict.fromkeys(graph.activations(op)):
            if not _is_four(graph, op, name) and not _is_plain(graph, name):
                plain = _like(graph, name)
                op.inputs = [plain if entry == name else entry for entry in op.inputs]
                graph.ops.insert(graph.ops.index(op), Op("Reshape", plain, [name], [plain]))
        for at, name in enumerate(op.outputs):
            if (not _is_four(graph, op, name) or _is_cut_off(graph, op)) and not _is_plain(graph, name):
                plain = _like(graph, name)
                op.outputs[at] = plain
                graph.ops.insert(graph.ops.index(op) + 1, Op("Reshape", name, [plain], [name]))


_LIKE_FOUR = {"Softmax": (2,), "Exp": (1, 2), "Sin": (1, 2), "Sqrt": (1, 2)}
"""Operators to which [1, C] (or [C]) and [1, C, 1, 1] are the same -> numbers of dimensions."""


def _is_four(graph: Graph, op: Op, name: str) -> bool:
    """Whether the operator may see the value as the NPU has it."""
    rank = len(graph.shape(name))
    return rank == 4 or rank in _LIKE_FOUR.get(op.attributes["operator"], ())


def _is_cut_off(graph: Graph, op: Op) -> bool:
    """Runtime 1.5.2 cuts int8 results of Softmax off, instead of rounding, where it writes them in the NPU's layout."""
    return op.attributes["operator"] == "Softmax" and graph.values[op.output].quantization is not None


def _is_plain(graph: Graph, name: str) -> bool:
    """Whether only the CPU touches a value."""
    maker = graph.producer(name)
    return (maker is None or _takes_plain(maker)) and all(_takes_plain(op) for op in graph.ops if name in op.inputs)


def _like(graph: Graph, name: str) -> str:
    made = graph.add_value(f"{name}_plain", graph.shape(name))
    graph.values[made].quantization = graph.values[name].quantization
    graph.values[made].whole = graph.values[name].whole
    return made


def _is_natural(value: Value) -> bool:
    """Four dimensions, or one pixel: memory is what people expect."""
    return len(value.shape) == 4 or (len(value.shape) == 2 and value.shape[0] == 1)


def _takes_plain(op: Op) -> bool:
    return op.type in {"Cpu", "Reshape"}


def make_tensors(low: Lowering, pictures: set[str]) -> None:
    """`pictures` names the inputs that are rows of pixels."""
    graph = low.graph
    makers, readers = graph.producers(), graph.readers()
    for name, value in graph.values.items():
        kind = Kind.INPUT if name in graph.inputs else Kind.OUTPUT if name in graph.outputs else Kind.INTERNAL
        low.program.tensors[name] = _tensor(low, value, kind, name in pictures, makers.get(name), readers[name])


def may_be_picture(shape: tuple[int, ...], form: Format) -> bool:
    """Rows of pixels are read whole, so they must not be longer than a register counts."""
    return len(shape) == 4 and shape[1] in _PICTURE_CHANNELS and shape[1] != form.atom and max(shape[2:]) <= LONGEST


def picture_inputs(graph: Graph, form: Format) -> set[str]:
    """Inputs of 1, 3 or 4 channels that only ordinary convolutions read; a pixel that is an atom is no picture's."""
    found = set()
    for name in graph.inputs:
        shape = graph.values[name].shape
        readers = [op for op in graph.ops if name in op.inputs]
        if not may_be_picture(shape, form) or not readers:
            continue
        if all(op.type == "Conv" and op.inputs[0] == name and name not in op.inputs[1:] for op in readers):
            found.add(name)
    return found


def _tensor(
    low: Lowering, value: Value, kind: Kind, is_picture: bool, maker: Op | None, readers: list[Op]
) -> Tensor:
    form = low.format_of(value.name)
    channels, height, width = value.cube
    tensor = Tensor(
        value.name, kind, dtype_of(form), value.shape, "feature", cube=value.cube, quantization=value.quantization,
        element_bytes=form.element_bytes, atom_bytes=form.atom_bytes,
    )  # fmt: skip
    if value.whole:
        tensor.dtype = WHOLE[value.whole]
        tensor.element_bytes = tensor.dtype.bits // 8
    by_cpu = maker is None or _takes_plain(maker)
    only_cpu = by_cpu and all(_takes_plain(op) for op in readers)
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
        elements = 1
        for size in value.shape:
            elements *= size
        tensor.size_bytes = align(align(elements, form.depthwise_group) * tensor.element_bytes, 64)
        return tensor
    pixels = height * width
    tensor.pitch = pixels if kind is Kind.INPUT else align(pixels, 4) if pixels > 1 else 1
    surfaces = form.surfaces(channels)
    tensor.native_shape = (1, surfaces, height, width, form.atom)
    tensor.shape = (1, channels, height, width)
    group = 1
    if maker is not None and maker.type in {"Conv", "ConvTranspose"}:
        group = 4 if maker.attributes["group"] > 1 else 2
    elif kind is not Kind.INPUT:
        group = 2
    tensor.size_bytes = align(align(surfaces, group) * tensor.pitch * form.atom_bytes, 64)
    return tensor

