"""LSTM, GRU and RNN, step by step: products with constant weights, sigmoids, tanhs, and sums.

The NPU has nothing that remembers, so the steps are written out. What the inputs contribute is one product for all
steps; a step is a 1x1 convolution of the state [1, H, 1, items] with weights that all steps share, and a few operators
of the DPU. A long sequence would become thousands of tasks, so there is a limit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from openrknn.compiler.importer.rewrite.writer import Writer, attribute
from openrknn.compiler.ir import Array
from openrknn.compiler.operators import RECURRENT

_MOST_STEPS = 512
_GATES = {"GRU": 3, "LSTM": 4, "RNN": 1}
_USUAL = {"GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh"), "RNN": ("Tanh",)}
_FUNCTIONS = {"Sigmoid", "Tanh", "Relu", "Softplus", "Softsign"}
_LENGTHS, _STATE, _MEMORY, _PEEPHOLES = 4, 5, 6, 7


class _Size(NamedTuple):
    steps: int
    items: int
    inputs: int
    hidden: int
    directions: int


class _Cell:
    """One direction of one layer: weights that all steps share, and what the inputs contribute to each."""

    def __init__(self, writer: Writer, node: Any, number: int, size: _Size, rows: str) -> None:
        weights = [writer.operand(node, index) for index in (1, 2, 3)]
        assert weights[0] is not None
        assert weights[1] is not None
        gates = _GATES[node.op_type]
        both = np.zeros((2, gates * size.hidden)) if weights[2] is None else weights[2][number].reshape(2, -1)
        self.writer, self.size, self.kind = writer, size, node.op_type
        self.functions = _functions(node)[number]
        self.linear_before_reset = bool(attribute(node, "linear_before_reset", 0))
        self.state: Array = weights[1][number]
        self.state_bias = both[1]
        product = writer.add("MatMul", rows, writer.new(weights[0][number].T))
        summed = writer.add("Add", product, writer.new(both[0]))
        turned = writer.transpose(summed, [0, 2, 1])
        self.seen = writer.reshape(turned, (1, gates * size.hidden, 1, size.steps * size.items))
        self._kept: dict[tuple[int, int], tuple[str, str]] = {}

    def input(self, step: int) -> str:
        """What the inputs of a step contribute to all gates."""
        start = step * self.size.items
        return self.writer.cut(self.seen, 3, start, start + self.size.items)

    def product(self, state: str, first: int, last: int) -> str:
        """The state's share of some gates."""
        span = slice(first * self.size.hidden, last * self.size.hidden)
        if (first, last) not in self._kept:
            weight = self.state[span][:, :, None, None]
            self._kept[first, last] = self.writer.new(weight), self.writer.new(self.state_bias[span])
        return self.writer.add("Conv", state, *self._kept[first, last], kernel_shape=[1, 1])

    def gates(self, name: str, first: int, last: int) -> str:
        return self.writer.cut(name, 1, first * self.size.hidden, last * self.size.hidden)


def _lstm_step(cell: _Cell, step: int, h: str, c: str) -> tuple[str, str]:
    """Gates in the order input, output, forget, cell."""
    add, (gate, inner, outer) = cell.writer.add, cell.functions
    total = add("Add", cell.product(h, 0, 4), cell.input(step))
    open_ = add(gate, cell.gates(total, 0, 3))
    fresh = add("Mul", cell.gates(open_, 0, 1), add(inner, cell.gates(total, 3, 4)))
    kept = add("Add", add("Mul", cell.gates(open_, 2, 3), c), fresh)
    return add("Mul", cell.gates(open_, 1, 2), add(outer, kept)), kept


def _gru_step(cell: _Cell, step: int, h: str, c: str) -> tuple[str, str]:
    """Gates in the order update, reset, hidden."""
    add, (gate, inner) = cell.writer.add, cell.functions
    seen = cell.input(step)
    both = add(gate, add("Add", cell.product(h, 0, 2), cell.gates(seen, 0, 2)))
    z, r = cell.gates(both, 0, 1), cell.gates(both, 1, 2)
    is_linear = cell.linear_before_reset
    known = add("Mul", cell.product(h, 2, 3), r) if is_linear else cell.product(add("Mul", r, h), 2, 3)
    new = add(inner, add("Add", known, cell.gates(seen, 2, 3)))
    return add("Add", new, add("Mul", z, add("Sub", h, new))), c


def _rnn_step(cell: _Cell, step: int, h: str, c: str) -> tuple[str, str]:
    """One function of both products."""
    add = cell.writer.add
    return add(cell.functions[0], add("Add", cell.product(h, 0, 1), cell.input(step))), c


_STEPS = {"GRU": _gru_step, "LSTM": _lstm_step, "RNN": _rnn_step}


def _functions(node: Any) -> list[tuple[str, ...]]:
    """The activations of each direction."""
    usual = _USUAL[node.op_type]
    given = attribute(node, "activations")
    names = [str(name, "utf-8") if isinstance(name, bytes) else str(name) for name in given or (*usual, *usual)]
    return [tuple(names[: len(usual)]), tuple(names[len(usual) : 2 * len(usual)])]


def _size(writer: Writer, node: Any) -> _Size | None:
    """None where steps, weights or options are not what can be written out."""
    shape, weight = writer.shape(node.input[0]), writer.operand(node, 1)
    state = writer.operand(node, 2)
    bias = node.input[3] if len(node.input) > 3 else ""
    if shape is None or len(shape) != 3 or weight is None or state is None or (bias and writer.constant(bias) is None):
        return None
    steps, items = (shape[1], shape[0]) if int(attribute(node, "layout", 0)) else shape[:2]
    lengths = node.input[_LENGTHS] if len(node.input) > _LENGTHS else ""
    if lengths and (writer.constant(lengths) is None or bool((writer.facts.constants[lengths] != steps).any())):
        return None
    unusual = any(name not in _FUNCTIONS for names in _functions(node) for name in names)
    has_peepholes = len(node.input) > _PEEPHOLES and bool(node.input[_PEEPHOLES])
    if unusual or has_peepholes or attribute(node, "clip") is not None or int(attribute(node, "input_forget", 0)):
        return None
    return None if steps > _MOST_STEPS else _Size(steps, items, shape[2], state.shape[-1], len(weight))


def _recurrent(writer: Writer, node: Any) -> None:
    """Up to 512 steps, written out one by one with shared weights, in both directions; states in and out."""
    size = _size(writer, node)
    if size is None:
        return
    by_items = bool(int(attribute(node, "layout", 0)))
    source = writer.transpose(node.input[0], [1, 0, 2]) if by_items and size.items > 1 else node.input[0]
    rows = writer.reshape(source, (1, size.steps * size.items, size.inputs))
    outputs: list[list[str]] = []
    ends: list[tuple[str, str]] = []
    for number in range(size.directions):
        cell = _Cell(writer, node, number, size, rows)
        h, c = (_start(writer, node, index, number, size, by_items=by_items) for index in (_STATE, _MEMORY))
        backwards = attribute(node, "direction", "forward") == "reverse" or number == 1
        made: list[str] = []
        for step in range(size.steps)[::-1] if backwards else range(size.steps):
            h, c = _STEPS[node.op_type](cell, step, h, c)
            made.append(h)
        outputs.append(made[::-1] if backwards else made)
        ends.append((h, c))
    _finish(writer, node, outputs, ends, size, by_items=by_items)


def _start(writer: Writer, node: Any, index: int, number: int, size: _Size, *, by_items: bool) -> str:
    """The state before the first step as [1, H, 1, items]."""
    name = node.input[index] if len(node.input) > index else ""
    shape = (1, size.hidden, 1, size.items)
    if not name:
        return writer.new(np.zeros(shape))
    part = name if size.directions == 1 else writer.cut(name, int(by_items), number, number + 1)
    if size.items == 1:
        return writer.reshape(part, shape)
    turned = writer.transpose(writer.reshape(part, (1, size.items, size.hidden)), [0, 2, 1])
    return writer.reshape(turned, shape)


def _finish(
    writer: Writer, node: Any, outputs: list[list[str]], ends: list[tuple[str, str]], size: _Size, *, by_items: bool
) -> None:
    """The outputs Y, Y_h and Y_c, those that somebody reads."""
    wanted = [bool(name) and (name in writer.facts.readers or name in writer.facts.outputs) for name in node.output]
    if wanted[0]:
        _sequence(writer, outputs, size, node.output[0], by_items=by_items)
    for number in (1, 2):
        if len(wanted) > number and wanted[number]:
            last = [pair[number - 1] for pair in ends]
            _stacked(writer, last, (size.directions,), size, [1, 0, 2] if by_items else None, node.output[number])


def _sequence(writer: Writer, outputs: list[list[str]], size: _Size, to: str, *, by_items: bool) -> None:
    """States [1, H, 1, items] of all steps as [steps, directions, items, H].

    Steps are pixels of a row, so that what reads them is one product for all of them: as channels they would be
    a matrix of steps x steps blocks.
    """
    rows = [made[0] if len(made) == 1 else writer.add("Concat", *made, axis=3) for made in outputs]
    joined = rows[0] if len(rows) == 1 else writer.add("Concat", *rows, axis=1)
    channels = size.directions * size.hidden
    flat = writer.reshape(joined, (1, channels, size.steps * size.items))
    turned = writer.transpose(flat, [0, 2, 1])
    if size.directions == 1 and not by_items:
        writer.reshape(turned, (size.steps, 1, size.items, size.hidden), to=to)
        return
    if size.items == 1:
        shape = (1, size.steps, size.directions) if by_items else (size.steps, size.directions, 1)
        writer.reshape(turned, (*shape, size.hidden), to=to)
        return
    parts = writer.reshape(turned, (size.steps, size.items, size.directions, size.hidden))
    writer.transpose(parts, [1, 0, 2, 3] if by_items else [0, 2, 1, 3], to=to)


def _stacked(
    writer: Writer, parts: Sequence[str], ahead: tuple[int, ...], size: _Size, order: list[int] | None, to: str
) -> None:
    """States [1, H, 1, items] in a row, as [*ahead, items, H], then in another order if one is asked for."""
    joined = parts[0] if len(parts) == 1 else writer.add("Concat", *parts, axis=1)
    whole = (*ahead, size.items, size.hidden)
    if size.items > 1:
        joined = writer.reshape(joined, (len(parts), size.hidden, size.items))
        joined = writer.transpose(joined, [0, 2, 1])
    if order is None:
        writer.reshape(joined, whole, to=to)
    else:
        writer.transpose(writer.reshape(joined, whole), order, to=to)


RULES: dict[str, Callable[[Writer, Any], None]] = dict.fromkeys(RECURRENT, _recurrent)
