"""Squares that are added up, as a graph has them: which operators do it, and what divides by the root.

    x * x -> Reshape -> means over pixels, rows, columns, channels -> factors -> + epsilon -> Sqrt -> x / root

`squares` writes them again for fp16.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from openrknn.compiler.ir import Array, Graph, Op
from openrknn.compiler.normalise.common import axes_of, sole_reader

_TINY = 2e-6
"""Bounds that only keep zeros from being divided by zero."""
_LARGEST_FP16 = 65504.0


@dataclass(slots=True)
class Chain:
    """What adds squares up: pixels, channels, or both; the squares of `source` in the shape `cube`."""

    source: str
    cube: tuple[int, ...]
    square: Op
    reductions: list[Op] = field(default_factory=list)
    factor: float = 1.0
    """The result is so many times the mean."""
    most: float = 1.0
    """A number is at most so many times as large as the size that is taken for all of them."""
    end: str = ""


def find_chain(graph: Graph, square: Op) -> Chain | None:
    """All that is linear behind a square, as far as one operator reads it."""
    found = Chain(square.inputs[0], graph.shape(square.output), square, end=square.output)
    op = sole_reader(graph, square.output)
    if op is not None and op.type == "Reshape":
        found.cube, found.end = graph.shape(op.output), op.output
        op = sole_reader(graph, op.output)
    while op is not None and _is_linear(graph, op, found):
        found.end = op.output
        op = sole_reader(graph, op.output)
    if not found.reductions or len(found.cube) != 4 or found.cube[0] != 1:
        return None
    return found


def _is_linear(graph: Graph, op: Op, found: Chain) -> bool:
    """Whether an operator is a part of the chain, which it becomes then."""
    if op.type == "Reshape":
        return bool(found.reductions)
    if op.type == "Mul":
        numbers = [graph.constants[name] for name in op.inputs if name in graph.constants]
        if len(numbers) != 1 or numbers[0].size != 1 or numbers[0].item() <= 0 or not found.reductions:
            return False
        found.factor *= numbers[0].item()
        return True
    if found.reductions and _kept(graph, found) != graph.shape(op.inputs[0]):
        return False  # behind a change of shape it is another matter
    if op.type == "Conv":
        weight = graph.constants.get(op.inputs[1])
        bias = graph.constants.get(op.inputs[2]) if len(op.inputs) > 2 and op.inputs[2] else np.zeros(1)
        if weight is None or bias is None or np.any(bias) or weight.shape[2:] != (1, 1) or weight.min() < 0:
            return False
        if int(op.attributes.get("group", 1)) != 1 or not _is_mean(weight[:, :, 0, 0]):
            return False
        sums = weight.sum((1, 2, 3), dtype=np.float64)
        found.factor *= float(sums[0])
        found.most *= float(sums[0] / weight[weight > 0].min())
    elif not _is_over_pixels(graph, op):
        return False
    found.reductions.append(op)
    return True


def _is_mean(weight: Array) -> bool:
    """Whether all channels have one mean, or those of each group have theirs: then one size serves all of its numbers.

    Weights that pick channels are no means: a channel would be measured by the size of another one.
    """
    sums = weight.sum(1, dtype=np.float64)
    if not sums.min() > 0.999 * sums.max():
        return False
    if len(weight) == 1:
        return bool(weight.min() > 0)
    if weight.shape[0] != weight.shape[1] or not np.diagonal(weight).min() > 0:
        return False
    return all(np.array_equal(weight[other], row) for row in weight for other in np.flatnonzero(row))


def _kept(graph: Graph, found: Chain) -> tuple[int, ...]:
    return graph.shape(found.reductions[-1].output) if found.reductions else found.cube


def _is_over_pixels(graph: Graph, op: Op) -> bool:
    """Over all pixels, or over a row or a column of them: a window as wide or as high as the map."""
    shape = graph.shape(op.inputs[0])
    if len(shape) != 4:
        return False
    if op.type == "AveragePool":
        sides = [int(side) for side in op.attributes.get("kernel_shape", ())]
        is_line = sides in ([shape[2], 1], [1, shape[3]]) and not any(op.attributes.get("pads", ()))
        return is_line and graph.shape(op.output) == (*shape[:2], shape[2] // sides[0], shape[3] // sides[1])
    if graph.shape(op.output) != (*shape[:2], 1, 1):
        return False
    return op.type == "GlobalAveragePool" or (op.type == "ReduceMean" and axes_of(graph, op, 4) == (2, 3))


def is_centred(graph: Graph, chain: Chain) -> bool:
    """Whether x is a difference from its own mean, taken as the squares' is.

    That mean was rounded to fp16, which is much where it is large: a second one takes off what the first has lost.
    """
    makers = graph.producers()
    difference = makers.get(chain.source)
    if difference is None or difference.type != "Sub":
        return False
    whole, now = difference.inputs
    for op in reversed(chain.reductions):
        maker = makers.get(now)
        while maker is not None and maker.type == "Reshape":
            maker = makers.get(maker.inputs[0])
        if maker is None or maker.type != op.type or maker.attributes != op.attributes:
            return False
        pairs = zip(maker.inputs[1:], op.inputs[1:], strict=False)
        if len(maker.inputs) != len(op.inputs) or not all(_is_equal(graph, *pair) for pair in pairs):
            return False
        now = maker.inputs[0]
    return now == whole


def _is_equal(graph: Graph, one: str, other: str) -> bool:
    arrays = [graph.constants.get(name) for name in (one, other)]
    return one == other or (arrays[0] is not None and arrays[1] is not None and np.array_equal(arrays[0], arrays[1]))


def added_number(graph: Graph, op: Op | None) -> float | None:
    """The number that an addition adds, if it is positive."""
    if op is None or op.type != "Add" or len(op.inputs) != 2:
        return None
    numbers = [graph.constants[name] for name in op.inputs if name in graph.constants]
    if len(numbers) != 1 or numbers[0].size != 1 or not numbers[0].item() >= 0:
        return None
    return float(numbers[0].item())


def quotients_by(graph: Graph, source: str, root: str) -> list[Op]:
    """The division of `source` by a root, first, and the operators between the two; empty if there is none."""
    between: list[Op] = []
    now = root
    while True:
        op = sole_reader(graph, now)
        if op is None:
            return []
        if op.type == "Div" and op.inputs == [source, now] and graph.shape(op.output) == graph.shape(source):
            return [op, *between]
        if op.type == "Reciprocal":
            product = sole_reader(graph, op.output)
            is_whole = product is not None and graph.shape(product.output) == graph.shape(source)
            if product is not None and product.type == "Mul" and source in product.inputs and is_whole:
                return [product, op, *between]
            return []
        if not _is_guard(graph, op):
            return []
        between.append(op)
        now = op.output


def _is_guard(graph: Graph, op: Op) -> bool:
    """What only keeps zeros from being divided by zero, or writes a number several times."""
    numbers = [graph.constants[name] for name in op.inputs[1:] if name in graph.constants]
    if op.type == "Reshape":
        return graph.shape(op.output) == graph.shape(op.inputs[0])
    if op.type in {"Expand", "Identity"}:
        return True
    if op.type == "Max":
        return len(op.inputs) == 2 and len(numbers) == 1 and numbers[0].size == 1 and numbers[0].item() <= _TINY
    if op.type == "Clip":
        low = numbers[0].item() if numbers and numbers[0].size == 1 else op.attributes.get("min", 0.0)
        high = numbers[1].item() if len(numbers) > 1 and numbers[1].size == 1 else op.attributes.get("max", np.inf)
        return bool(low <= _TINY and high >= _LARGEST_FP16)
    return False
