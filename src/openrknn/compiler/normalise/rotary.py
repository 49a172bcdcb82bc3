"""Channels of a projection that are cut apart, turned, multiplied and joined again: a few projections and products.

Rotary embeddings do that, over a part of each head, with halves or with pairs, and some exporters fill the heads up
with zeros besides. Written as moves that is a dozen operators on the CPU for each of query and key. All of it says
where each number comes from and what it is multiplied by, so numbers are followed one by one:

    y[t, c] = sum over j of  x[t, pick_j[c]] * sign_j[c] * factor_j[t, c]       x = a W + b

is for each j a projection with the columns of W in another order (exactly: nothing is added up), times a constant.
Where only one token goes through, as in a decoder's step, the factors may also be numbers that the model gets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from openrknn.compiler.ir import Array, Graph, Op
from openrknn.compiler.normalise.common import constant
from openrknn.compiler.normalise.moves import windows_of
from openrknn.compiler.operators import VIEWS

_MOST_NUMBERS = 4 << 20
_MOST_TERMS = 3
_WORTH = {"Concat", "Pad", "Neg"}
"""What costs more than an address in the NPU's memory."""


@dataclass(frozen=True, slots=True)
class _Term:
    """One summand, in the shape of the value: whence each number comes (-1: zero), and what it is multiplied by."""

    index: Array
    factor: Array
    by: str = ""
    """An activation that it is multiplied by as well, and which number of it (-1: none)."""
    at: Array | None = None

    def moved(self, move: Callable[[Array, float], Array]) -> _Term:
        at = None if self.at is None else move(self.at, -1)
        return _Term(move(self.index, -1), move(self.factor, 0), self.by, at)


@dataclass(frozen=True, slots=True)
class _Rotation:
    """A value that is made of one projection's results."""

    source: str
    terms: tuple[_Term, ...]
    is_worth: bool = False


def find_rotary(graph: Graph) -> None:
    """Rewrite what reads projections through such operators."""
    found: dict[str, _Rotation] = {}
    projections = dict(_projections(graph))
    for op in graph.ops:
        rotation = _of(graph, op, found)
        if rotation is not None and len(op.outputs) == 1:
            found[op.output] = rotation
        elif op.output in projections:
            shape = graph.shape(op.output)
            index = np.arange(np.prod(shape), dtype=np.int64).reshape(shape)
            found[op.output] = _Rotation(op.output, (_Term(index, np.ones(shape, np.float32)),))
    ends = [name for name in found if found[name].is_worth and _is_end(graph, name, found)]
    makers = graph.producers()
    writer = _Writer(graph, projections)
    for name in ends:
        writer.rewrite(makers[name], found[name])
    if ends:
        graph.sort()
        graph.prune()


def _projections(graph: Graph) -> Iterator[tuple[str, tuple[str, Array, Array]]]:
    """[1, T, C] = a W + b: (its name, (a, W, b))."""
    makers = graph.producers()
    for op in graph.ops:
        shape = graph.shape(op.output) if op.output in graph.values else ()
        if len(shape) != 3 or shape[0] != 1 or np.prod(shape) > _MOST_NUMBERS:
            continue
        bias: Array = np.zeros(shape[2], np.float32)
        product: Op | None = op
        if op.type == "Add" and len(graph.activations(op)) == 1:
            bias = graph.constants[next(name for name in op.inputs if name in graph.constants)]
            product = makers.get(graph.activations(op)[0])
        if product is None or product.type != "MatMul" or graph.shape(product.output) != shape:
            continue
        weight = constant(graph, product, 1)
        if weight is None or weight.ndim != 2 or product.inputs[0] in graph.constants or bias.size != shape[2]:
            continue
        if len(graph.shape(product.inputs[0])) == 3:
            yield op.output, (product.inputs[0], weight, bias.reshape(-1))


def _is_end(graph: Graph, name: str, found: dict[str, _Rotation]) -> bool:
    """Whether somebody reads it who is not part of a rotation himself."""
    readers = [op for op in graph.ops if name in op.inputs]
    return name in graph.outputs or any(op.output not in found for op in readers)


# -- following numbers ---------------------------------------------------------------------------------------------


def _of(graph: Graph, op: Op, found: dict[str, _Rotation]) -> _Rotation | None:
    """What an operator makes of rotations; None if it is no such operator."""
    first = found.get(op.inputs[0]) if op.inputs else None
    if op.type in {"Mul", "Div"} and len(op.inputs) == 2:
        return _multiplied(graph, op, found)
    if op.type in {"Add", "Sub"} and len(op.inputs) == 2:
        return _added(graph, op, found)
    if op.type == "Concat":
        return _joined(graph, op, [found.get(name) for name in op.inputs])
    if first is None:
        return None
    move = _move(graph, op)
    if move is None:
        return None
    terms = tuple(term.moved(move) for term in first.terms)
    if op.type == "Neg":
        terms = tuple(replace(term, factor=-term.factor) for term in terms)
    return _Rotation(first.source, terms, first.is_worth or op.type in _WORTH)


def _move(graph: Graph, op: Op) -> Callable[[Array, float], Array] | None:
    """A move as a function of an array and of what fills it up."""
    shape = graph.shape(op.output)
    if op.type in VIEWS:
        return lambda x, _: x.reshape(shape)
    if op.type in {"Neg", "Identity"}:
        return lambda x, _: x
    if op.type == "Transpose":
        order = op.attributes.get("perm") or range(len(shape))[::-1]
        return lambda x, _: x.transpose(order)
    if op.type == "Slice":
        windows = windows_of(graph, op)
        if windows is None or any(step < 1 for _, _, step in windows):
            return None
        parts = tuple(slice(*window) for window in windows)
        return lambda x, _: x[parts]
    if op.type == "Pad":
        pads, fill = constant(graph, op, 1), constant(graph, op, 2)
        given = op.attributes.get("pads") if pads is None else pads.reshape(-1).tolist()
        plain = op.attributes.get("mode", "constant") == "constant" and len(op.inputs) <= 3
        if not plain or given is None or min(given) < 0 or (fill is not None and fill.any()):
            return None
        widths = list(zip(given[: len(given) // 2], given[len(given) // 2 :], strict=True))
        return lambda x, value: np.pad(x, widths, constant_values=value)
    return None


def _multiplied(graph: Graph, op: Op, found: dict[str, _Rotation]) -> _Rotation | None:
    at = next((at for at in (0, 1) if op.inputs[at] in found), None)
    if at is None or (op.type == "Div" and at == 1):
        return None
    mine, other = found[op.inputs[at]], op.inputs[1 - at]
    shape = graph.shape(op.output)
    if graph.shape(op.inputs[at]) != shape:
        return None
    array = graph.constants.get(other)
    if array is not None:
        if array.dtype.kind != "f":
            return None
        factor: Array = np.broadcast_to(array.astype(np.float32), shape)
        factor = 1 / factor if op.type == "Div" else factor
        terms = tuple(replace(term, factor=term.factor * factor) for term in mine.terms)
        return _Rotation(mine.source, terms, mine.is_worth)
    rows = graph.shape(mine.source)[1]
    if rows > 1 or op.type == "Div" or any(term.by for term in mine.terms) or graph.values[other].integer:
        return None
    size = graph.shape(other)
    index = np.broadcast_to(np.arange(np.prod(size), dtype=np.int64).reshape(size), shape)
    terms = tuple(replace(term, by=other, at=np.where(term.index < 0, -1, index)) for term in mine.terms)
    return _Rotation(mine.source, terms, mine.is_worth)


def _added(graph: Graph, op: Op, found: dict[str, _Rotation]) -> _Rotation | None:
    one, two = (found.get(name) for name in op.inputs)
    if one is None or two is None or one.source != two.source:
        return None
    if any(graph.shape(name) != graph.shape(op.output) for name in op.inputs):
        return None
    more = two.terms
    if op.type == "Sub":
        more = tuple(replace(term, factor=-term.factor) for term in more)
    return _compact(_Rotation(one.source, (*one.terms, *more), one.is_worth or two.is_worth))


def _joined(graph: Graph, op: Op, parts: list[_Rotation | None]) -> _Rotation | None:
    shape = graph.shape(op.output)
    known = [part for part in parts if part is not None]
    if not known or len(known) < len(parts) or len({part.source for part in known}) > 1:
        return None
    axis, start = int(op.attributes["axis"]) % len(shape), 0
    terms: list[_Term] = []
    for name, part in zip(op.inputs, known, strict=True):
        size = graph.shape(name)[axis]
        around = partial(_around, axis=axis, before=start, behind=shape[axis] - start - size)
        terms += [term.moved(around) for term in part.terms]
        start += size
    return _compact(_Rotation(known[0].source, tuple(terms), True))


def _around(array: Array, value: float, *, axis: int, before: int, behind: int) -> Array:
    widths = [(before, behind) if at == axis else (0, 0) for at in range(array.ndim)]
    return np.pad(array, widths, constant_values=value)


def _compact(rotation: _Rotation) -> _Rotation | None:
    """Summands that are never there at the same place become one."""
    made: list[_Term] = []
    for term in rotation.terms:
        for at, other in enumerate(made):
            if other.by and term.by and other.by != term.by:
                continue
            mine = term.index >= 0
            if not (mine & (other.index >= 0)).any():
                where = None
                if other.by or term.by:
                    here = np.full(mine.shape, -1) if term.at is None else term.at
                    there = np.full(mine.shape, -1) if other.at is None else other.at
                    where = np.where(mine, here, there)
                made[at] = _Term(
                    np.where(mine, term.index, other.index), np.where(mine, term.factor, other.factor),
                    other.by or term.by, where,
                )  # fmt: skip
                break
        else:
            made.append(term)
    return replace(rotation, terms=tuple(made)) if len(made) <= _MOST_TERMS else None


# -- writing them --------------------------------------------------------------------------------------------------


class _Writer:
    """Makes the operators of a rotation; equal constants and equal projections are made once."""

    def __init__(self, graph: Graph, projections: dict[str, tuple[str, Array, Array]]) -> None:
        self.graph, self.projections = graph, projections
        self._constants: dict[tuple[object, ...], str] = {}
        self._made: dict[tuple[object, ...], str] = {}
        self._now: list[Op] = []
        self._op = Op("", "", [], [])

    def rewrite(self, op: Op, rotation: _Rotation) -> None:
        """Put projections, products and sums in the place of the operator that makes the last value."""
        graph, shape = self.graph, self.graph.shape(op.output)
        rows, width = graph.shape(rotation.source)[1:]
        axis = _axis_of_rows(rotation, shape, rows, width)
        if shape[0] != 1 or axis is None:
            return
        self._now, self._op = [], op
        rest = [size for at, size in enumerate(shape) if at != axis][1:]
        made = ""
        for term in rotation.terms:
            flat = term.moved(lambda x, _: np.moveaxis(x, axis, 1).reshape(rows, -1))
            picks = np.where(flat.index < 0, -1, flat.index % width)
            if (picks != picks[:1]).any():
                return
            part = self._part(rotation.source, picks[0], flat)
            made = self._two("Add", made, part) if made else part
        order = [*range(len(shape))]
        order.insert(axis, order.pop(1))
        turned = self._value("turned", (1, rows, *rest), made, lambda x: x)
        self._now += [
            Op("Reshape", turned, [made], [turned], {}, (op.name,)),
            Op("Transpose", op.name, [turned], [op.output], {"perm": order}, (*op.fused, op.name)),
        ]
        graph.ops[graph.ops.index(op) : graph.ops.index(op) + 1] = self._now

    def _part(self, source: str, picks: Array, flat: _Term) -> str:
        """One summand, [1, T, columns]."""
        still = (flat.factor == flat.factor[:1]).all()
        signs = flat.factor[0] if still else np.ones(len(picks), np.float32)
        made = self._projected(source, picks, np.where(picks < 0, 0, signs))
        if not still:
            made = self._two("Mul", made, self._constant(np.where(picks < 0, 0, flat.factor)[None]))
        if flat.by and flat.at is not None:
            made = self._two("Mul", made, self._chosen(flat.by, flat.at[0]))
        return made

    def _projected(self, source: str, picks: Array, signs: Array) -> str:
        """The projection with other columns."""
        key = (source, picks.tobytes(), signs.tobytes())
        if key not in self._made:
            before, weight, bias = self.projections[source]
            rows = self.graph.shape(source)[1]
            columns = np.ascontiguousarray(weight[:, picks] * signs.astype(weight.dtype))
            made = self._value("picked", (1, rows, len(picks)), source, lambda x: x[..., picks] * signs)
            weights = self.graph.add_constant(f"{made}_weight", columns)
            self._now.append(Op("MatMul", made, [before, weights], [made], {}, (self._op.name,)))
            summand = bias[picks] * signs
            if summand.any():
                made = self._two("Add", made, self._constant(summand.astype(np.float32)))
            self._made[key] = made
        return self._made[key]

    def _chosen(self, name: str, at: Array) -> str:
        """Numbers of an activation, and ones: [1, 1, columns]."""
        key = (name, at.tobytes())
        if key not in self._made:
            size = int(np.prod(self.graph.shape(name)))
            picks = np.zeros((size, len(at)), np.float32)
            picks[at[at >= 0], np.flatnonzero(at >= 0)] = 1
            row = self._value("row", (1, 1, size), name, lambda x: x.reshape(1, 1, -1))
            self._now.append(Op("Reshape", row, [name], [row], {}, (self._op.name,)))
            if np.array_equal(at, np.arange(size)):
                self._made[key] = row
                return row
            made = self._value("chosen", (1, 1, len(at)), row, lambda x: x @ picks)
            self._now.append(Op("MatMul", made, [row, self._constant(picks)], [made], {}, (self._op.name,)))
            if (at < 0).any():
                made = self._two("Add", made, self._constant((at < 0).astype(np.float32)))
            self._made[key] = made
        return self._made[key]

    def _two(self, kind: str, left: str, right: str) -> str:
        """A sum or product; calibration computes it from what is left and right of it."""
        made = self.graph.add_value(f"{self._op.output}_mixed", self.graph.shape(left))
        array = self.graph.constants.get(right)
        combine = np.add if kind == "Add" else np.multiply
        one, other = self.graph.derived.get(left), self.graph.derived.get(right)
        if array is not None:
            self._derive(made, left, lambda x: combine(x, array))
        elif one is not None and other is not None and one[0] == other[0]:  # of the same projection
            first, second = one[1], other[1]
            self.graph.derived[made] = (one[0], lambda x: combine(first(x), second(x)))
        else:
            self.graph.partial[made] = self._op.output
        self._now.append(Op(kind, made, [left, right], [made], {}, (self._op.name,)))
        return made

    def _value(self, name: str, shape: tuple[int, ...], source: str, function: Callable[[Array], Array]) -> str:
        made = self.graph.add_value(f"{self._op.output}_{name}", shape)
        self._derive(made, source, lambda x: function(x).reshape(shape))
        return made

    def _derive(self, made: str, source: str, function: Callable[[Array], Array]) -> None:
        if source in self.graph.partial:  # in the range of the end, too
            self.graph.partial[made] = self._op.output
            return
        before = self.graph.derived.get(source)
        if before is None:
            self.graph.derived[made] = (source, function)
        else:
            root, first = before
            self.graph.derived[made] = (root, lambda x: function(first(x)))

    def _constant(self, array: Array) -> str:
        key = (array.shape, array.dtype.str, array.tobytes())
        if key not in self._constants:
            self._constants[key] = self.graph.add_constant(f"{self._op.output}_factor", array)
        return self._constants[key]


def _axis_of_rows(rotation: _Rotation, shape: tuple[int, ...], rows: int, width: int) -> int | None:
    """The dimension of the value that is the projection's rows."""
    for axis in range(1, len(shape)):
        if shape[axis] != rows:
            continue
        wanted = np.arange(rows).reshape([rows if at == axis else 1 for at in range(len(shape))])
        if all(((term.index < 0) | (term.index // width == wanted)).all() for term in rotation.terms):
            return axis
    return None
