"""Masks that are fed: numbers that are added to scores before a Softmax, -1e9 or -inf where a score must not count.

fp16 makes -inf of both, and the distance of -inf from a maximum is no number that the table of the exponential has.
Such an input is bounded once, where it comes in: a score that is 30,000 below the others has the exponential 0 too.
"""

from __future__ import annotations

import numpy as np

from openrknn.compiler.ir import Graph, Op
from openrknn.compiler.operators import MOVES

_LOWEST = -30000.0


def bound_masks(graph: Graph) -> None:
    """Inputs that only move before they are added to what a Softmax reads."""
    makers = graph.producers()
    bounded: dict[str, str] = {}
    for op in [entry for entry in graph.ops if entry.type == "Softmax"]:
        now: Op | None = makers.get(op.inputs[0])
        while now is not None and now.type in {*MOVES, "Add"}:
            if now.type == "Add":
                for at, other in enumerate(now.inputs[::-1]):
                    if other in makers and makers[other].type not in MOVES:  # scores that are computed
                        _bound(graph, makers, now, at, bounded)
            now = next((makers[name] for name in now.inputs if name in makers), None)


def _bound(graph: Graph, makers: dict[str, Op], reader: Op, at: int, bounded: dict[str, str]) -> None:
    """Follow one operand back to an input of the graph, and bound it there."""
    name = reader.inputs[at]
    while name in makers and makers[name].type in MOVES:
        reader, at = makers[name], 0
        name = reader.inputs[0]
    if name not in graph.inputs or graph.values[name].integer:
        return
    if name not in bounded:
        bounded[name] = graph.add_value(f"{name}_bounded", graph.shape(name))
        graph.derived[bounded[name]] = (name, lambda values: np.maximum(values, _LOWEST))
        lowest = graph.add_constant(f"{name}_lowest", np.array(_LOWEST, np.float32))
        graph.ops.insert(0, Op("Max", bounded[name], [name, lowest], [bounded[name]], {}, (bounded[name],)))
    reader.inputs[at] = bounded[name]
