"""What is left for the CPU, and what nobody can do."""

from __future__ import annotations

from openrknn.compiler.errors import UnsupportedOperatorError
from openrknn.compiler.ir import Graph, Op
from openrknn.compiler.operators import CPU_OPERATORS, NPU_OPERATORS

__all__ = ["finish"]

_SHOWN = 5
_WIDEST = 2047
"""Pixels of a row that a convolution reads."""
_MARKS = {
    "Slice": "start", "Concat": "starts", "Conv": "kernel", "ConvTranspose": "kernel", "Pool": "method",
    "Binary": "broadcast", "Activation": "function", "Repeat": "factors",
    "Softmax": "groups", "Product": "heads",
}  # fmt: skip
_OURS = {"Convert", "RootEstimate"}
"""Operators that no model has."""
"""What only a normalised operator has."""


def finish(graph: Graph) -> None:
    """Mark operators of the CPU; one error that names everything that has no home."""
    homeless: list[Op] = []
    made = graph.producers()
    for name in graph.outputs:
        if name not in made and name not in graph.inputs:
            raise UnsupportedOperatorError(f"output {name!r} is a constant; leave it out with --outputs")
    for op in graph.ops:
        if op.type == "Conv" and graph.values[op.inputs[0]].cube[2] > _WIDEST:
            op.attributes["reason"] = f"rows of {graph.values[op.inputs[0]].cube[2]} pixels; the NPU reads {_WIDEST}"
            homeless.append(op)
            continue
        if op.inputs and op.inputs[0] in graph.constants:
            op.attributes["reason"] = "it works on a constant that cannot be computed beforehand"
            homeless.append(op)
            continue
        batch = _first_dimension(graph, op)
        if batch > 1 and (_is_ready(op) and op.type != "Reshape"):
            op.attributes["reason"] = f"its first dimension is {batch}, and the NPU computes one item at a time"
            homeless.append(op)
            continue
        if _is_ready(op):
            continue
        if op.type in CPU_OPERATORS and any(name in graph.constants for name in op.inputs):
            op.attributes.setdefault("reason", "with a constant operand in this form")
            homeless.append(op)
        elif op.type in CPU_OPERATORS and len(op.outputs) == 1:
            op.attributes = {"operator": op.type, **op.attributes}
            op.type = "Cpu"
        else:
            homeless.append(op)
    if homeless:
        shown = "; ".join(f"{op.type} {op.name!r}{_why(op)}" for op in homeless[:_SHOWN])
        more = f"; and {len(homeless) - _SHOWN} more" if len(homeless) > _SHOWN else ""
        cut = ", ".join(dict.fromkeys(name for op in homeless for name in graph.activations(op)))
        raise UnsupportedOperatorError(
            f"cannot be compiled: {shown}{more}. Cut the model before them (--outputs {cut.split(', ')[0]}; a "
            "detector: --outputs heads), or export it without them; docs/operators.md lists what is supported"
        )


def _first_dimension(graph: Graph, op: Op) -> int:
    """The largest one of what the operator reads and makes; a list of numbers is one item."""
    shapes = [graph.shape(name) for name in (*graph.activations(op), *op.outputs)]
    return max((shape[0] for shape in shapes if len(shape) > 1), default=1)


def _is_ready(op: Op) -> bool:
    """Whether the operator is in the form that `lower` has; the same name can stand for a form that nobody has."""
    if op.type in _OURS:
        return True
    if op.type not in NPU_OPERATORS or op.type == "LayerNormalization":
        return False
    return op.type not in _MARKS or _MARKS[op.type] in op.attributes


_HINTS = {
    "ArgMax": "take it in your program, from the scores",
    "ArgMin": "take it in your program",
    "GridSample": "the NPU cannot pick pixels by numbers that it computes",
    "If": "its condition depends on what is fed",
    "LogSoftmax": "the scores before it have the same order",
    "Loop": "how often it runs depends on what is fed",
    "LSTM": "more than 128 steps, a batch, or unusual activations",
    "GRU": "more than 128 steps, a batch, or unusual activations",
    "NonMaxSuppression": "openrknn.vision and your program have it",
    "Resize": "nearest and linear by integer factors are supported",
    "RoiAlign": "the NPU cannot pick pixels by numbers that it computes",
    "TopK": "sort in your program",
}
"""What to do about operators that people meet."""


def _why(op: Op) -> str:
    reason = op.attributes.get("reason") or _HINTS.get(op.type)
    return f" ({reason})" if reason else ""
