"""Quotients in fp16, without a table and without the CPU: a guess from the bits of the divisor, and Newton's method.

    x / sqrt(v)     r = 1 / sqrt(v):  r (1.5 - 0.5 v r^2), twice
    x / v           i = 4 / v:        i (2 - v i / 4), three times, where the DPU does not divide by channels

Quotients by the root of a mean of squares have a form of their own (`squares`).
"""

from __future__ import annotations

import numpy as np

from openrknn.compiler.forms import Binary, Estimate
from openrknn.compiler.ir import Graph, Op
from openrknn.compiler.normalise.common import replace_op, sole_reader
from openrknn.compiler.normalise.squares import INVERSE_STEPS, NEWTON_STEPS, least_size


def find_roots(graph: Graph) -> None:
    """Quotients whose divisor is a square root without another reader."""
    makers = graph.producers()
    for op in list(graph.ops):
        if op.type != "Div" or op.inputs[0] in graph.constants:
            continue
        root = makers.get(op.inputs[1])
        if root is None or root.type != "Sqrt" or sole_reader(graph, root.output) is not op:
            continue
        if len(graph.shape(op.output)) <= 4 and root.inputs[0] not in graph.inputs:
            steps = _Steps(graph, op, root.inputs[0])
            now = steps.guess("RootEstimate")
            for _ in range(NEWTON_STEPS):
                error = steps.product(steps.product(root.inputs[0], now, gain=-0.5), now)
                now = steps.product(error, now, offset=1.5)
            steps.replace(now, root.name)
    graph.prune()


def divide_channels(graph: Graph) -> None:
    """Quotients whose divisor has one number for each channel, or one for all."""
    for op in list(graph.ops):
        if op.type != "Div" or len(graph.activations(op)) != 2 or graph.shape(op.output)[:1] != (1,):
            continue
        shape, small = graph.shape(op.output), graph.shape(op.inputs[1])
        if not 3 <= len(shape) <= 4 or len(small) != len(shape) or small == shape or small[2:] != (1,) * len(small[2:]):
            continue
        if graph.shape(op.inputs[0]) != shape or not _is_positive(graph, op.inputs[1]):
            continue
        steps = _Steps(graph, op, op.inputs[1])
        now = steps.guess("InverseEstimate", least=least_size(0.0))
        for number in range(INVERSE_STEPS):
            gain = 0.25 if number == INVERSE_STEPS - 1 else 1.0
            now = steps.product(steps.product(op.inputs[1], now, gain=-0.25), now, gain=gain, offset=2.0)
        steps.replace(now)


def _is_positive(graph: Graph, name: str) -> bool:
    """Whether a value is a root, an exponential or the like, or one plus a positive number: the guess has no sign."""
    op = graph.producer(name)
    while op is not None and op.type in {"Reshape", "Add", "Max"}:
        numbers = [graph.constants[entry] for entry in op.inputs if entry in graph.constants]
        if op.type != "Reshape" and (len(numbers) != 1 or np.any(numbers[0] < 0)):
            return False
        if op.type == "Max" and np.all(numbers[0] > 0):
            return True
        op = graph.producer(graph.activations(op)[0])
    if op is not None and op.type == "Binary":  # of `squares`
        return op.get(Binary).method == "div"
    return op is not None and op.type in {"Sqrt", "Exp", "Sigmoid", "Relu", "Softplus"}


class _Steps:
    """The operators in the place of a quotient."""

    def __init__(self, graph: Graph, op: Op, divisor: str) -> None:
        self.graph, self.op, self.divisor = graph, op, divisor
        self.steps: list[Op] = []

    def guess(self, kind: str, least: float = 0.0) -> str:
        made = self._value()
        self.steps.append(Op(kind, made, [self.divisor], [made], {}, (self.op.name,), Estimate(least)))
        return made

    def product(self, left: str, right: str, *, gain: float = 1.0, offset: float = 0.0) -> str:
        """(left + offset) * gain * right."""
        made = self._value()
        form = Binary("mul", "pixel", gain, offset)
        self.steps.append(Op("Binary", made, [left, right], [made], {}, (self.op.name,), form))
        return made

    def replace(self, inverse: str, *fused: str) -> None:
        op = self.op
        last = Op("Mul", op.name, [op.inputs[0], inverse], [op.output], {}, (*op.fused, *fused))
        replace_op(self.graph, op, *self.steps, last)

    def _value(self) -> str:
        made = self.graph.add_value(f"{self.op.output}_newton", self.graph.shape(self.divisor))
        self.graph.derived[made] = (self.divisor, lambda values: 1 / np.sqrt(np.maximum(values, 1e-6)))
        return made
