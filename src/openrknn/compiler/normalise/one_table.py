"""A step of one token: its Softmax and its activations share one lookup table, which is loaded once.

Loading a table ends a job. A layer of a decoder needs the exponential twice and a gelu once, so a step would be a job
for nearly each of them, and starting one costs more than the small task of a `Gate` does. With more pixels the
activation in the convolution before it is faster.
"""

from __future__ import annotations

from dataclasses import replace

from openrknn.compiler.forms import Activation, Gate, Softmax
from openrknn.compiler.functions import FUNCTIONS, shared_name
from openrknn.compiler.ir import Graph

_ALTERNATIONS = 2
"""Softmax and activations: below that nothing is loaded twice."""


def share_one_table(graph: Graph) -> None:
    """If all that a graph looks up is the exponential of a Softmax, and one function of single pixels."""
    exponentials = [op for op in graph.ops if op.type == "Softmax"]
    users = [op for op in graph.ops if isinstance(op.form, Activation) and op.form.function in FUNCTIONS]
    functions = {op.get(Activation).function for op in users}
    if len(functions) != 1 or min(len(exponentials), len(users)) < _ALTERNATIONS:
        return
    function = functions.pop()
    if shared_name(function) not in FUNCTIONS or any(op.type != "Activation" for op in users):
        return
    if any(set(graph.shape(op.output)[2:]) - {1} for op in users):
        return
    for op in users:
        op.become("Gate", Gate(function), op.inputs[:1])
    for op in exponentials:
        op.form = replace(op.get(Softmax), shares_table=function)
