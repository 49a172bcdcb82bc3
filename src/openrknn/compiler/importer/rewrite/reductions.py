"""Reductions as the NPU has them: over all pixels, and over channels by a convolution with equal weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from openrknn.compiler.importer.rewrite.writer import Writer, attribute, rectangle


def reduced_axes(writer: Writer, node: Any, rank: int) -> tuple[int, ...] | None:
    """The axes of a reduction, not negative; None where they are computed."""
    given = attribute(node, "axes")
    if given is None and len(node.input) > 1 and node.input[1]:
        array = writer.constant(node.input[1])
        if array is None:
            return None
        given = array.reshape(-1).tolist()
    if not given:
        return () if attribute(node, "noop_with_empty_axes", 0) else tuple(range(rank))
    return tuple(sorted(int(axis) % rank for axis in given))


def _plain(writer: Writer, node: Any) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]] | None:
    """(shape, axes without those of size 1, shape with them kept as 1)."""
    shape = writer.shape(node.input[0])
    axes = reduced_axes(writer, node, len(shape)) if shape else None
    if not shape or axes is None:
        return None
    kept = tuple(1 if at in axes else size for at, size in enumerate(shape))
    return shape, tuple(axis for axis in axes if shape[axis] > 1), kept


def _mean_or_sum(writer: Writer, node: Any) -> None:
    """GlobalAveragePool over pixels, a 1x1 convolution with equal weights over channels, or both."""
    found = _plain(writer, node)
    if found is None or writer.constant(node.input[0]) is not None:
        return
    shape, axes, kept = found
    out = writer.shape(node.output[0])
    count = prod(shape[axis] for axis in axes)
    factor = 1.0 if node.op_type == "ReduceMean" else float(count)
    rank = len(shape)
    if out is None or rank > 4:
        return
    if not axes:
        writer.reshape(node.input[0], out, to=node.output[0])
        return
    if (rank, axes) == (4, (2, 3)):
        if node.op_type == "ReduceMean" and reduced_axes(writer, node, rank) != axes:
            writer.reshape(writer.add("GlobalAveragePool", node.input[0]), out, to=node.output[0])
        elif node.op_type == "ReduceSum":
            made = writer.add("Mul", writer.add("GlobalAveragePool", node.input[0]), writer.new(factor))
            writer.reshape(made, out, to=node.output[0])
        return
    if shape[0] != 1 or (axes == (rank - 1,) and _is_layer_norm(writer, node)):
        return
    if axes == (1,) and rank >= 2:
        _channels(writer, node, node.input[0], factor, to=node.output[0])
    elif axes in {(1, 2, 3), (1, 2)} or (rank == 3 and axes == (2,)) or (rank == 4 and len(axes) == 1):
        _pixels_first(writer, node, axes, kept, factor)


def _is_layer_norm(writer: Writer, node: Any) -> bool:
    """Whether the mean belongs to a normalisation that is spelled out: that is recognised as a whole, later."""
    readers = writer.facts.readers.get(node.output[0], [])
    for reader in readers:
        if reader.op_type == "Sub" and reader.input[0] == node.input[0]:
            return _is_divided(writer, reader.output[0])
    source = squared(writer, writer.facts.makers.get(node.input[0]))
    return source is not None and _is_divided(writer, source)


def _is_divided(writer: Writer, difference: str) -> bool:
    """By sqrt(mean(difference^2) + eps), or multiplied by the power of -0.5 of it."""
    makers = writer.facts.makers

    def maker(name: str, *kinds: str) -> Any:
        found = makers.get(name)
        return found if found is not None and found.op_type in kinds else None

    def root(name: str, power: float) -> Any:
        found = maker(name, "Sqrt", "Pow") if power > 0 else maker(name, "Pow")
        if found is None or found.op_type == "Sqrt":
            return found
        exponent = writer.constant(found.input[1])
        is_root = exponent is not None and exponent.size == 1 and float(exponent.reshape(-1)[0]) == power
        return found if is_root else None

    def root_of(reader: Any) -> Any:
        if reader.op_type == "Div" and reader.input[0] == difference:
            return root(reader.input[1], 0.5)
        if reader.op_type != "Mul":
            return None
        other = reader.input[0 if reader.input[1] == difference else 1]
        inverse = maker(other, "Reciprocal", "Div")
        return root(other, -0.5) if inverse is None else root(inverse.input[-1], 0.5)

    for reader in writer.facts.readers.get(difference, []):
        taken = root_of(reader)
        total = maker(taken.input[0], "Add", "ReduceMean") if taken is not None else None
        names = [] if total is None else total.input if total.op_type == "Add" else total.output
        means = [maker(name, "ReduceMean") for name in names]
        squares = [maker(mean.input[0], "Pow", "Mul") for mean in means if mean is not None]
        if any(square is not None and square.input[0] == difference for square in squares):
            return True
    return False


def _pixels_first(
    writer: Writer, node: Any, axes: tuple[int, ...], kept: tuple[int, ...], factor: float
) -> None:
    """Over rows or columns alone, or over everything."""
    shape = writer.shape(node.input[0]) or ()
    out = writer.shape(node.output[0]) or ()
    source = node.input[0]
    full = (1, shape[1], *_sides(shape[2])) if len(shape) == 3 else shape
    if len(shape) == 3:
        source = writer.reshape(source, full)
    pixels = [axis for axis in axes if axis > 1]
    if len(shape) == 4 and len(pixels) == 1 and axes != (1, 2, 3):  # a window as high or as wide as the map
        sides = [full[axis] if axis in pixels else 1 for axis in (2, 3)]
        if max(sides) > _WINDOW:
            return _undo(writer)
        mean = writer.add("AveragePool", source, kernel_shape=sides, strides=sides)
    else:
        mean = writer.add("GlobalAveragePool", source)
    if 1 in axes:
        return _channels(writer, node, mean, factor, to=node.output[0], shape=(1, full[1], 1, 1))
    if factor != 1:
        mean = writer.add("Mul", mean, writer.new(factor))
    writer.reshape(mean, out, to=node.output[0])
    return None


def _sides(count: int) -> tuple[int, int]:
    """(rows, columns) of about the same number: their mean takes the fewest steps, and each of them rounds."""
    rows = next(size for size in range(math.isqrt(count), 0, -1) if count % size == 0)
    return (rows, count // rows) if count // rows <= _WIDEST else rectangle(count)


_WIDEST = 1024
_WINDOW = 16
"""The largest window that the PPU has."""


def _undo(writer: Writer) -> None:
    writer.nodes.clear()
    writer.is_done = False


def _channels(
    writer: Writer, node: Any, source: str, factor: float, *, to: str, shape: tuple[int, ...] | None = None
) -> None:
    """One output channel with the weight 1/C for each of the inputs; `factor` (the number of summands) on top."""
    own = shape or writer.shape(source) or ()
    out = writer.shape(node.output[0]) or ()
    cube = own if len(own) == 4 else (1, own[1], 1, prod(own[2:]))
    flat = source if cube == own else writer.reshape(source, cube)
    made = writer.add("Conv", flat, writer.new(np.full((1, own[1], 1, 1), factor / own[1])), kernel_shape=[1, 1])
    writer.reshape(made, out, to=to)


def _square(writer: Writer, node: Any) -> None:
    """The sum of the squares, and its root."""
    shape, kept = writer.shape(node.input[0]), writer.shape(node.output[0])
    if node.op_type == "ReduceL2" and shape is not None and kept is not None and prod(shape) == prod(kept):
        writer.reshape(writer.add("Abs", node.input[0]), kept, to=node.output[0])  # of one number each
        return
    square = writer.add("Mul", node.input[0], node.input[0])
    root = node.op_type == "ReduceL2"
    given = {entry.name: attribute(node, entry.name) for entry in node.attribute}
    target = "" if root else node.output[0]
    total = writer.add("ReduceSum", square, *_axes_operand(writer, node, given), to=target, **given)
    if root:
        writer.add("Sqrt", total, to=node.output[0])


def _absolute(writer: Writer, node: Any) -> None:
    """The sum of the absolute values."""
    given = {entry.name: attribute(node, entry.name) for entry in node.attribute}
    size = writer.add("Abs", node.input[0])
    writer.add("ReduceSum", size, *_axes_operand(writer, node, given), to=node.output[0], **given)


def _axes_operand(writer: Writer, node: Any, given: dict[str, Any]) -> list[str]:
    """ReduceSum takes its axes as an operand from opset 13 on, the others from 18 on."""
    if writer.facts.opset >= 13 and given.get("axes") is not None:
        return [writer.new(given.pop("axes"), np.int64)]
    return [name for name in node.input[1:] if name]


_SHORTEST = 1e-12
"""Below what fp16 has: zeros divided by it, or by its root, stay zeros."""


def _unit_length(writer: Writer, node: Any) -> None:
    """x divided by its length along an axis."""
    axes = [int(attribute(node, "axis", -1))]
    shape = writer.shape(node.input[0])
    if shape is not None and shape[axes[0]] == 1:
        writer.add("Sign", node.input[0], to=node.output[0])
        return
    if int(attribute(node, "p", 2)) == 2:
        total = writer.mean(writer.add("Mul", node.input[0], node.input[0]), axes, "ReduceSum")
        length = writer.add("Sqrt", writer.add("Add", total, writer.new(_SHORTEST)))
    else:
        length = writer.add("Max", writer.mean(node.input[0], axes, "ReduceL1"), writer.new(_SHORTEST))
    writer.add("Div", node.input[0], length, to=node.output[0])


def variance(writer: Writer, node: Any) -> None:
    """mean(x^2) - mean(x)^2 as mean((x - mean(x))^2): the difference of two large numbers would drown in fp16."""
    makers = writer.facts.makers
    if node.op_type != "Sub":
        return
    whole, square = (makers.get(name) for name in node.input)
    if whole is None or square is None or whole.op_type != "ReduceMean":
        return
    source, mean = squared(writer, makers.get(whole.input[0])), squared(writer, square)
    inner = makers.get(mean or "")
    if source is None or inner is None or inner.op_type != "ReduceMean" or inner.input[0] != source:
        return
    if any(attribute(whole, key) != attribute(inner, key) for key in ("axes", "keepdims")):
        return
    if list(whole.input[1:]) != list(inner.input[1:]) or not int(attribute(whole, "keepdims", 1)):
        return
    difference = writer.add("Sub", source, mean or "")
    given = {entry.name: attribute(whole, entry.name) for entry in whole.attribute}
    product = writer.add("Mul", difference, difference)
    writer.add("ReduceMean", product, *whole.input[1:], to=node.output[0], **given)


def squared(writer: Writer, node: Any) -> str | None:
    """x, where the node is x^2."""
    if node is None or node.op_type not in {"Mul", "Pow"}:
        return None
    exponent = writer.constant(node.input[1])
    is_square = node.input[0] == node.input[1] if node.op_type == "Mul" else (
        exponent is not None and exponent.size == 1 and float(exponent.reshape(-1)[0]) == 2
    )
    return str(node.input[0]) if is_square else None


RULES: dict[str, Callable[[Writer, Any], None]] = {
    "LpNormalization": _unit_length,
    "ReduceL1": _absolute,
    "ReduceL2": _square,
    "ReduceMean": _mean_or_sum,
    "ReduceSum": _mean_or_sum,
    "ReduceSumSquare": _square,
}
