"""Draws a graph and its inputs from a number."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx

from . import maps, values
from .graph import MOST_ELEMENTS, Array, Graph, Value

Maker = Callable[[Graph, Value], Value]
ON_MAPS: dict[Maker, int] = {
    maps.convolution: 14,
    maps.deconvolution: 3,
    maps.pool: 5,
    maps.whole: 1,
    maps.mean: 1,
    maps.resize: 3,
    maps.depth: 2,
    maps.normalise: 2,
    values.activation: 9,
    values.arithmetic: 8,
    values.join: 4,
    values.cut: 3,
    values.pad: 2,
    values.rearrange: 3,
    values.product: 1,
    values.share: 2,
}
"""How often each operator is drawn for a map: convolutions and activations most, as in networks."""
ON_ROWS: dict[Maker, int] = {
    maps.mean: 1,
    values.activation: 4,
    values.arithmetic: 3,
    values.join: 2,
    values.cut: 2,
    values.rearrange: 4,
    values.product: 5,
    values.share: 3,
}
"""The same for values of rank 2 and 3."""
ACTIVATED = 0.5
"""The share of convolutions that an activation follows at once: the pair is one task."""


class Drawn:
    """A graph, whether it is for int8, and which inputs are pictures."""

    def __init__(self, number: int, seed: int) -> None:
        self.graph = Graph(seed * 1_000_003 + number)
        self.quantised = number % 5 < 3
        self.seed = seed * 1_000_003 + number
        begin(self.graph)
        operators = self.graph.integer(1, 8)
        current = self.graph.one_of(self.graph.inputs)
        for _ in range(operators):
            if len(self.graph.nodes) >= operators:
                break
            current = step(self.graph, current)
        self.use_all()
        self.model: onnx.ModelProto = self.graph.model()

    def use_all(self) -> None:
        """An input that nothing reads gets an operator, mostly one of its own; the converter drops the others."""
        for value in self.graph.inputs:
            if value.name not in self.graph.used:
                step(self.graph, value)

    def inputs(self, number: int) -> list[Array]:
        """Numbers for the inputs: bytes for pictures, normal numbers for the others."""
        chance = np.random.default_rng([self.seed, number])
        return [
            chance.integers(0, 256, value.shape).astype(np.float32)
            if self.graph.pictures[value.name]
            else chance.normal(0, 1, value.shape).astype(np.float32)
            for value in self.graph.inputs
        ]


def begin(graph: Graph) -> None:
    """One to three inputs: pictures, maps, rows."""
    style = graph.chance.random()
    rows, columns = graph.integer(1, 32), graph.integer(1, 32)
    if graph.often(0.5):
        rows = columns = graph.integer(4, 28)
    if style < 0.3:
        graph.input([1, graph.one_of([1, 3, 3, 3, 4]), rows, columns], picture=graph.often(0.4))
    elif style < 0.85:
        graph.input([1, graph.one_of(maps.CHANNELS), rows, columns])
    elif style < 0.95:
        graph.input([1, graph.integer(1, 48), graph.integer(1, 96)])
    else:
        graph.input([1, graph.integer(1, 512)])
    first = graph.inputs[0]
    for _ in range(graph.one_of([0, 0, 0, 0, 1, 1, 2])):
        shape = list(first.shape)
        if len(shape) == 4 and graph.often(0.3):
            shape[1] = graph.one_of(maps.CHANNELS)
        elif len(shape) == 4 and graph.often(0.15):
            shape[2:] = [1, 1]
        graph.input(shape)


def step(graph: Graph, current: Value) -> Value:
    """One operator on the current value or, now and then, on an earlier one: branches and residuals."""
    if graph.often(0.2):
        current = graph.one_of(graph.values)
    table = ON_MAPS if current.is_map else ON_ROWS
    weights = np.array(list(table.values()), float)
    maker = list(table)[int(graph.chance.choice(len(weights), p=weights / weights.sum()))]
    made = maker(graph, current)
    if maker is maps.convolution and graph.often(ACTIVATED):
        made = values.activation(graph, made)
    return made if made.size <= MOST_ELEMENTS else maps.whole(graph, made)
