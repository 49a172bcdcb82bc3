"""Values that a quantised model says nothing about: those inside an operator that the NPU computes in steps.

They have no scale, and without calibration data none can be chosen, so they are fp16, and so is what reads them; int8
is made of the results right behind, with the scales that the model does state.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import numpy as np

from openrknn.compiler.ir import Array, Graph, Op
from openrknn.compiler.quantise.ranges import Range

_STRENGTHS = (1.0, 0.3, 0.1)


def noise_for(graph: Graph, ranges: Mapping[str, Range]) -> Iterator[dict[str, Array]]:
    """Strong and weak inputs: how far the tables of functions in fp16 have to reach, and how near to 0."""
    random = np.random.default_rng(0)
    for strength in _STRENGTHS:
        feed: dict[str, Array] = {}
        for name in graph.inputs:
            low, high = ranges.get(name, (-1.0, 1.0))
            feed[name] = strength * random.uniform(low, high, graph.shape(name)).astype(np.float32)
        yield feed


def leave_float(graph: Graph, unstated: Collection[str], ranges: dict[str, Range]) -> None:
    """Note them as fp16, with what reads them, and a border to int8 behind."""
    touched = [op for op in graph.ops if set(op.outputs).union(op.inputs).intersection(unstated)]
    chosen = [op for op in touched if op.output not in graph.floats]  # what is fp16 in every model has its border
    graph.floats |= {op.output for op in chosen}
    names = set(graph.floats)
    for op in chosen:
        name = op.output
        others = [user for user in graph.ops if name in user.inputs and user.output not in names]
        if name in unstated or not (others or name in graph.outputs):
            continue
        if name in graph.outputs:
            inner = graph.add_value(f"{name}_fp16", graph.shape(name))
            graph.floats.discard(name)
            graph.floats.add(inner)
            graph.replace_uses(name, inner, [user for user in graph.ops if user not in others])
            op.outputs = [inner, *op.outputs[1:]]
            source, stored = inner, name
        else:
            source, stored = name, graph.add_value(f"{name}_int8", graph.shape(name))
            graph.replace_uses(name, stored, others)
        ranges[source] = ranges[stored] = ranges[name]
        graph.ops.append(Op("Convert", stored, [source], [stored], {}, op.fused))
    graph.sort()


def fine_means(graph: Graph, ranges: Mapping[str, Range]) -> set[str]:
    """Means on the way to a mean whose steps are finer than those of what it is the mean of.

    In steps of the source they would lose what the result shows: the mean of noise is far smaller than noise.
    """
    makers, found = graph.producers(), set()
    for op in graph.ops:
        low, high = ranges.get(op.output, (0.0, 0.0))
        chain = []
        step = op
        while step.type == "Conv" and step.origin == "Mean" and step.inputs[0] in makers:
            step = makers[step.inputs[0]]
            chain.append(step)
        parts = [entry for entry in chain if entry.origin == "Mean" and entry.output in graph.derived]
        if not parts or op.output not in ranges:
            continue
        source = ranges.get(parts[-1].inputs[0])
        if source is not None and high - low < source[1] - source[0]:
            found |= {entry.output for entry in parts}
    return found
