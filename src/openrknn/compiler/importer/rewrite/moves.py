"""Operators that move or copy values, in the directions that the NPU's memory has: channels first."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from openrknn.compiler.identity import choice
from openrknn.compiler.importer.rewrite.writer import Writer, attribute
from openrknn.compiler.operators import BROADCASTING

_MOST_COPIES = 64
_LARGEST_REPEAT = 8


def _expand(writer: Writer, node: Any) -> None:
    """Dropped where the reader would repeat the values anyway, else copies."""
    shape, wanted = writer.shape(node.input[0]), writer.shape(node.output[0])
    if shape is None or wanted is None:
        return
    full = (1,) * (len(wanted) - len(shape)) + shape
    if full == wanted:
        writer.reshape(node.input[0], wanted, to=node.output[0])
        return
    readers = writer.facts.readers.get(node.output[0], [])
    if readers and node.output[0] not in writer.facts.outputs and all(
        reader.op_type in BROADCASTING and _survives(writer, reader, node.output[0], full) for reader in readers
    ):
        writer.reshape(node.input[0], full, to=node.output[0])
        return
    _repeat(writer, node, full, wanted)


def _survives(writer: Writer, reader: Any, name: str, smaller: tuple[int, ...]) -> bool:
    """Whether a reader's result keeps its shape when this operand is not expanded."""
    shapes = [smaller if entry == name else writer.shape(entry) for entry in reader.input if entry]
    if any(shape is None for shape in shapes):
        return False
    try:
        return np.broadcast_shapes(*(shape or () for shape in shapes)) == writer.shape(reader.output[0])
    except ValueError:
        return False


def _tile(writer: Writer, node: Any) -> None:
    """Copies side by side: a Resize of single pixels, else a Concat."""
    shape, wanted = writer.shape(node.input[0]), writer.shape(node.output[0])
    if shape is not None and wanted is not None:
        _repeat(writer, node, shape, wanted)


def _repeat(writer: Writer, node: Any, shape: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    """One axis after the other: single pixels by resizing, everything else by concatenation."""
    if writer.constant(node.input[0]) is not None or prod(b // a for a, b in zip(shape, wanted, strict=True)) < 2:
        return
    factors = [b // a for a, b in zip(shape, wanted, strict=True)]
    if factors[0] != 1 or len(shape) not in (2, 3, 4):
        return
    current, name = list(shape), writer.reshape(node.input[0], shape)
    if len(shape) == 4 and shape[2:] == (1, 1) and writer.facts.opset >= 11:
        smooth = [_smooth(factors[2]), _smooth(factors[3])]
        for scales in _scales(*smooth):
            name = writer.add("Resize", name, "", writer.new([1, 1, *scales]), mode="nearest",
                              coordinate_transformation_mode="asymmetric", nearest_mode="floor")  # fmt: skip
        for axis in (2, 3):
            current[axis] = factors[axis]
            if smooth[axis - 2] > factors[axis]:
                name = writer.cut(name, axis, 0, factors[axis])
    for axis, factor in enumerate(factors):
        missing = factor * shape[axis] // current[axis]
        if missing > _MOST_COPIES:
            writer.nodes.clear()
            writer.is_done = False
            return
        if missing > 1:
            name = writer.add("Concat", *[name] * missing, axis=axis)
    writer.add("Identity", name, to=node.output[0])


def _smooth(size: int) -> int:
    """The next number whose prime factors are at most 7."""
    while True:
        left = size
        for prime in (2, 3, 5, 7):
            while left % prime == 0:
                left //= prime
        if left == 1:
            return size
        size += 1


def _scales(rows: int, columns: int) -> list[tuple[int, int]]:
    """Factors up to 8 whose product is the wanted one; nothing where a prime is larger."""
    steps = []
    for whole in (rows, columns):
        found, left = [], whole
        while left > 1:
            factor = next((number for number in range(_LARGEST_REPEAT, 1, -1) if left % number == 0), 0)
            if not factor:
                return []
            found.append(factor)
            left //= factor
        steps.append(found)
    length = max(map(len, steps))
    full = [found + [1] * (length - len(found)) for found in steps]
    return list(zip(full[0], full[1], strict=True))


def _gather(writer: Writer, node: Any) -> None:
    """Constant indices: one is a slice, a run of them too, any others of channels are a 1x1 convolution."""
    indices, shape = writer.constant(node.input[1]), writer.shape(node.input[0])
    out = writer.shape(node.output[0])
    if indices is None or shape is None or out is None or writer.constant(node.input[0]) is not None:
        return
    axis = int(attribute(node, "axis", 0)) % len(shape)
    picks = [int(index) % shape[axis] for index in indices.reshape(-1)]
    if picks and picks == list(range(picks[0], picks[0] + len(picks))):
        part = writer.cut(node.input[0], axis, picks[0], picks[0] + len(picks))
        writer.reshape(part, out, to=node.output[0])
    elif axis == 1 and shape[0] == 1 and 2 <= len(shape) <= 4 and picks:
        weight = choice(len(picks), shape[1], "Gather", writer.name)
        weight[np.arange(len(picks)), picks] = 1
        select(writer, node.input[0], shape, weight, None, out, node.output[0])


def select(
    writer: Writer, source: str, shape: tuple[int, ...], weight: Any, bias: Any, out: tuple[int, ...], to: str
) -> None:
    """A 1x1 convolution over channels, whatever the rank."""
    cube = shape if len(shape) == 4 else (1, shape[1], 1, prod(shape[2:]))
    flat = source if len(shape) == 4 else writer.reshape(source, cube)
    operands = [flat, writer.new(weight), *([] if bias is None else [writer.new(bias)])]
    made = writer.add("Conv", *operands, kernel_shape=[1, 1])
    writer.reshape(made, out, to=to)


def _concat(writer: Writer, node: Any) -> None:
    """Along channels it needs no task at all, and constants become additions."""
    out = writer.shape(node.output[0])
    shapes = [writer.shape(name) for name in node.input]
    arrays = [writer.constant(name) for name in node.input]
    if out is None or any(shape is None for shape in shapes) or len(out) not in (2, 3, 4):
        return
    if all(array is not None for array in arrays) or any(a is not None and a.dtype.kind != "f" for a in arrays):
        return
    axis = int(attribute(node, "axis", 0)) % len(out)
    if axis == 0 and len(out) < 4 and len(node.input) > 1:  # the second dimension of [1, ...]
        lifted = [writer.reshape(name, (1, *(shape or ()))) for name, shape in zip(node.input, shapes, strict=True)]
        writer.reshape(writer.add("Concat", *lifted, axis=1), out, to=node.output[0])
        return
    if axis == 0 or out[0] != 1:
        return
    if len(node.input) == 1:
        writer.add("Identity", node.input[0], to=node.output[0])
    elif axis == 1 and len(out) != 3 and any(array is not None for array in arrays):
        _with_constants(writer, node, out, arrays)


def _with_constants(writer: Writer, node: Any, out: tuple[int, ...], arrays: list[Any]) -> None:
    """The activations are moved to their channels by a convolution; what is constant is added."""
    moved = [name for name, array in zip(node.input, arrays, strict=True) if array is None]
    joined = moved[0] if len(moved) == 1 else writer.add("Concat", *moved, axis=1)
    have = sum((writer.shape(name) or ())[1] for name in moved)
    weight, summand = choice(out[1], have, "Concat", writer.name), np.zeros(out)
    at = source = 0
    for name, array in zip(node.input, arrays, strict=True):
        count = (writer.shape(name) or ())[1]
        if array is None:
            weight[np.arange(at, at + count), np.arange(source, source + count)] = 1
            source += count
        else:
            summand[:, at : at + count] = array
        at += count
    shape = (1, have, *out[2:])
    flat = summand.reshape(1, out[1], -1)
    if np.array_equal(flat, np.broadcast_to(flat[:, :, :1], flat.shape)):  # one number per channel: the bias
        select(writer, joined, shape, weight, flat[0, :, 0], out, node.output[0])
        return
    placed = writer.facts.fresh(f"{writer.name}_placed")
    select(writer, joined, shape, weight, None, out, placed)
    writer.add("Add", placed, writer.new(summand), to=node.output[0])


RULES: dict[str, Callable[[Writer, Any], None]] = {
    "Concat": _concat,
    "Expand": _expand,
    "Gather": _gather,
    "Tile": _tile,
}
