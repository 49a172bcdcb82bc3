"""Fewer passes over the scores of attention, which are its largest maps: what can be done in smaller ones, is.

    Product, Softmax           ->  the product gives half of each score: the distance from the maximum is one task
    Softmax, Product (values)  ->  the exponentials times the values, divided by the sums of the exponentials
"""

from __future__ import annotations

from dataclasses import replace

from openrknn.compiler.forms import Product, Softmax
from openrknn.compiler.ir import Graph, Op

_WORTH = 4
"""Scores for each number of the result from which on it is divided: the sums are spread over the result's channels."""
_FEW_ROWS = 16
"""Heads are divided one by one: with fewer rows these small tasks cost more than the scores do."""


def divide_late(graph: Graph) -> None:
    """Behind everything that asks what values mean: those made here have no counterpart in the source."""
    makers, readers = graph.producers(), graph.readers()
    for op in [entry for entry in graph.ops if entry.type == "Softmax" and isinstance(entry.form, Softmax)]:
        form = op.get(Softmax)
        if form.groups > 1 or form.is_bounded:
            continue
        maker = makers.get(op.inputs[0])
        if maker is not None and maker.type == "Product" and readers[maker.output] == [op] and _is_inner(graph, maker):
            product = maker.get(Product)
            maker.form = replace(product, gain=product.gain / 2)
            maker.outputs = op.inputs = [_unnamed(graph, maker.output, "half")]
            op.form = form = replace(form, is_halved=True)
        users = readers[op.output]
        if _is_inner(graph, op) and users and all(_divides(user, op.output) for user in users):
            _, _, height, width = graph.shape(op.output)
            powers = _unnamed(graph, op.output, "powers")
            sums = graph.add_value(f"{op.output}_sums", (1, 1, height, width))
            if op.output in graph.floats:
                graph.floats.add(sums)
            for user in users:
                user.inputs = [powers, user.inputs[1], sums]
                user.form = replace(user.get(Product), is_divided=True)
            op.outputs, op.form = [powers, sums], replace(form, is_late=True)
    graph.prune()


def _is_inner(graph: Graph, op: Op) -> bool:
    return op.output not in graph.outputs


def _divides(user: Op, name: str) -> bool:
    """Whether a product has few numbers for each score, and its left operand's heads as rows."""
    if user.type != "Product" or user.inputs[0] != name or user.inputs[1] == name:
        return False
    product = user.get(Product)
    in_rows = product.left == "rows" or product.heads == 1
    return in_rows and product.rows >= _FEW_ROWS and product.depth >= _WORTH * product.kernels


def _unnamed(graph: Graph, name: str, base: str) -> str:
    made = graph.add_like(f"{name}_{base}", name)
    if name in graph.floats:
        graph.floats.add(made)
    return made
