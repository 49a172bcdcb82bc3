"""Whether rows can be added to the inputs without changing the others: one compiled size then serves smaller ones.

Every value gets the axis that carries the rows. An operator that mixes rows, or is not known here, ends it: exact or
not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from openrknn.compiler.operators import OPERATORS, Rows
from openrknn.partition.view import Node, Value, View


def rows_are_apart(view: View) -> bool:
    """For the first dimension of all inputs that are not single; every output has to keep it in front."""
    axes: dict[str, int | None] = {}
    rows = {shape[0] for name in view.inputs if (shape := view.values[name].shape)}
    if len(rows) != 1 or rows == {1}:
        return False
    for name in view.inputs:
        axes[name] = 0
    for node in view.nodes:
        read = {name: axes[name] for name in node.reads if axes.get(name) is not None}
        if not read:
            axes.update(dict.fromkeys(node.makes))
            continue
        axis = _axis(view, node, read)
        if axis is None or not all(_keeps(view, name, axis, rows) for name in node.makes):
            return False
        axes.update(dict.fromkeys(node.makes, axis))
    return all(axes.get(name) == 0 for name in view.outputs)


def _keeps(view: View, name: str, axis: int, rows: set[int]) -> bool:
    shape = view.values.get(name, Value()).shape
    return shape is not None and axis < len(shape) and shape[axis] in rows


def _axis(view: View, node: Node, read: Mapping[str, int | None]) -> int | None:
    kind = node.type
    given = {entry.name: entry for entry in node.proto.attribute}
    first = node.proto.input[0]
    axis = read.get(first)
    row = OPERATORS.get(kind)
    if row is None or row.rows is None:
        return None
    if row.rows is Rows.APART:
        return axis
    if row.rows is Rows.BROADCAST:
        return _broadcast(view, node, read)
    if axis is None:
        return _gathered(view, node, read, given) if row.rows is Rows.PICKED else None
    shape = view.values.get(first, Value()).shape or ()
    others = [name for name in read if name != first]
    if row.rows in {Rows.ITEMS, Rows.FIRST}:
        return 0 if axis == 0 and not others else None
    if row.rows is Rows.ALONG:
        along = given["axis"].i if "axis" in given else row.axis
        together = all(read.get(name) == axis for name in node.reads)
        return axis if along is not None and along % len(shape) != axis and together else None
    handler = _OTHERS.get(row.rows)
    return handler(view, node, axis, given, others) if handler else None


def _broadcast(view: View, node: Node, read: Mapping[str, int | None]) -> int | None:
    """Counted from the last dimension, the rows have to be at one place; who has none must have a 1 there."""
    made = view.values.get(node.makes[0], Value()).shape or ()
    places = {len(view.values[name].shape or ()) - axis for name, axis in read.items() if axis is not None}
    if len(places) != 1:
        return None
    place = places.pop()
    for name in node.proto.input:
        if name and name not in read:
            shape = view.values.get(name, Value()).shape
            if shape is None or (len(shape) >= place and shape[-place] != 1):
                return None
    return len(made) - place


def _gathered(view: View, node: Node, read: Mapping[str, int | None], given: Mapping[str, Any]) -> int | None:
    """A table, read by rows of numbers."""
    at = read.get(node.proto.input[1])
    table = len(view.values.get(node.proto.input[0], Value()).shape or ())
    return None if at is None or not table else (given["axis"].i if "axis" in given else 0) % table + at


def _matmul(view: View, node: Node, axis: int, _: Mapping[str, Any], others: list[str]) -> int | None:
    left = len(view.values[node.proto.input[0]].shape or ())
    right = view.values.get(node.proto.input[1], Value()).shape or ()
    if others:
        return None
    if len(right) > 2 and (len(right) != left or right[axis] != 1):
        return None
    return axis if axis < left - 1 else None


def _gemm(view: View, node: Node, axis: int, given: Mapping[str, Any], others: list[str]) -> int | None:
    turned = "transA" in given and given["transA"].i
    bias = view.values.get(node.proto.input[2], Value()).shape if len(node.proto.input) > 2 else ()
    lone = bias is not None and (len(bias) < 2 or bias[0] == 1)
    return 0 if axis == 0 and not turned and not others and lone else None


def _transpose(view: View, node: Node, axis: int, given: Mapping[str, Any], _: list[str]) -> int | None:
    rank = len(view.values[node.proto.input[0]].shape or ())
    order = list(given["perm"].ints) if "perm" in given else list(range(rank))[::-1]
    return order.index(axis) if axis in order else None


def _norm(view: View, node: Node, axis: int, given: Mapping[str, Any], _: list[str]) -> int | None:
    rank = len(view.values[node.proto.input[0]].shape or ())
    start = (given["axis"].i if "axis" in given else -1) % rank
    return axis if axis < start else None


_OTHERS: dict[Rows, Callable[[View, Node, int, Mapping[str, Any], list[str]], int | None]] = {
    Rows.MATMUL: _matmul,
    Rows.GEMM: _gemm,
    Rows.TURNED: _transpose,
    Rows.LAST: _norm,
}
