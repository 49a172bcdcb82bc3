"""QuantizeLinear and DequantizeLinear between activations: they say which scale a value has, and go."""

from __future__ import annotations

import numpy as np

from openrknn.compiler.errors import ModelError
from openrknn.compiler.ir import Graph, Op, Quantization
from openrknn.compiler.normalise.common import alias, constant
from openrknn.compiler.operators import IDENTITIES, VIEWS

_MOVES = VIEWS | IDENTITIES | {"Transpose"}


def take_quantization(graph: Graph, *, calibrated: bool) -> None:
    """Fill `graph.given` from the pairs in the model."""
    pairs = [op for op in graph.ops if op.type in {"QuantizeLinear", "DequantizeLinear"}]
    if pairs and not calibrated:
        raise ModelError(
            "the model is quantised already (QuantizeLinear, DequantizeLinear); compile it as int8, without --fp16"
        )
    for op in pairs:
        if op.type != "QuantizeLinear":
            continue
        numbers = _numbers(graph, op)
        readers = [entry for entry in graph.ops if op.output in entry.inputs]
        if any(entry.type != "DequantizeLinear" for entry in readers) or op.output in graph.outputs:
            raise ModelError(f"QuantizeLinear {op.name!r} is read by something else than DequantizeLinear",
                             operators=(op.name, op.output))
        source = op.inputs[0]
        graph.given.setdefault(source, numbers)
        for reader in readers:
            name = reader.output
            reader.inputs = [source]
            alias(graph, reader, source)
            if name in graph.outputs and name in graph.values and source not in {*graph.inputs, *graph.outputs}:
                graph.given[name] = graph.given.pop(source)
                source = name
        graph.ops.remove(op)
    left = next((op for op in graph.ops if op.type == "DequantizeLinear"), None)
    if left is not None:
        raise ModelError(f"DequantizeLinear {left.name!r} reads something that no QuantizeLinear made",
                         operators=(left.name, left.output))
    graph.prune()
    _follow_moves(graph)


def _follow_moves(graph: Graph) -> None:
    """What is only moved has the same steps before and behind: later passes keep the one value or the other."""
    graph.sort()
    readers = graph.readers()
    moves = [op for op in graph.ops if op.type in _MOVES and op.inputs[0] in graph.values]
    for op in reversed(moves):
        if op.output in graph.given and len(readers[op.inputs[0]]) == 1 and op.inputs[0] not in graph.outputs:
            graph.given.setdefault(op.inputs[0], graph.given[op.output])
    for op in moves:
        if op.inputs[0] in graph.given:
            graph.given.setdefault(op.output, graph.given[op.inputs[0]])


def _numbers(graph: Graph, op: Op) -> Quantization:
    scale, zero = constant(graph, op, 1), constant(graph, op, 2)
    if scale is None or scale.size != 1 or (zero is not None and zero.size != 1):
        raise ModelError(f"QuantizeLinear {op.name!r} has more than one scale; activations have one in the NPU",
                         operators=(op.name, op.output))
    point = int(zero.reshape(-1)[0]) if zero is not None else 0
    is_unsigned = zero is None or zero.dtype == np.uint8
    if zero is not None and zero.dtype not in (np.int8, np.uint8):
        raise ModelError(f"QuantizeLinear {op.name!r} makes {zero.dtype}; between layers the NPU has int8 and uint8. "
                         "Quantise it to one of these, or give the float model: fp16 is the way to more digits",
                         operators=(op.name, op.output))
    return Quantization(float(scale.reshape(-1)[0]), point - 128 if is_unsigned else point)
