"""Whether a compiled model gives the float model's answers: the same class, the same scores above one half.

Decibels say how much of a signal is left, not whether anybody would notice. Where an output decides something, the
decision itself is compared: the place of the largest number behind a Softmax, the side of 0.5 behind a Sigmoid (of 0
before it).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from openrknn.compiler.ir import Array, Graph
from openrknn.compiler.operators import IDENTITIES, QUANTISERS, VIEWS
from openrknn.onnxgraph import makers_of

_CARRIES_ON = VIEWS | IDENTITIES | QUANTISERS | {"Cast"}
"""Operators that keep what a number means and which one is last."""
_ENOUGH = 0.999
"""Of many decisions a few lie on the line, where float itself is a matter of rounding."""


@dataclass(frozen=True, slots=True)
class Answer:
    """How many decisions are the float model's."""

    what: str
    same: int
    of: int

    @property
    def is_same(self) -> bool:
        return self.same >= _ENOUGH * self.of

    def __str__(self) -> str:
        return f"{self.what} the same in all of {self.of}" if self.same == self.of else (
            f"{self.what} the same in {self.same} of {self.of}"
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Decision:
    """What an output decides: the largest along an axis, or on which side of a limit numbers are."""

    axis: int | None
    limit: float = 0.0

    def compare(self, given: Sequence[Array], wanted: Sequence[Array]) -> Answer:
        """The decisions of several runs; of limits only those count that either model takes."""
        same = of = 0
        for ours, theirs in zip(given, wanted, strict=True):
            mine = ours.reshape(theirs.shape)
            if self.axis is not None:
                equal = mine.argmax(self.axis) == theirs.argmax(self.axis)
                same, of = same + int(np.count_nonzero(equal)), of + equal.size
                continue
            above, wished = mine >= self.limit, theirs >= self.limit
            either = above | wished
            same, of = same + int(np.count_nonzero(above & wished)), of + int(np.count_nonzero(either))
        what = "the largest" if self.axis is not None else f"scores above {self.limit:g}"
        return Answer(what, same, of)


def decision_of(source: Any, graph: Graph, output: str) -> Decision | None:
    """What the ONNX model decides with an output, if that can be read from its last operators."""
    if output in graph.logits:
        return Decision(None, 0.0)
    if output in graph.scores:
        return Decision(None, 0.5)
    makers = makers_of(source.graph.node)
    node, is_last = makers.get(output), False
    while node is not None and node.op_type in _CARRIES_ON and node.input:
        is_last = True
        node = makers.get(node.input[0])
    if node is None:
        return None
    if node.op_type == "Sigmoid":
        return Decision(None, 0.5)
    if node.op_type not in {"Softmax", "LogSoftmax"}:
        return None
    axis = next((entry.i for entry in node.attribute if entry.name == "axis"), -1)
    return Decision(-1 if is_last else axis)
