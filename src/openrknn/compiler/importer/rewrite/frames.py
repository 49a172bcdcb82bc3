"""Values whose first dimension is time, [T, 1, C], as PyTorch's speech models have them: said with convolutions.

The NPU has items in the first dimension, so that operators over time or channels of such values were the CPU's.
Each rule goes back to the frames, and forward to [1, C, 1, T], which is the NPU's own order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from openrknn.compiler.importer.rewrite import moves, reductions
from openrknn.compiler.importer.rewrite.reductions import reduced_axes
from openrknn.compiler.importer.rewrite.writer import Writer, attribute
from openrknn.compiler.ir import Array

_MOST_CHANNELS = 1024
"""Of queries that are spread over time."""
_MOST_FRAMES_IN_ONE = 8
_LONGEST_STEP = 7
_HEADS_FIRST = [2, 1, 0, 3]
_RESIZE_WITH_SCALES = 13


def _columns(writer: Writer, name: str, frames: int, channels: int) -> str:
    """[1, C, 1, T]."""
    rows = writer.reshape(name, (1, frames, channels))
    return writer.reshape(writer.transpose(rows, [0, 2, 1]), (1, channels, 1, frames))


def _rows(writer: Writer, name: str, frames: int, channels: int) -> str:
    """[1, T, C] of [1, C, 1, T]."""
    return writer.transpose(writer.reshape(name, (1, channels, frames)), [0, 2, 1])


def _relative_scores(writer: Writer, node: Any) -> None:
    """Scores of relative positions: a product of queries with a constant, whose columns are then picked for each row.

    Each row has a matrix of its own, then. One product computes them all if the queries lie side by side, each at the
    place of its time and head, and zeros everywhere else.
    """
    places, shape = writer.operand(node, 1), writer.shape(node.output[0])
    product = _behind(writer, node.input[0], "Reshape", "MatMul") or _behind(writer, node.input[0], "MatMul")
    if places is None or places.ndim != 2 or shape is None or product is None:
        return
    kernel, queries = writer.operand(product, 1), writer.shape(product.input[0])
    turned = _behind(writer, product.input[0], "Transpose")
    split = _behind(writer, turned.input[0], "Reshape") if turned is not None else None
    if kernel is None or turned is None or split is None or queries is None or len(queries) != 4:
        return
    heads, items, times, depth = queries
    if attribute(turned, "perm") != _HEADS_FIRST or writer.shape(split.input[0]) != (times, 1, heads * depth):
        return
    spread, columns = times * heads * depth, kernel.shape[-1]
    is_last = int(attribute(node, "axis", 0)) % 2 == 1
    if items != 1 or not is_last or len(places) != heads * times or spread > _MOST_CHANNELS:
        return
    if writer.shape(node.input[0]) != (heads * times, columns):
        return
    if kernel.shape != (heads, 1, depth, columns) or not -columns <= places.min() <= places.max() < columns:
        return
    picked = kernel[np.arange(heads)[:, None, None, None], 0, np.arange(depth)[:, None],
                    places.reshape(heads, times, 1, -1) % columns]  # fmt: skip
    weight = np.ascontiguousarray(picked.transpose(1, 0, 2, 3)).reshape(spread, -1)
    kept = np.zeros((1, heads, times, times, heads, depth), np.float32)
    for head in range(heads):
        kept[0, head, np.arange(times), np.arange(times), head] = 1
    frames = writer.reshape(split.input[0], (1, 1, times, heads * depth))
    frames = writer.add("Concat", *([frames] * heads), axis=1) if heads > 1 else frames
    copies = writer.add("MatMul", frames, writer.new(np.tile(np.eye(heads * depth), (1, times))))
    chosen = writer.add("Mul", copies, writer.new(kept.reshape(1, heads, times, spread)))
    writer.reshape(writer.add("MatMul", chosen, writer.new(weight)), shape, to=node.output[0])


def _behind(writer: Writer, name: str, *kinds: str) -> Any:
    """The last of a chain of nodes of these kinds, from a value backwards."""
    node = None
    for kind in kinds:
        node = writer.facts.makers.get(name)
        if node is None or node.op_type != kind:
            return None
        name = node.input[0]
    return node


def biased_norm(writer: Writer, node: Any) -> None:
    """x * (mean(d^2)^-1/2 * s), d any other value, over the channels of frames: x * s / sqrt(mean(d^2))."""
    shape = writer.shape(node.output[0])
    if shape is None or len(shape) != 3 or 1 not in shape[:2]:
        return
    for x, inverse in (tuple(node.input), tuple(node.input)[::-1]):
        if writer.shape(x) != shape or writer.shape(inverse) != (*shape[:2], 1):
            continue
        scale, inner = _scale(writer, inverse)
        mean = writer.facts.makers.get(_rooted(writer, inner))
        if mean is None or mean.op_type != "ReduceMean" or reduced_axes(writer, mean, 3) != (2,):
            continue
        base = _squared(writer, mean.input[0])
        if base in {"", x} or writer.shape(base) != shape:
            continue
        rows = (1, shape[0] * shape[1], shape[2])
        apart = writer.reshape(base, rows)
        root = writer.add("Sqrt", writer.mean(writer.add("Mul", apart, apart), [-1]))
        scaled = writer.add("Mul", writer.reshape(x, rows), writer.new(scale))
        writer.reshape(writer.add("Div", scaled, root), shape, to=node.output[0])
        return


def _scale(writer: Writer, name: str) -> tuple[float, str]:
    """A constant factor, and what it multiplies."""
    node = writer.facts.makers.get(name)
    if node is not None and node.op_type == "Mul":
        for number, other in (tuple(node.input), tuple(node.input)[::-1]):
            array = writer.constant(number)
            if array is not None and array.size == 1:
                return float(array.reshape(-1)[0]), other
    return 1.0, name


def _rooted(writer: Writer, name: str) -> str:
    """v, of 1 / sqrt(v)."""
    node = writer.facts.makers.get(name)
    if node is None:
        return ""
    if node.op_type == "Pow":
        power = writer.operand(node, 1)
        return str(node.input[0]) if power is not None and power.size == 1 and float(power.flat[0]) == -0.5 else ""
    root = writer.facts.makers.get(node.input[0]) if node.op_type == "Reciprocal" else None
    return str(root.input[0]) if root is not None and root.op_type == "Sqrt" else ""


def _squared(writer: Writer, name: str) -> str:
    """d, of d * d."""
    node = writer.facts.makers.get(name)
    if node is None:
        return ""
    power = writer.operand(node, 1) if node.op_type == "Pow" else None
    is_square = power is not None and power.size == 1 and float(power.flat[0]) == 2
    is_square |= node.op_type == "Mul" and node.input[0] == node.input[1]
    return str(node.input[0]) if is_square else ""


def _fewer_frames(writer: Writer, node: Any) -> None:
    """Every k frames, [n, k, 1, C], weighted and summed up: a depthwise convolution in steps of k."""
    shape, out = writer.shape(node.input[0]), writer.shape(node.output[0])
    if shape is None or out is None or len(shape) != 4 or shape[2] != 1 or reduced_axes(writer, node, 4) != (1,):
        return
    many, each, _, channels = shape
    source, weights = node.input[0], np.ones(each, np.float32)
    product = writer.facts.makers.get(source)
    if product is not None and product.op_type == "Mul":
        for number, other in (tuple(product.input), tuple(product.input)[::-1]):
            array = writer.constant(number)
            if array is not None and array.size == each and array.reshape(-1).shape == (each,) and (
                np.broadcast_shapes(array.shape, shape) == shape and array.ndim >= 3 and array.shape[-3] == each
            ):
                source, weights = other, array.reshape(-1).astype(np.float32)
    if many < 2 or not 2 <= each <= _MOST_FRAMES_IN_ONE or writer.shape(source) != shape:
        return
    made = _weighted(writer, _columns(writer, source, many * each, channels), weights, channels)
    writer.reshape(_rows(writer, made, many, channels), out, to=node.output[0])


def _weighted(writer: Writer, columns: str, weights: Array, channels: int) -> str:
    """Sums of so many columns as there are weights. A step is too long for the NPU: halves first, one of each two."""
    each = len(weights)
    if each > _LONGEST_STEP and each % 2 == 0:
        picked = [
            _weighted(writer, _weighted(writer, columns, half, channels), place, channels)
            for half, place in zip(np.split(weights, 2), np.eye(2, dtype=np.float32), strict=True)
        ]
        return writer.add("Add", *picked)
    kernel = np.broadcast_to(weights, (channels, 1, 1, each))
    return writer.add(
        "Conv", columns, writer.new(kernel), group=channels, kernel_shape=[1, each], strides=[1, each],
        pads=[0, 0, 0, 0],
    )  # fmt: skip


def _more_frames(writer: Writer, node: Any) -> None:
    """Each frame k times, [T, 1, 1, C] -> [T, k, 1, C]: nearest neighbours."""
    shape, out = writer.shape(node.input[0]), writer.shape(node.output[0])
    if shape is None or out is None or len(shape) != 4 or shape[1:3] != (1, 1) or shape[0] < 2:
        return
    if writer.facts.opset < _RESIZE_WITH_SCALES:
        return
    if out != (shape[0], out[1], 1, shape[3]) or not 2 <= out[1] <= _MOST_FRAMES_IN_ONE:
        return
    if writer.constant(node.input[0]) is not None or writer.facts.is_whole(node):
        return
    times, each, _, channels = out
    columns = _columns(writer, node.input[0], times, channels)
    made = writer.add(
        "Resize", columns, "", writer.new([1, 1, 1, each]), mode="nearest",
        coordinate_transformation_mode="asymmetric", nearest_mode="floor",
    )  # fmt: skip
    writer.reshape(_rows(writer, made, times * each, channels), out, to=node.output[0])


def _or(first: Callable[[Writer, Any], None], second: Callable[[Writer, Any], None]) -> Callable[[Writer, Any], None]:
    """One rule, and another one where it writes nothing."""

    def rule(writer: Writer, node: Any) -> None:
        first(writer, node)
        if not writer.is_done:
            second(writer, node)

    rule.__doc__ = second.__doc__  # the page of operators says what happens to the usual ones
    return rule


RULES: dict[str, Callable[[Writer, Any], None]] = {
    "Expand": _or(_more_frames, moves.RULES["Expand"]),
    "GatherElements": _relative_scores,
    "ReduceSum": _or(_fewer_frames, reductions.RULES["ReduceSum"]),
}
