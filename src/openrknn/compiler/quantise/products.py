"""Products of int8 in an fp16 model: what they read is rounded before them, and their results are fp16 again.

Sums leave the NPU as fp16, so nothing but the inputs and the weights of such a product is rounded to 8 bits. That an
int8 product writes fp16 has not been seen on a board (docs/llm-internals.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from openrknn.compiler.errors import OptionError
from openrknn.compiler.forms import Binary, Conv
from openrknn.compiler.ir import Graph, Op, Quantization
from openrknn.compiler.quantise.groups import moves
from openrknn.compiler.quantise.precision import Choice, find_operators
from openrknn.compiler.quantise.ranges import Range, quantization_for

_PAIR = 2
"""Atoms of fp16 for one of int8: channels come in whole pairs."""


def narrow_products(graph: Graph, ranges: Mapping[str, Range], atom: int) -> None:
    """Make these products int8, in place; `ranges` are those of what they read, `atom` is that of fp16."""
    known: dict[tuple[str, Quantization], str] = {}
    for name, (low, high) in ranges.items():
        outputs = find_operators(graph, [name])
        found = [op for op in graph.ops if op.output in outputs and op.type == "Conv" and not moves(op)]
        if not found:
            raise OptionError(f"int8_products: {name!r} is no product with constant weights")
        for op in found:
            _narrow(graph, op, quantization_for(low, high), known, _PAIR * atom)
    graph.sort()


def choices_of(graph: Graph) -> tuple[Choice, ...]:
    """The precision of each operator of such a graph."""
    return tuple(
        Choice(op.name, op.output, "int8", "named in int8_products")
        if op.type == "Conv" and graph.values[op.inputs[0]].quantization is not None
        else Choice(op.name, op.output, "fp16", "fp16 was asked for")
        for op in graph.ops
    )


def _narrow(graph: Graph, op: Op, made: Quantization, known: dict[tuple[str, Quantization], str], room: int) -> None:
    source = op.inputs[0]
    if graph.shape(source)[1] % room or graph.values[source].quantization is not None:
        raise OptionError(
            f"int8_products: {op.name!r} reads {graph.shape(source)[1]} channels; int8 takes multiples of {room}, once"
        )
    if (source, made) not in known:
        stored = known[source, made] = graph.add_like(f"{source}_int8", source)
        graph.values[stored].quantization = made
        graph.derived[stored] = graph.derived.get(source, (source, lambda values: values))
        graph.ops.append(Op("Convert", stored, [source], [stored], {}, op.fused))
    op.inputs[0] = known[source, made]
    if len(op.inputs) > 3:  # the pipe of integers adds nothing of fp16
        _add_behind(graph, op)


def _add_behind(graph: Graph, op: Op) -> None:
    """What the product's task added becomes an operator of its own."""
    addend, output, conv = op.inputs.pop(), op.output, op.get(Conv)
    product = graph.add_like(f"{output}_product", output)
    op.outputs, op.form = [product], replace(conv, post_relu=False)
    form = Binary("add", "pixel", post_relu=conv.post_relu)
    graph.ops.append(Op("Binary", output, [product, addend], [output], {}, op.fused, form))
