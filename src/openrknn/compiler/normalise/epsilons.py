"""Small numbers that keep a logarithm or a quotient from infinity, and that fp16 would make 0.

    log(max(x, 1e-12)), x / (sqrt(v) + 1e-12), clip(x, 1e-10, 1)

fp16 has nothing between 0 and 2^-24. Rounded to 0 such a number no longer does what it is there for; rounded up it
does, and is at most 2^-24 off, which is what every other number of the model is off anyway.
"""

from __future__ import annotations

import numpy as np

from openrknn.compiler.ir import Graph, Op
from openrknn.compiler.normalise.common import replace_op

_SMALLEST = 2.0**-24
_SMALL = 2.0**-10
"""Below that the lookup table of a Clip, whose steps are even, is not exact enough."""
_LOWER_BOUND, _UPPER_BOUND = 1, 2


def raise_epsilons(graph: Graph) -> None:
    """Constants of Max, Add and Clip that are positive and would be 0."""
    for op in list(graph.ops):
        if op.type in {"Max", "Add"}:
            for at, name in enumerate(op.inputs):
                if 0 < _number(graph, name) < _SMALLEST:
                    array = np.full_like(graph.constants[name], _SMALLEST)
                    op.inputs[at] = graph.add_constant(f"{name}_floor", array)
        elif op.type == "Clip":
            _clip(graph, op)


def _clip(graph: Graph, op: Op) -> None:
    """max(min(max(x, 0), high), low): each of them is exact."""
    low, high = (
        _number(graph, op.inputs[at]) if len(op.inputs) > at and op.inputs[at] else op.attributes.get(name, usual)
        for at, name, usual in ((_LOWER_BOUND, "min", -np.inf), (_UPPER_BOUND, "max", np.inf))
    )
    if not (0 < low < _SMALL and high > _SMALL):
        return
    positive = graph.add_derived(f"{op.output}_positive", graph.shape(op.output), op.output)
    bounds = [graph.add_constant(f"{op.output}_{name}", np.array(value, np.float32)) for name, value in
              (("zero", 0.0), ("high", high), ("low", max(low, _SMALLEST)))]  # fmt: skip
    replace_op(
        graph, op, Op("Clip", positive, [op.inputs[0], *bounds[:2]], [positive], {}, (op.name,)),
        Op("Max", op.name, [positive, bounds[2]], [op.output], {}, (op.name,)),
    )  # fmt: skip


def _number(graph: Graph, name: str) -> float:
    """A constant of one number; NaN, which is in no range, for everything else."""
    array = graph.constants.get(name)
    if array is None or array.dtype.kind != "f" or array.size != 1:
        return float("nan")
    return float(array.reshape(-1)[0])
