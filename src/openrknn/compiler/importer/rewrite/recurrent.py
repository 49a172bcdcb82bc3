"""LSTM and GRU, step by step: products with constant weights, sigmoids, tanhs, and sums.

The NPU has nothing that remembers, so the steps are written out. That is fine for the few steps of a keyword spotter or
a line of text; a long sequence would become thousands of tasks, so there is a limit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from openrknn.compiler.importer.rewrite.writer import Writer, attribute
from openrknn.compiler.ir import Array

__all__ = ["RULES"]

_MOST_STEPS = 128


class _Cell:
    """One direction of one layer."""

    def __init__(self, writer: Writer, node: Any, number: int, gates: int) -> None:
        weights = [writer.operand(node, index) for index in (1, 2, 3)]
        assert weights[0] is not None
        assert weights[1] is not None
        self.writer = writer
        self.size = weights[1].shape[-1]
        bias = weights[2]
        both = np.zeros((2, gates * self.size)) if bias is None else bias[number].reshape(2, -1)
        self.input: Array = weights[0][number]
        self.state: Array = weights[1][number]
        self.input_bias, self.state_bias = both[0], both[1]

    def product(self, name: str, weight: Array, bias: Array) -> str:
        return self.writer.add("Gemm", name, self.writer.new(weight), self.writer.new(bias), transB=1)

    def gate(self, name: str, at: int) -> str:
        return self.writer.cut(name, 1, at * self.size, (at + 1) * self.size)


def _lstm_step(cell: _Cell, x: str, h: str, c: str) -> tuple[str, str]:
    """Gates in the order input, output, forget, cell."""
    add = cell.writer.add
    both = np.concatenate([cell.input, cell.state], axis=1)
    joined = add("Concat", x, h, axis=1)
    total = cell.product(joined, both, cell.input_bias + cell.state_bias)
    i, o, f = (add("Sigmoid", cell.gate(total, at)) for at in range(3))
    fresh = add("Mul", i, add("Tanh", cell.gate(total, 3)))
    kept = add("Add", add("Mul", f, c), fresh)
    return add("Mul", o, add("Tanh", kept)), kept


def _gru_step(cell: _Cell, x: str, h: str, *, linear_before_reset: bool) -> str:
    """Gates in the order update, reset, hidden."""
    add, size = cell.writer.add, cell.size
    two, bias = 2 * size, cell.input_bias + cell.state_bias
    joined = add("Concat", x, h, axis=1)
    total = cell.product(joined, np.concatenate([cell.input[:two], cell.state[:two]], axis=1), bias[:two])
    z, r = (add("Sigmoid", cell.gate(total, at)) for at in range(2))
    seen = cell.product(x, cell.input[two:], cell.input_bias[two:])
    if linear_before_reset:
        known = add("Mul", r, cell.product(h, cell.state[two:], cell.state_bias[two:]))
    else:
        known = cell.product(add("Mul", r, h), cell.state[two:], cell.state_bias[two:])
    new = add("Tanh", add("Add", seen, known))
    return add("Add", new, add("Mul", z, add("Sub", h, new)))


def _recurrent(writer: Writer, node: Any) -> None:
    """Up to 128 steps, written out one by one, in both directions."""
    shape = writer.shape(node.input[0])
    gates = 4 if node.op_type == "LSTM" else 3
    if shape is None or len(shape) != 3 or shape[1] != 1 or shape[0] > _MOST_STEPS:
        return
    if any(writer.operand(node, index) is None for index in (1, 2)) or int(attribute(node, "layout", 0)):
        return
    unusual = attribute(node, "activations") not in (None, ["Sigmoid", "Tanh", "Tanh"] * 2, ["Sigmoid", "Tanh", "Tanh"],
                                                     ["Sigmoid", "Tanh"], ["Sigmoid", "Tanh"] * 2)  # fmt: skip
    if unusual or attribute(node, "clip") is not None or (len(node.input) > 7 and node.input[7]):
        return
    length, _, width = shape
    lengths = node.input[4] if len(node.input) > 4 else ""
    if lengths and (writer.constant(lengths) is None or int(writer.facts.constants[lengths].reshape(-1)[0]) != length):
        return
    direction = attribute(node, "direction", "forward")
    count = 2 if direction == "bidirectional" else 1
    # Features become channels once, for all steps; a step is a pixel then.
    turned = writer.transpose(writer.reshape(node.input[0], (1, length, width)), [0, 2, 1])
    rows = [writer.reshape(writer.cut(turned, 2, at, at + 1), (1, width)) for at in range(length)]
    outputs: list[list[str]] = []
    ends: list[tuple[str, str]] = []
    for number in range(count):
        cell = _Cell(writer, node, number, gates)
        h, c = (_start(writer, node, index, number, count, cell.size) for index in (5, 6))
        backwards = direction == "reverse" or number == 1
        made: list[str] = []
        for x in rows[::-1] if backwards else rows:
            if gates == 4:
                h, c = _lstm_step(cell, x, h, c)
            else:
                h = _gru_step(cell, x, h, linear_before_reset=bool(attribute(node, "linear_before_reset", 0)))
            made.append(h)
        outputs.append(made[::-1] if backwards else made)
        ends.append((h, c))
    _finish(writer, node, outputs, ends, (length, count, cell.size))


def _start(writer: Writer, node: Any, index: int, number: int, count: int, size: int) -> str:
    name = node.input[index] if len(node.input) > index else ""
    if not name:
        return writer.new(np.zeros((1, size)))
    part = name if count == 1 else writer.cut(name, 0, number, number + 1)
    return writer.reshape(part, (1, size))


def _finish(
    writer: Writer, node: Any, outputs: list[list[str]], ends: list[tuple[str, str]], size: tuple[int, int, int]
) -> None:
    """The outputs Y, Y_h and Y_c, those that somebody reads."""
    length, count, width = size
    wanted = [bool(name) and (name in writer.facts.readers or name in writer.facts.outputs) for name in node.output]
    if wanted[0]:
        flat = [entry for at in range(length) for entry in (made[at] for made in outputs)]
        joined = flat[0] if len(flat) == 1 else writer.add("Concat", *flat, axis=1)
        writer.reshape(joined, (length, count, 1, width), to=node.output[0])
    for number in (1, 2):
        if len(wanted) > number and wanted[number]:
            last = [pair[number - 1] for pair in ends]
            joined = last[0] if count == 1 else writer.add("Concat", *last, axis=1)
            writer.reshape(joined, (count, 1, width), to=node.output[number])


RULES: dict[str, Callable[[Writer, Any], None]] = {"GRU": _recurrent, "LSTM": _recurrent}
