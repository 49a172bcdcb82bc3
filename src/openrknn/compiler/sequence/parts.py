"""A value that is a past and new rows behind it, kept apart: what operators make of it.

`Parts` stands for Concat(parts) on `axis`. Operators that work on each row alone are written once for each part; a
product that sums over the rows becomes a sum of products; a Softmax over the rows sees all of them, with a mask for
those that are not filled. So the past is never copied, and nothing depends on how long it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from openrknn.compiler.errors import SequenceError
from openrknn.compiler.ir import Array
from openrknn.compiler.operators import ELEMENTWISE, IDENTITIES, QUANTISERS, VIEWS

_MASK_RANK = 4


@dataclass(frozen=True, slots=True)
class Parts:
    """Names of the parts, with their sizes on `axis`; `masks` are added to scores before a Softmax."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    masks: tuple[str | None, ...]
    axis: int
    shape: tuple[int, ...]
    """Of the whole."""

    def of(self, names: Sequence[str], axis: int, shape: Sequence[int]) -> Parts:
        """These rows, as other values."""
        return replace(self, names=tuple(names), axis=axis, shape=tuple(shape))


class Writer(Protocol):
    """Where the new graph is written."""

    def emit(self, node: Any, inputs: Sequence[str], **changes: Any) -> str:
        """The operator again with other inputs (and attributes); the name of its only output."""

    def new(self, kind: str, inputs: Sequence[str], **attributes: Any) -> str:
        """Another operator; the name of its output."""

    def constant(self, array: Array) -> str:
        """A constant; its name."""

    def value(self, name: str) -> Array | None:
        """The numbers of a value of the old graph that is the same in every step, or None."""

    def plain(self, name: str) -> str:
        """The name in the new graph of a value of the old one that is no `Parts`."""

    def shape(self, name: str) -> tuple[int, ...]:
        """Of a value of the old graph, at full capacity."""

    def is_always(self, name: str, number: float) -> bool:
        """Whether a value of the old graph is this number, at every length of the past."""


Handler = Callable[[Writer, Any, Sequence["Parts | str | None"]], "Parts | str"]


def _parts(operands: Sequence[Parts | str | None]) -> Parts:
    return next(one for one in operands if isinstance(one, Parts))


def _refusal(node: Any, why: str) -> SequenceError:
    return SequenceError(f"{node.op_type} {node.name or node.output[0]!r} {why}", operators=[node.name, node.output[0]])


def elementwise(out: Writer, node: Any, operands: Sequence[Parts | str | None]) -> Parts | str:
    """One operand is parts; others have one row that goes with all, or parts of the same rows, or change nothing."""
    first = _parts(operands)
    shape = out.shape(node.output[0])
    back = len(first.shape) - first.axis
    for place, operand in enumerate(operands):
        if operand is None:
            continue
        given = operand.shape if isinstance(operand, Parts) else out.shape(node.input[place])
        if isinstance(operand, Parts):
            if operand.sizes != first.sizes or len(operand.shape) - operand.axis != back:
                raise _refusal(node, f"joins rows of different pasts ({node.input[place]!r})")
        elif len(given) >= back and given[-back] != 1:
            kept = _unchanged(out, node, place)
            if kept is None:
                raise _refusal(node, f"adds {node.input[place]!r}, which differs from row to row of the past")
            whole = operands[kept]
            if not isinstance(whole, Parts) or whole.shape != shape:
                raise _refusal(node, f"makes {list(shape)} of the past by {node.input[place]!r}")
            return whole
    names = []
    for number in range(len(first.names)):
        inputs = [
            operand.names[number] if isinstance(operand, Parts) else out.plain(name) if operand is not None else ""
            for operand, name in zip(operands, node.input, strict=True)
        ]
        names.append(out.emit(node, inputs))
    return first.of(names, len(shape) - back, shape)


def _unchanged(out: Writer, node: Any, place: int) -> int | None:
    """The operand that comes out as it is, if the one at `place` changes nothing."""
    name = node.input[place]
    neutral = {"Add": 0, "Sub": 0, "Mul": 1, "Div": 1, "And": 1}.get(node.op_type)
    if node.op_type == "Where" and place == 0:
        return 1 if out.is_always(name, 1) else 2 if out.is_always(name, 0) else None
    if neutral is None or not out.is_always(name, neutral) or (node.op_type in ("Sub", "Div") and place == 0):
        return None
    return 1 - place


def _transpose(out: Writer, node: Any, operands: Sequence[Parts | str | None]) -> Parts:
    parts = _parts(operands)
    order = next((list(entry.ints) for entry in node.attribute if entry.name == "perm"), None)
    order = order or list(reversed(range(len(parts.shape))))
    names = [out.emit(node, [name]) for name in parts.names]
    return parts.of(names, order.index(parts.axis), out.shape(node.output[0]))


def _reshape(out: Writer, node: Any, operands: Sequence[Parts | str | None]) -> Parts:
    """Reshape, Unsqueeze, Squeeze, Flatten: the rows stay one dimension, with as much in front of it as before."""
    parts, shape = _parts(operands), out.shape(node.output[0])
    before, rows = math.prod(parts.shape[: parts.axis]), sum(parts.sizes)
    axis = next((a for a, size in enumerate(shape) if size == rows and math.prod(shape[:a]) == before), None)
    if axis is None:
        raise _refusal(node, f"mixes the rows of the past: {list(parts.shape)} to {list(shape)}")
    names = [
        out.new("Reshape", [name, out.constant(np.array([*shape[:axis], size, *shape[axis + 1 :]], np.int64))])
        for name, size in zip(parts.names, parts.sizes, strict=True)
    ]
    return parts.of(names, axis, shape)


def _expand(out: Writer, node: Any, operands: Sequence[Parts | str | None]) -> Parts:
    parts, shape = _parts(operands), out.shape(node.output[0])
    axis = len(shape) - (len(parts.shape) - parts.axis)
    if shape[axis] != sum(parts.sizes):
        raise _refusal(node, "expands the rows of the past")
    names = [
        out.new("Expand", [name, out.constant(np.array([*shape[:axis], size, *shape[axis + 1 :]], np.int64))])
        for name, size in zip(parts.names, parts.sizes, strict=True)
    ]
    return parts.of(names, axis, shape)


def _each(out: Writer, node: Any, operands: Sequence[Parts | str | None]) -> Parts:
    """Operators that leave the dimension of the rows as it is (Pad, Slice of others, norms over the last)."""
    parts, shape = _parts(operands), out.shape(node.output[0])
    if len(shape) != len(parts.shape) or shape[parts.axis] != sum(parts.sizes):
        raise _refusal(node, f"does not keep the rows of the past: {list(parts.shape)} to {list(shape)}")
    if not isinstance(operands[0], Parts) or any(isinstance(one, Parts) for one in operands[1:]):
        raise _refusal(node, "takes the past for a parameter")
    others = ["" if one is None else out.plain(name) for one, name in zip(operands[1:], node.input[1:], strict=True)]
    return parts.of([out.emit(node, [name, *others]) for name in parts.names], parts.axis, shape)


def _slice(out: Writer, node: Any, operands: Sequence[Parts | str | None]) -> Parts:
    parts, shape = _parts(operands), out.shape(node.output[0])
    if shape == parts.shape:
        return parts
    axes = out.value(node.input[3]) if len(node.input) > 3 and node.input[3] else None
    touched = range(len(parts.shape)) if axes is None else [int(axis) % len(parts.shape) for axis in axes.reshape(-1)]
    if parts.axis in touched:
        raise _refusal(node, "takes a piece of the past")
    return _each(out, node, operands)


def _gather(out: Writer, node: Any, operands: Sequence[Parts | str | None]) -> Parts:
    parts, shape = _parts(operands), out.shape(node.output[0])
    axis = next((int(entry.i) for entry in node.attribute if entry.name == "axis"), 0) % len(parts.shape)
    if axis == parts.axis or not isinstance(operands[0], Parts):
        raise _refusal(node, "picks rows of the past")
    moved = parts.axis + (len(shape) - len(parts.shape) if axis < parts.axis else 0)
    return parts.of([out.emit(node, [name, out.plain(node.input[1])]) for name in parts.names], moved, shape)


def _concat(out: Writer, node: Any, operands: Sequence[Parts | str | None]) -> Parts:
    """New rows behind a past; or pieces of the same rows beside each other."""
    first, shape = _parts(operands), out.shape(node.output[0])
    axis = next(int(entry.i) for entry in node.attribute if entry.name == "axis") % len(shape)
    if axis != first.axis:
        if not all(isinstance(one, Parts) and one.sizes == first.sizes and one.axis == first.axis for one in operands):
            raise _refusal(node, "joins the past with something that has no rows of it")
        joined = [out.emit(node, [one.names[number] for one in operands if isinstance(one, Parts)])
                  for number in range(len(first.names))]  # fmt: skip
        return first.of(joined, first.axis, shape)
    names: list[str] = []
    sizes: list[int] = []
    masks: list[str | None] = []
    for name, one in zip(node.input, operands, strict=True):
        if isinstance(one, Parts):
            names, sizes, masks = [*names, *one.names], [*sizes, *one.sizes], [*masks, *one.masks]
        else:
            names, sizes, masks = [*names, out.plain(name)], [*sizes, out.shape(name)[axis]], [*masks, None]
    return Parts(tuple(names), tuple(sizes), tuple(masks), axis, shape)


def _matmul(out: Writer, node: Any, operands: Sequence[Parts | str | None]) -> Parts | str:
    shape = out.shape(node.output[0])
    one, other = operands
    if isinstance(one, Parts) and isinstance(other, Parts):
        if one.axis != len(one.shape) - 1 or other.axis != len(other.shape) - 2 or one.sizes != other.sizes:
            raise _refusal(node, "multiplies two pasts that do not belong together")
        pairs = zip(one.names, other.names, strict=True)
        products = [out.emit(node, [a, b]) for a, b in pairs]
        total = products[0]
        for product in products[1:]:
            total = out.new("Add", [total, product])
        return total
    parts = _parts(operands)
    back = len(parts.shape) - parts.axis
    if back == (1 if isinstance(one, Parts) else 2):
        raise _refusal(node, "sums over the past with weights that know nothing of it")
    if back > 2:
        raise _refusal(node, "has the past for a batch")
    names = [
        out.emit(node, [name, out.plain(node.input[1])] if isinstance(one, Parts) else [out.plain(node.input[0]), name])
        for name in parts.names
    ]
    return parts.of(names, len(shape) - back, shape)


def _softmax(out: Writer, node: Any, operands: Sequence[Parts | str | None]) -> Parts:
    parts = _parts(operands)
    rank = len(parts.shape)
    axis = next((int(entry.i) for entry in node.attribute if entry.name == "axis"), -1) % rank
    if axis != parts.axis:
        return _each(out, node, operands)
    if axis != rank - 1:
        raise _refusal(node, "runs over the past, but not over the last dimension")
    scores = []
    for name, mask, size in zip(parts.names, parts.masks, parts.sizes, strict=True):
        if mask is None:
            scores.append(name)
            continue
        shape = np.array([1] * (rank - 1) + [size], np.int64)
        added = mask if rank == _MASK_RANK else out.new("Reshape", [mask, out.constant(shape)])
        scores.append(out.new("Add", [name, added]))
    if len(scores) == 1:
        return parts.of([out.emit(node, scores)], axis, parts.shape)
    weights = out.emit(node, [out.new("Concat", scores, axis=axis)])
    names, start = [], 0
    for size in parts.sizes:
        bounds = [out.constant(np.array([number], np.int64)) for number in (start, start + size, axis)]
        names.append(out.new("Slice", [weights, *bounds]))
        start += size
    return parts.of(names, axis, parts.shape)


_EACH = ("Pad", "LayerNormalization", "LogSoftmax")
_BY_NUMBER = ELEMENTWISE | IDENTITIES | QUANTISERS | {"Cast"}

HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(_BY_NUMBER, elementwise),
    **dict.fromkeys(_EACH, _each),
    **dict.fromkeys(VIEWS, _reshape),
    "Transpose": _transpose,
    "Expand": _expand,
    "Slice": _slice,
    "Gather": _gather,
    "Concat": _concat,
    "MatMul": _matmul,
    "Softmax": _softmax,
}
