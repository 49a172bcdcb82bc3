"""Stage 4, lower: each operator of the normalised graph becomes a step with tasks; one small file per kind."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from openrknn.compiler.errors import about
from openrknn.compiler.formats import Format
from openrknn.compiler.functions import FUNCTIONS, function_for
from openrknn.compiler.identity import TooManyError, identity_conv, selection_conv
from openrknn.compiler.ir import Graph, Op, Value
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
from openrknn.compiler.lower.tensors import (
    fit_converts,
    fit_cpu,
    fit_ends,
    make_tensors,
    may_be_picture,
    picture_inputs,
)
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
    pictures = _free_pictures(graph, form)
    if target.aligned_inputs:
        _align_inputs(graph, pictures)
    if target.pairs_surfaces:
        _pair_surfaces(graph, target)
    _copy_slices_of_inputs(graph)
    fit_converts(graph)
    fit_cpu(graph)
    fit_ends(graph)
    program = Program(graph.name, form, list(graph.inputs), list(graph.outputs), target)
    seen = dict(statistics or {})
    for op in graph.ops:
        if op.type == "Convert" and op.inputs[0] in seen:
            seen[op.output] = seen[op.inputs[0]]
    low = Lowering(graph, program, options, seen)
    _choose_tables(low)
    schedule(low)
    make_tensors(low, pictures)
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


def _free_pictures(graph: Graph, form: Format) -> set[str]:
    """Picture inputs that something else than a convolution reads go through one that changes nothing."""
    for name in graph.inputs:
        shape = graph.values[name].shape
        readers = [op for op in graph.ops if name in op.inputs]
        if not may_be_picture(shape, form) or not readers:
            continue
        others = [op for op in readers if not _reads_picture(op, name, shape[3] % form.atom == 0)]
        if not others:
            continue
        inner = graph.add_value(f"{name}_map", shape)
        graph.values[inner].quantization = graph.values[name].quantization
        for op in others:
            op.inputs = [inner if entry == name else entry for entry in op.inputs]
        graph.ops.insert(0, selection_conv(graph, name, inner, inner, np.arange(shape[1]), "Input"))
    return picture_inputs(graph, form)


def _reads_picture(op: Op, name: str, is_whole: bool) -> bool:
    """Rows of pictures end in zeros up to a whole atom: a right border of another number needs a feature map."""
    if op.type in {"Cpu", "Reshape"}:
        return True
    if op.type != "Conv" or name in op.inputs[1:]:
        return False
    return is_whole or not (op.attributes.get("pad_value") and any(op.attributes["pads"]))


def _align_inputs(graph: Graph, pictures: set[str]) -> None:
    """Inputs whose surfaces are not whole fours of pixels: what is no convolution reads a copy, as the vendor's do."""
    for name in graph.inputs:
        _, height, width = graph.values[name].cube
        others = [
            op for op in graph.ops if name in op.inputs and op.type not in {"Cpu", "Reshape"}
            and (op.type != "Conv" or name in op.inputs[1:])
        ]  # fmt: skip
        if name in pictures or height * width % 4 == 0 or len(graph.shape(name)) != 4 or not others:
            continue
        inner = graph.add_value(f"{name}_aligned", graph.shape(name))
        graph.values[inner].quantization = graph.values[name].quantization
        for op in others:
            op.inputs = [inner if entry == name else entry for entry in op.inputs]
        graph.ops.insert(0, identity_conv(graph, name, inner, inner, why="Input"))


def _pair_surfaces(graph: Graph, target: Target) -> None:
    """A convolution adds a copy of an input with an odd number of surfaces: the input may end with the last of them."""
    copies: dict[str, str] = {}
    for op in [entry for entry in graph.ops if entry.type == "Conv" and len(entry.inputs) > 3]:
        name = root = op.inputs[3]
        while (maker := graph.producer(root)) is not None and maker.type == "Slice":
            root = maker.inputs[0]
        value = graph.values[name]
        form = target.fp16 if value.quantization is None else target.int8
        if root not in graph.inputs or len(value.shape) != 4 or form.surfaces(value.cube[0]) % 2 == 0:
            continue
        if name not in copies:
            copies[name] = graph.add_value(f"{name}_paired", value.shape)
            graph.values[copies[name]].quantization = value.quantization
            made = identity_conv(graph, name, copies[name], copies[name], why="Input")
            graph.ops.insert(graph.ops.index(op), made)
        op.inputs = [*op.inputs[:3], copies[name]]


def _copy_slices_of_inputs(graph: Graph) -> None:
    """Channels of an input for the CPU: a window into memory that may be the user's has no address of its own."""
    for op in list(graph.ops):
        if op.type != "Slice" or op.inputs[0] not in graph.inputs or op.attributes.get("along"):
            continue
        if any(user.type in {"Cpu", "Reshape"} for user in graph.ops if op.output in user.inputs):
            start = op.attributes["start"]
            picks = np.arange(start, start + graph.values[op.output].cube[0])
            try:
                made = selection_conv(graph, op.inputs[0], op.output, op.name, picks, "Slice")
            except TooManyError:  # a recording has as many channels as samples
                made = _cpu_slice(graph, op)
            graph.ops[graph.ops.index(op)] = made


def _cpu_slice(graph: Graph, op: Op) -> Op:
    before, after = graph.shape(op.inputs[0]), graph.shape(op.output)
    start = int(op.attributes["start"])
    axis = next(at for at, (whole, part) in enumerate(zip(before, after, strict=True)) if whole != part)
    bounds = [
        graph.add_constant(f"{op.output}_{name}", np.array([number], np.int64))
        for name, number in (("starts", start), ("ends", start + after[axis]), ("axes", axis))
    ]
    return Op("Cpu", op.name, [op.inputs[0], *bounds], [op.output], {"operator": "Slice"}, op.fused)


def _choose_tables(low: Lowering) -> None:
    """One table per function: it reaches as far as the farthest of its users needs."""
    users: dict[tuple[Any, ...], list[tuple[dict[str, Any], float, float]]] = {}
    for op in low.graph.ops:
        if op.type == "Softmax":
            low.functions[id(op.attributes)] = softmax_table()
        attributes = op.attributes if op.type == "Activation" else op.attributes.get("activation")
        if not attributes or attributes["function"] not in FUNCTIONS:
            continue
        limit = FUNCTIONS[attributes["function"]][1]
        reach = limit
        if op.type == "Activation":
            seen = low.statistics.get(op.inputs[0])
            quantization = low.quantization(op.inputs[0])
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
