"""Stage 5, lower: each operator of the normalised graph becomes a step with tasks; one small file per kind."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from openrknn.compiler.errors import about
from openrknn.compiler.formats import Format
from openrknn.compiler.functions import FUNCTIONS, function_for
from openrknn.compiler.ir import Graph, Op, Value
from openrknn.compiler.legalise import legalise, picture_inputs
from openrknn.compiler.lower.bits import lower_estimate
from openrknn.compiler.lower.context import Lowering, Options
from openrknn.compiler.lower.convert import lower_convert
from openrknn.compiler.lower.convolution import lower_convolution
from openrknn.compiler.lower.cpu import lower_cpu, lower_reshape
from openrknn.compiler.lower.elementwise import copy_task, lower_activation, lower_binary, lower_repeat
from openrknn.compiler.lower.pooling import lower_pool
from openrknn.compiler.lower.product import lower_product
from openrknn.compiler.lower.schedule import schedule
from openrknn.compiler.lower.softmax import lower_softmax, softmax_table
from openrknn.compiler.lower.tensors import make_tensors
from openrknn.compiler.lower.turn import lower_turn
from openrknn.compiler.lower.views import place_views
from openrknn.compiler.program import Program, Tensor
from openrknn.compiler.quantise.statistics import Statistics
from openrknn.compiler.targets import Target
from openrknn.container.parts import Kind

__all__ = ["Lowering", "Options", "lower"]

_LOWER: Mapping[str, Callable[[Lowering, Op], None]] = {
    "Activation": lower_activation,
    "Binary": lower_binary,
    "Conv": lower_convolution,
    "ConvTranspose": lower_convolution,
    "Convert": lower_convert,
    "Cpu": lower_cpu,
    "InverseEstimate": lower_estimate,
    "Pool": lower_pool,
    "Product": lower_product,
    "Repeat": lower_repeat,
    "Reshape": lower_reshape,
    "RootEstimate": lower_estimate,
    "Softmax": lower_softmax,
    "Turn": lower_turn,
}


def lower(
    graph: Graph, form: Format, options: Options, statistics: Mapping[str, Statistics] | None, target: Target
) -> Lowering:
    """The program of a normalised (and, for int8, quantised) graph. Steps are in execution order."""
    legalise(graph, form, target)
    program = Program(graph.name, form, list(graph.inputs), list(graph.outputs), target)
    seen = dict(statistics or {})
    for op in graph.ops:
        if op.type == "Convert" and op.inputs[0] in seen:
            seen[op.output] = seen[op.inputs[0]]
    low = Lowering(graph, program, options, seen)
    _choose_tables(low)
    schedule(low)
    make_tensors(low, picture_inputs(graph, form))
    copies = place_views(low)
    for op in graph.ops:
        low.current = low.format_of(op.output)
        with about(op.name, *op.fused, op.output):
            _lower_one(low, op, copies)
    low.current = None
    return low


def _lower_one(low: Lowering, op: Op, copies: Mapping[str, list[str]]) -> None:
    if op.type == "Concat":
        _copy_parts(low, op, copies[op.output])
    elif op.type == "Slice":
        if op.attributes.get("copied"):
            _copy_slice(low, op)
    elif op.type != "Reshape" or low.tensor(op.output).parent is None:
        _LOWER[op.type](low, op)


def _choose_tables(low: Lowering) -> None:
    """One table per function: it reaches as far as the farthest of its users needs."""
    users: dict[tuple[Any, ...], list[tuple[dict[str, Any], float, float]]] = {}
    makers = low.graph.producers()
    for op in low.graph.ops:
        if op.type == "Softmax":
            low.functions[id(op.attributes)] = softmax_table()
        attributes = op.attributes if op.type == "Activation" else op.attributes.get("activation")
        if not attributes or attributes["function"] not in FUNCTIONS:
            continue
        limit = FUNCTIONS[attributes["function"]][1]
        reach = limit
        if op.type == "Activation":
            name = op.inputs[0]
            while name in makers and makers[name].type == "Convert":  # a border: what is behind it was measured
                name = makers[name].inputs[0]
            seen = low.statistics.get(name)
            quantization = low.quantization(name)
            if quantization is not None:
                reach = max(abs(quantization.low), abs(quantization.high))
            elif seen is not None:
                reach = max(abs(seen.low), abs(seen.high))
            elif not np.isfinite(limit):
                reach = 16.0
        key = (attributes["function"], attributes.get("alpha"), attributes.get("beta"))
        users.setdefault(key, []).append((attributes, reach, _ceiling(low, op)))
    for entries in users.values():
        reach, ceiling = max(entry[1] for entry in entries), max(entry[2] for entry in entries)
        for attributes, _, _ in entries:
            made = function_for(attributes, reach, power_of_two=low.has_floats, ceiling=ceiling)
            low.functions[id(attributes)] = made


def _ceiling(low: Lowering, op: Op) -> float:
    """How large the results are that a model with scales of its own has behind a function; twice that for safety."""
    seen, stated = low.statistics.get(op.output), low.graph.given.get(op.output)
    if not low.graph.given or op.type != "Activation" or (seen is None and stated is None):
        return math.inf
    ends = (stated.low, stated.high) if stated is not None else (seen.low, seen.high) if seen is not None else ()
    return 2 * max(map(abs, ends))


def _copy_parts(low: Lowering, op: Op, parts: list[str]) -> None:
    step = None
    for number, name in enumerate(op.inputs):
        if name not in parts:
            continue
        if step is None:
            step = low.step(op, "Concat")
        window = f"{op.output}_part{number}"
        source = name
        if name in low.graph.constants:
            cube = Value("", low.graph.shape(name)).cube
            source = low.feature_constant(name, cube, low.quantization(op.output))
            step.inputs.append(source)
        low.program.tensors[window] = _window(low, window, source, op.output, op, op.attributes["starts"][number])
        low.add_rows(step, copy_task(low, source, window))


def _copy_slice(low: Lowering, op: Op) -> None:
    """An output of the model is a buffer of its own, and so is what the CPU reads, or another map holds."""
    window = f"{op.output}_window"
    low.program.tensors[window] = _window(low, window, op.output, op.inputs[0], op, op.attributes["start"])
    low.add_rows(low.step(op, "Slice"), copy_task(low, window, op.output))


def _window(low: Lowering, name: str, like: str, parent: str, op: Op, start: int) -> Tensor:
    tensor = replace(low.tensor(like), name=name, data=None)
    root = low.tensor(parent)
    tensor.parent, tensor.pitch = parent, root.pitch
    tensor.kind = Kind.INTERNAL
    atoms = start if op.attributes.get("along") == "pixels" else start // low.format.atom * root.pitch
    tensor.parent_offset = atoms * low.target.atom_bytes
    return tensor
