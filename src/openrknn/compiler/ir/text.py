"""The intermediate form as text, one line per operator: to read, and to compare two stages with `diff`."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

import numpy as np

from openrknn.compiler.ir.graph import Graph, Op

__all__ = ["diff_graphs", "format_graph"]

_SHOWN = 8


def format_graph(graph: Graph) -> str:
    """Inputs, operators with their operands and attributes, outputs; ends with a newline."""
    return "".join(f"{line}\n" for line in _lines(graph))


def diff_graphs(before: Graph, after: Graph) -> str:
    """What changed from one stage to the next, as a unified diff; empty if nothing did."""
    return "\n".join(
        difflib.unified_diff(list(_lines(before)), list(_lines(after)), "before", "after", lineterm="", n=1)
    )


def _lines(graph: Graph) -> Iterator[str]:
    yield f"graph {graph.name}"
    for name in graph.inputs:
        yield f"  input  {_value(graph, name)}"
    for op in graph.ops:
        yield f"  {_op(graph, op)}"
    for name in graph.outputs:
        yield f"  output {_value(graph, name)}"


def _op(graph: Graph, op: Op) -> str:
    results = ", ".join(_value(graph, name) for name in op.outputs)
    operands = ", ".join(_operand(graph, name) for name in op.inputs)
    attributes = "".join(f" {name}={_attribute(value)}" for name, value in sorted(op.attributes.items()))
    return f"{results} = {op.type}({operands}){attributes}"


def _value(graph: Graph, name: str) -> str:
    value = graph.values.get(name)
    if value is None:
        return _operand(graph, name)
    numbers = value.quantization
    kind = f" int8({numbers.scale:.6g}, {numbers.zero_point})" if numbers else ""
    return f"%{name}[{','.join(map(str, value.shape))}]{kind}"


def _operand(graph: Graph, name: str) -> str:
    if name in graph.constants:
        array = graph.constants[name]
        return f"${name}[{','.join(map(str, array.shape))}]"
    return f"%{name}" if name else "_"


def _attribute(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"array{list(value.shape)}"
    if isinstance(value, list | tuple) and len(value) > _SHOWN:
        return f"[{len(value)} entries]"
    return str(list(value)) if isinstance(value, tuple) else str(value)
