"""Layer normalisations that are spelled out in single operators, as exporters before opset 17 write them."""

from __future__ import annotations

from openrknn.compiler.ir import Graph, Op
from openrknn.compiler.normalise.common import axes_of, replace_op

__all__ = ["find_layer_norms"]


def find_layer_norms(graph: Graph) -> None:
    """They become one operator each, before anything else moves their parts."""
    for op in list(graph.ops):
        _recognise(graph, op)
    graph.prune()


def _recognise(graph: Graph, op: Op) -> None:
    """(x - mean) / sqrt(mean((x - mean) ** 2) + eps) * gamma + beta, as exporters before opset 17 write it."""
    makers = graph.producers()

    def maker(name: str, kind: str) -> Op | None:
        found = makers.get(name)
        return found if found is not None and found.type == kind else None

    def over_last(entry: Op | None) -> bool:
        rank = len(graph.shape(entry.inputs[0])) if entry is not None else 0
        return entry is not None and axes_of(graph, entry, rank) == (rank - 1,)

    def constant_of(entry: Op) -> tuple[str, str] | None:
        """(activation, constant) of an operator with one of each."""
        names = [name for name in entry.inputs if name in graph.constants]
        others = [name for name in entry.inputs if name not in graph.constants]
        return (others[0], names[0]) if len(names) == len(others) == 1 else None

    shifted = constant_of(op) if op.type == "Add" else None
    product = maker(shifted[0], "Mul") if shifted else None
    scaled = constant_of(product) if product is not None else None
    quotient = maker(scaled[0], "Div") if scaled else None
    difference = maker(quotient.inputs[0], "Sub") if quotient is not None else None
    root = maker(quotient.inputs[1], "Sqrt") if quotient is not None else None
    padded = maker(root.inputs[0], "Add") if root is not None else None
    eps = constant_of(padded) if padded is not None else None
    variance = maker(eps[0], "ReduceMean") if eps else None
    power = makers.get(variance.inputs[0]) if variance is not None else None
    if shifted is None or scaled is None or eps is None or difference is None or power is None:
        return
    mean = maker(difference.inputs[1], "ReduceMean")
    is_square = power.inputs[0] == difference.output and (
        (power.type == "Pow" and power.inputs[1] in graph.constants and graph.constants[power.inputs[1]].item() == 2)
        or (power.type == "Mul" and power.inputs[1] == difference.output)
    )
    if not is_square or not over_last(mean) or not over_last(variance) or mean is None:
        return
    if mean.inputs[0] != difference.inputs[0] or graph.constants[eps[1]].size != 1:
        return
    attributes = {"axis": -1, "epsilon": float(graph.constants[eps[1]].reshape(-1)[0])}
    made = Op("LayerNormalization", op.name, [difference.inputs[0], scaled[1], shifted[1]], [op.output], attributes,
              (op.name,))  # fmt: skip
    replace_op(graph, op, made)
