"""Stage 5, lower: each operator of the normalised graph becomes a step with tasks; one small file per kind."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from openrknn.compiler.errors import about
from openrknn.compiler.formats import Format
from openrknn.compiler.forms import Activation, Concat, Gate, Slice, Softmax
from openrknn.compiler.functions import FUNCTIONS, STEEP, farthest, function_for
from openrknn.compiler.ir import Graph, Op, Value
from openrknn.compiler.legalise import legalise, picture_inputs
from openrknn.compiler.lower.bits import lower_estimate
from openrknn.compiler.lower.block_turn import lower_block_turn
from openrknn.compiler.lower.cached import (
    lower_masks,
    lower_scores,
    lower_values,
)
from openrknn.compiler.lower.context import Lowering, Options
from openrknn.compiler.lower.convert import lower_convert
from openrknn.compiler.lower.convolution import lower_convolution
from openrknn.compiler.lower.cpu import lower_cpu, lower_reshape
from openrknn.compiler.lower.elementwise import copy_task, lower_activation, lower_binary, lower_repeat
from openrknn.compiler.lower.gate import lower_gate
from openrknn.compiler.lower.narrow import lower_narrow
from openrknn.compiler.lower.pooling import lower_pool
from openrknn.compiler.lower.product import lower_product
from openrknn.compiler.lower.schedule import schedule
from openrknn.compiler.lower.softmax import lower_softmax, shared_table, softmax_table
from openrknn.compiler.lower.tensors import make_tensors
from openrknn.compiler.lower.turn import lower_turn
from openrknn.compiler.lower.unit_norm import lower_unit_norm
from openrknn.compiler.lower.views import place_views
from openrknn.compiler.program import Program, Tensor
from openrknn.compiler.quantise.statistics import Statistics
from openrknn.compiler.targets import Target
from openrknn.container.parts import Kind

__all__ = ["Lowering", "Options", "lower"]

_LOWER: Mapping[str, Callable[[Lowering, Op], None]] = {
    "Activation": lower_activation,
    "Binary": lower_binary,
    "BlockTurn": lower_block_turn,
    "CachedScores": lower_scores,
    "CachedValues": lower_values,
    "Conv": lower_convolution,
    "ConvTranspose": lower_convolution,
    "Convert": lower_convert,
    "Cpu": lower_cpu,
    "Gate": lower_gate,
    "InverseEstimate": lower_estimate,
    "MaskScores": lower_masks,
    "NarrowProduct": lower_narrow,
    "Pool": lower_pool,
    "Product": lower_product,
    "Repeat": lower_repeat,
    "Reshape": lower_reshape,
    "RootEstimate": lower_estimate,
    "Softmax": lower_softmax,
    "Turn": lower_turn,
    "UnitNorm": lower_unit_norm,
}


def lower(
    graph: Graph, form: Format, options: Options, statistics: Mapping[str, Statistics] | None, target: Target,
    packed: MutableMapping[str, Any] | None = None,
) -> Lowering:  # fmt: skip
    """The program of a normalised (and, for int8, quantised) graph. Steps are in execution order.

    `packed`: kept for other graphs whose convolutions have the same names and weights, and filled.
    """
    legalise(graph, form, target)
    program = Program(graph.name, form, list(graph.inputs), list(graph.outputs), target)
    seen = dict(statistics or {})
    for op in graph.ops:
        if op.type == "Convert" and op.inputs[0] in seen:
            seen[op.output] = seen[op.inputs[0]]
    low = Lowering(graph, program, options, seen, packed=packed)
    _choose_tables(low)
    schedule(low)
    make_tensors(low, picture_inputs(graph, form))
    copies = place_views(low)
    for op in graph.ops:
        low.current = _format(low, op)
        with about(op.name, *op.fused, op.output):
            _lower_one(low, op, copies)
    low.current = None
    return low


def _format(low: Lowering, op: Op) -> Format:
    """What an operator computes in: that of its result, but for products of int8 whose results are fp16."""
    is_product = op.type == "Conv" and low.quantization(op.inputs[0]) is not None
    return low.target.int8 if is_product else low.format_of(op.output)


def _lower_one(low: Lowering, op: Op, copies: Mapping[str, list[str]]) -> None:
    if op.type == "Concat":
        _copy_parts(low, op, copies[op.output])
    elif op.type == "Slice":
        if op.output in copies:
            _copy_slice(low, op)
    elif op.type == "Fold":
        return
    elif op.type != "Reshape" or low.tensor(op.output).parent is None:
        _LOWER[op.type](low, op)


def _choose_tables(low: Lowering) -> None:
    """One table for all users of a function that need about the same: it reaches as far as the farthest of them."""
    users: dict[Activation, list[_User]] = {}
    makers = low.graph.producers()
    for op in low.graph.ops:
        if op.type == "Softmax":
            shared = op.get(Softmax).shares_table
            low.functions[op.output] = shared_table(shared) if shared else softmax_table()
        elif op.type == "Gate":
            low.functions[op.output] = shared_table(op.get(Gate).function)
        activation = op.activation
        if activation is None or activation.function not in FUNCTIONS:
            continue
        limit = FUNCTIONS[activation.function][1]
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
        users.setdefault(activation, []).append(_User(op.output, reach, _ceiling(low, op)))
    for activation, entries in users.items():
        for alike in _groups(activation, entries):
            reach, ceiling = max(entry.reach for entry in alike), max(entry.ceiling for entry in alike)
            made = function_for(activation, reach, power_of_two=low.has_floats, ceiling=ceiling)
            low.functions.update(dict.fromkeys((entry.output for entry in alike), made))


class _User(NamedTuple):
    """An operator that a table is for."""

    output: str
    reach: float
    ceiling: float


_ALIKE = 2.0
"""Users of one table differ by no more: each of them has half of the entries, and half of the results, or more."""


def _groups(activation: Activation, users: list[_User]) -> list[list[_User]]:
    """Users of a function by the table that they share.

    A function that is straight far away has one table, which ends there. The others have no such end: in a table that
    reaches to 1000, the square roots of numbers below 1 lie between two entries.
    """
    if math.isfinite(farthest(activation)):
        return [users]
    found: list[list[_User]] = []
    for user in sorted(users, key=lambda entry: (entry.reach, entry.ceiling), reverse=True):
        for group in found:
            ceilings = [entry.ceiling for entry in (*group, user)]
            if user.reach * _ALIKE >= group[0].reach and min(ceilings) * _ALIKE >= max(ceilings):
                group.append(user)
                break
        else:
            found.append([user])
    return found


def _ceiling(low: Lowering, op: Op) -> float:
    """How large the results are that anything is left of; twice that, for values between two entries."""
    if not isinstance(op.form, Activation) or op.form.function not in STEEP:
        return math.inf
    seen, stored = low.statistics.get(op.output), low.graph.given.get(op.output) or low.quantization(op.output)
    if stored is not None:
        return 2 * max(abs(stored.low), abs(stored.high))
    return 2 * max(abs(seen.low), abs(seen.high)) if seen is not None else math.inf


def _copy_parts(low: Lowering, op: Op, parts: list[str]) -> None:
    step, form = None, op.get(Concat)
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
        low.program.tensors[window] = _window(low, window, source, op.output, form.starts[number], form.along_pixels)
        low.add_rows(step, copy_task(low, source, window))


def _copy_slice(low: Lowering, op: Op) -> None:
    """An output of the model is a buffer of its own, and so is what the CPU reads, or another map holds."""
    window = f"{op.output}_window"
    form = op.get(Slice)
    low.program.tensors[window] = _window(low, window, op.output, op.inputs[0], form.start, form.along_pixels)
    low.add_rows(low.step(op, "Slice"), copy_task(low, window, op.output))


def _window(low: Lowering, name: str, like: str, parent: str, start: int, along_pixels: bool) -> Tensor:
    tensor = replace(low.tensor(like), name=name, data=None)
    root = low.tensor(parent)
    tensor.parent, tensor.pitch = parent, root.pitch
    tensor.kind = Kind.INTERNAL
    atoms = start if along_pixels else start // low.format.atom * root.pitch
    tensor.parent_offset = atoms * low.target.atom_bytes
    return tensor
