"""Operators that exporters write and the later stages do not know, said with operators that they know.

ONNX in, ONNX out: the float model that calibration runs has the same values as the graph that is compiled. Each rule is
a function that gets one node and writes others in its place (`Writer`); where it does not apply it writes nothing.
Rules stand in one small file per family, and in `RULES` below by operator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from openrknn.compiler.identity import TooManyError
from openrknn.compiler.importer.rewrite import (
    control,
    einsum,
    frames,
    functions,
    moves,
    normalisation,
    quantised,
    recurrent,
    reductions,
    resize,
    slices,
    windows,
)  # fmt: skip
from openrknn.compiler.importer.rewrite.writer import Facts, Writer

__all__ = ["FOREIGN_RULES", "RULES", "rewrite"]

Rule = Callable[[Writer, Any], None]

RULES: Mapping[str, Rule] = MappingProxyType(
    {
        **control.RULES,
        **einsum.RULES,
        **functions.RULES,
        **moves.RULES,
        **normalisation.RULES,
        **quantised.RULES,
        **recurrent.RULES,
        **reductions.RULES,
        **resize.RULES,
        **slices.RULES,
        **windows.RULES,
        **frames.RULES,  # these fall back to rules above
    }
)
"""Operator type, with its domain in front where it is not ONNX's own -> the rule."""

FOREIGN_RULES: Mapping[str, Rule] = MappingProxyType(
    {kind: rule for kind, rule in RULES.items() if "." in kind}
    | control.RULES
    | quantised.STATIC_RULES
    | quantised.FLOAT_RULES
)
"""What makes standard ONNX in float of a graph: other domains' operators, branches that are decided, layers between
stored numbers, layers that quantise as they run."""


_FLOATS_ONLY = {"AveragePool", "Conv", "Gemm", "MatMul", "ReduceMean", "Resize"}
"""Ways of the NPU, which has no whole numbers: those stay with the CPU."""


def rewrite(
    model: Any, constants: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]], rules: Mapping[str, Rule] = RULES
) -> bool:
    """Apply every rule to every node once, in place; whether anything changed."""
    facts = Facts(model, constants, shapes)
    nodes: list[Any] = []
    changed = False
    for node in model.graph.node:
        rule = rules.get(node.op_type if node.domain in {"", "ai.onnx"} else f"{node.domain}.{node.op_type}")
        writer = Writer(facts, node)
        if rule is not None:
            try:
                rule(writer, node)
            except TooManyError:  # a later stage may have another way, and the CPU moves any number
                writer = Writer(facts, node)
        if writer.is_done and any(made.op_type in _FLOATS_ONLY for made in writer.nodes) and facts.is_whole(node):
            writer = Writer(facts, node)
        if writer.is_done:
            changed = True
            nodes.extend(writer.nodes)
        else:
            nodes.append(node)
    if changed:
        del model.graph.node[:]
        model.graph.node.extend(nodes)
        model.graph.initializer.extend(facts.added)
        del model.graph.value_info[:]
    return changed
