"""Operators that are left for the CPU, and unsupported ones."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from openrknn.compiler.errors import UnsupportedOperatorError
from openrknn.compiler.forms import Activation
from openrknn.compiler.ir import Graph, Op
from openrknn.compiler.normalise.common import replace_op
from openrknn.compiler.normalise.integers import as_cpu, is_computable
from openrknn.compiler.normalise.layouts import derived_from
from openrknn.compiler.operators import CPU_ANY, CPU_OPERATORS, OPERATORS
from openrknn.compiler.passes import is_ready

_SHOWN = 5
_MOST_CHANNELS = 8192
_FEW_PRODUCTS = 1 << 20


def finish(graph: Graph) -> None:
    """Mark operators of the CPU; one error that names everything that has no home."""
    homeless: list[Op] = []
    _one_item(graph)
    made = graph.producers()
    for name in graph.outputs:
        if name not in made and name not in graph.inputs:
            text = f"output {name!r} is a constant; leave it out with --outputs"
            raise UnsupportedOperatorError(text, operators=[name])
    for op in graph.ops:
        if op.type == "Cpu":
            continue
        placed = op.type in CPU_ANY or (op.type == "Concat" and op.form is not None)
        if op.inputs and op.inputs[0] in graph.constants and not placed:
            op.attributes["reason"] = "it works on a constant that cannot be computed beforehand"
            homeless.append(op)
            continue
        batch = _first_dimension(graph, op)
        if batch > 1 and (is_ready(op) and op.type != "Reshape"):
            op.attributes["reason"] = f"its first dimension is {batch}, and the NPU computes one item at a time"
            homeless.append(op)
            continue
        if not is_ready(op) and not _takes_cpu(graph, op):
            homeless.append(op)
    if homeless:
        shown = "; ".join(f"{op.type} {op.name!r}{_why(op)}" for op in homeless[:_SHOWN])
        more = f"; and {len(homeless) - _SHOWN} more" if len(homeless) > _SHOWN else ""
        cut = ", ".join(dict.fromkeys(name for op in homeless for name in graph.activations(op)))
        raise UnsupportedOperatorError(
            f"cannot be compiled: {shown}{more}. Cut the model before them (--outputs {cut.split(', ')[0]}; a "
            "detector: --outputs heads), or export it without them; docs/operators.md lists what is supported",
            operators=[name for op in homeless for name in (op.name, op.output)],
        )


def _takes_cpu(graph: Graph, op: Op) -> bool:
    """Whether the CPU does it; then it is marked so."""
    has_constants = any(name in graph.constants for name in op.inputs)
    if op.type in CPU_ANY and is_computable(graph, op):
        as_cpu(op)
    elif op.type in CPU_OPERATORS and has_constants and not _is_small_product(graph, op):
        op.attributes.setdefault("reason", "with a constant operand in this form")
    elif op.type in CPU_OPERATORS and len(op.outputs) == 1:
        as_cpu(op)
    return op.type == "Cpu"


def _one_item(graph: Graph) -> None:
    """Functions of single numbers do not care what the first dimension is."""
    for op in list(graph.ops):
        shape = graph.shape(op.output)
        if not isinstance(op.form, Activation) or op.form.function == "prelu":
            continue
        if len(shape) < 2 or shape[0] == 1 or shape[0] > _MOST_CHANNELS:
            continue
        cube = (1, shape[0], 1, prod(shape[1:]))
        source, target = (graph.add_value(f"{op.output}_{name}", cube) for name in ("item", "made"))
        graph.derived[source] = derived_from(graph, op.inputs[0], lambda values: values)
        graph.derived[target] = derived_from(graph, op.output, lambda values: values)
        inner = replace(op, inputs=[source], outputs=[target])
        replace_op(
            graph, op, Op("Reshape", source, [op.inputs[0]], [source], {}, op.fused), inner,
            Op("Reshape", f"{op.name}_end", [target], [op.output], {}, op.fused),
        )  # fmt: skip


def _is_small_product(graph: Graph, op: Op) -> bool:
    """A MatMul of shapes that no convolution has, with so few products that the CPU does them in a millisecond."""
    return op.type == "MatMul" and prod(graph.shape(op.output)) * graph.shape(op.inputs[0])[-1] <= _FEW_PRODUCTS


def _first_dimension(graph: Graph, op: Op) -> int:
    """The largest one of what the operator reads and makes; a list of numbers is one item."""
    shapes = [graph.shape(name) for name in (*graph.activations(op), *op.outputs)]
    return max((shape[0] for shape in shapes if len(shape) > 1), default=1)


def _why(op: Op) -> str:
    reason = op.attributes.get("reason") or (OPERATORS[op.type].hint if op.type in OPERATORS else "")
    return f" ({reason})" if reason else ""
