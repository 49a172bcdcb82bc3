"""Which nodes of ONNX Runtime's graph the NPU takes: the partition's answer, in the numbers of that graph."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from openrknn.compiler.float_model import onnx_package
from openrknn.container.bundle import Part
from openrknn.partition import PartitionOptions
from openrknn.partition.build import build
from openrknn.partition.cache import Cache
from openrknn.partition.make import make_plan
from openrknn.partition.prepare import prepare
from openrknn.partition.view import view_of

_LOG = logging.getLogger(__name__)
_STANDARD = {"", "ai.onnx"}


@dataclass(slots=True)
class Planned:
    """The answer for a graph."""

    numbers: list[int]
    """For each node the number of its part, or -1."""
    files: dict[frozenset[str], tuple[Part, bytes]] = field(default_factory=dict)
    """Outputs of a part -> what was compiled for it. Nothing where shapes are open: then it is made for what comes."""
    shapes: dict[frozenset[str], Mapping[str, tuple[int, ...]]] = field(default_factory=dict)
    """Outputs of a part -> shapes of its inputs, where those of the model were announced."""


def plan(model: Any, options: PartitionOptions) -> Planned:
    """`model` stays as it is. Nothing is refused: at worst all numbers are -1."""
    parts, files = _parts(model, options)
    planned = Planned([-1] * len(model.graph.node))
    count = 0
    for part in parts:
        if part.kind != "npu":
            continue
        chosen = _between(model, part.inputs, part.outputs)
        if not chosen or any(planned.numbers[number] >= 0 for number in chosen) or not _is_convex(model, chosen):
            _LOG.warning(
                "a part of the NPU cannot be told to ONNX Runtime, which keeps it: %s", ", ".join(part.outputs)
            )
            continue
        for number in chosen:
            planned.numbers[number] = count
        count += 1
        key = frozenset(part.outputs)
        if not is_open(model):
            planned.files[key] = (part, files[part.file])
        elif options.shapes:
            planned.shapes[key] = {name: part.shapes[name] for name in part.inputs}
    taken = sum(number >= 0 for number in planned.numbers)
    _LOG.info("%d of %d operators in %d parts for the NPU", taken, len(planned.numbers), count)
    return planned


def is_open(model: Any) -> bool:
    """Whether an input has a size that is not fixed, or no known shape."""
    for entry in model.graph.input:
        kind = entry.type.tensor_type
        if not kind.HasField("shape") or any(not dim.HasField("dim_value") for dim in kind.shape.dim):
            return True
    return False


def _parts(model: Any, options: PartitionOptions) -> tuple[list[Part], dict[str, bytes]]:
    shapes = options.shapes[0] if options.shapes else {}
    if all(node.domain in _STANDARD for node in model.graph.node):
        bundle = make_plan(model, options, shapes)
        return list(bundle.parts), dict(bundle.files)
    # What only ONNX Runtime knows is among them: nobody else can run it, or say which shapes come behind it. It says so
    # itself where all shapes are fixed.
    copy = onnx_package().ModelProto()
    copy.CopyFrom(model)
    built = build(prepare(copy, shapes) if is_open(model) else view_of(copy), options, Cache(options.cache))
    return built.parts, built.files


def _between(model: Any, inputs: Collection[str], outputs: Collection[str]) -> set[int]:
    """The nodes that make these outputs of these inputs, with those that compute constants for them alone."""
    makers = {name: number for number, node in enumerate(model.graph.node) for name in node.output if name}
    chosen: set[int] = set()
    waiting = list(outputs)
    while waiting:
        name = waiting.pop()
        number = makers.get(name)
        if number is None and name not in inputs and name in outputs:
            return set()  # the partition calls it by another name
        if number is not None and number not in chosen and name not in inputs:
            chosen.add(number)
            waiting += [read for read in model.graph.node[number].input if read]
    return chosen - _shared(model, chosen, outputs)


def _shared(model: Any, chosen: set[int], outputs: Collection[str]) -> set[int]:
    """Nodes that others need too, and that are no outputs: they computed constants."""
    readers: dict[str, set[int]] = {}
    for number, node in enumerate(model.graph.node):
        for name in node.input:
            readers.setdefault(name, set()).add(number)
    wanted = {entry.name for entry in model.graph.output}
    lost: set[int] = set()
    for number in sorted(chosen, reverse=True):  # readers before makers
        names = [name for name in model.graph.node[number].output if name and name not in outputs]
        if any(
            name in wanted or readers.get(name, set()) - chosen or readers.get(name, set()) & lost for name in names
        ):
            lost.add(number)
    return lost


def _is_convex(model: Any, chosen: set[int]) -> bool:
    """Whether no way leaves these nodes and comes back: they could not run as one."""
    outside: set[str] = set()
    ours: set[str] = set()
    for number, node in enumerate(model.graph.node):
        if number in chosen:
            if outside.intersection(node.input):
                return False
            ours.update(node.output)
        elif outside.intersection(node.input) or ours.intersection(node.input):
            outside.update(name for name in node.output if name)
    return True
