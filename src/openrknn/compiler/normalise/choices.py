"""Choices between a value and a number, by a mask of integers: sums and products instead of an operator of the CPU.

    where(mask, 0, x)                                        x * where(mask, 0, 1)
    where(mask, c, x)                                        x * where(mask, 0, 1) + where(mask, c, 0)
    where(mask, c, x), c below all that fp16 adds up to, before a Softmax:           x + where(mask, c, 0)

What is left of the choice has the shape of the mask, is made of integers alone (the length of the past, a padding
mask), and so is computed once before the first job of the NPU. A mask that is computed from floats is left: such a
choice may guard against values that are no numbers, which 0 does not remove.
"""

from __future__ import annotations

import numpy as np

from openrknn.compiler.ir import Graph, Op
from openrknn.compiler.normalise.common import replace_op
from openrknn.compiler.operators import MOVES

_OPERANDS = 3
_FAR_BELOW = -1e4
"""No score is near it."""
_LOWEST = -30000.0
"""fp16 holds it, with a score added."""
_LARGEST = 1e4
"""Numbers that are chosen elsewhere: fp16 holds them with three digits."""
_SPREADS = {"Expand", "Cast"}


def find_choices(graph: Graph) -> None:
    """Before integers are placed: what is left of a choice reads a mask, and is the CPU's."""
    made: dict[tuple[str, float, float], str] = {}
    for op in [entry for entry in graph.ops if entry.type == "Where" and len(entry.inputs) == _OPERANDS]:
        for at in (1, 2):
            number, kept = graph.constants.get(op.inputs[at]), op.inputs[_OPERANDS - at]
            if number is None or number.size != 1 or kept not in graph.values or graph.values[kept].integer:
                continue
            if graph.shape(kept) == graph.shape(op.output) and _is_of_integers(graph, op.inputs[0]):
                _Choice(graph, op, made, is_filled_if=at == 1).replace(kept, float(number.reshape(-1)[0]))
                break
    graph.prune()


class _Choice:
    """One operator; `made` is what was made of masks for others."""

    def __init__(
        self, graph: Graph, op: Op, made: dict[tuple[str, float, float], str], *, is_filled_if: bool
    ) -> None:
        self.graph, self.op, self.made, self.is_filled_if = graph, op, made, is_filled_if
        self.steps: list[Op] = []

    def replace(self, kept: str, fill: float) -> None:
        graph, op = self.graph, self.op
        if fill <= _FAR_BELOW and _feeds_softmax(graph, op.output):
            self._last("Add", kept, self._numbers(max(fill, _LOWEST), 0.0))
        elif fill == 0:
            self._last("Mul", kept, self._numbers(0.0, 1.0))
        elif np.isfinite(fill) and abs(fill) <= _LARGEST:
            rest = graph.add_value(f"{op.output}_rest", graph.shape(op.output))
            self.steps.append(Op("Mul", rest, [kept, self._numbers(0.0, 1.0)], [rest], {}, (op.name,)))
            self._last("Add", rest, self._numbers(fill, 0.0))

    def _last(self, kind: str, left: str, right: str) -> None:
        op = self.op
        self.steps.append(Op(kind, op.name, [left, right], [op.output], {}, (*op.fused, op.name)))
        replace_op(self.graph, op, *self.steps)

    def _numbers(self, filled: float, kept: float) -> str:
        """One number where the mask fills, another where it keeps."""
        graph, mask = self.graph, _narrow(self.graph, self.op.inputs[0])
        key = (mask, filled, kept) if self.is_filled_if else (mask, kept, filled)
        if key not in self.made:
            name = graph.add_value(f"{mask}_numbers", graph.shape(mask))
            sides = [graph.add_constant(f"{name}_side", np.array(side, np.float32)) for side in key[1:]]
            self.steps.append(Op("Where", name, [mask, *sides], [name], {}, (self.op.name,)))
            self.made[key] = name
        return self.made[key]


def _narrow(graph: Graph, mask: str) -> str:
    """The mask before it was spread: products and sums spread it themselves."""
    makers = graph.producers()
    while mask in makers and makers[mask].type in _SPREADS and makers[mask].inputs[0] in graph.values:
        source = graph.values[makers[mask].inputs[0]]
        if source.integer != graph.values[mask].integer or len(source.shape) > len(graph.shape(mask)):
            break
        mask = source.name
    return mask


def _is_of_integers(graph: Graph, mask: str) -> bool:
    """Whether nothing but integers went into a mask."""
    makers, waiting, seen = graph.producers(), [mask], set[str]()
    while waiting:
        name = waiting.pop()
        if name in seen or name not in graph.values:
            continue
        seen.add(name)
        if not graph.values[name].integer:
            return False
        if name in makers:
            waiting += makers[name].inputs
    return mask in graph.values


def _feeds_softmax(graph: Graph, name: str) -> bool:
    """Whether only a Softmax reads a value, moves in between left aside."""
    readers = graph.readers()
    waiting, found = [name], False
    while waiting:
        now = waiting.pop()
        if now in graph.outputs or not readers.get(now):
            return False
        for op in readers[now]:
            if op.type in MOVES:
                waiting.append(op.output)
            elif op.type == "Softmax":
                found = True
            else:
                return False
    return found
