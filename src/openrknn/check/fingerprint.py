"""The fingerprint of a model: what each operator is, where it runs, and hashes of its weights, scales and commands.

A weight that changed by one bit changes the hash of its tensor, however small the difference is that it makes to the
outputs; so the operator can be named. Hashes are SHA-256, cut to 16 bytes: they need not resist a forger who
could not write the folder as well.
"""

from __future__ import annotations

import hashlib
import struct
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from openrknn.analysis.explain import BOUNDARY
from openrknn.backports import file_digest
from openrknn.check.result import OperatorPlace
from openrknn.check.subject import Subject
from openrknn.container.dataclass_json import from_plain
from openrknn.container.model import Model, Operator
from openrknn.container.parts import Graph, Kind, Tensor

FORMAT = 1
_DIGITS = 32
NO_OPERATOR = "(no operator)"
"""Constants that no operator names."""


def digest(data: bytes | memoryview) -> str:
    """16 bytes of SHA-256, as text."""
    return hashlib.sha256(data).hexdigest()[:_DIGITS]


@dataclass(frozen=True, slots=True)
class OperatorPrint:
    """One operator."""

    part: str
    graph: int
    index: int
    type: str
    name: str
    runs_on: str
    weights: Mapping[str, str] = field(default_factory=dict)
    """Tensor -> hash of its bytes."""
    quantization: Mapping[str, str] = field(default_factory=dict)
    """Tensor that it writes -> "int8 scale 0.0235 zero point -128"."""
    commands: str = ""

    @property
    def place(self) -> OperatorPlace:
        return OperatorPlace(self.index, self.type, self.name, self.part, self.graph)


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """A model, or the models of a bundle or a voice."""

    chip: str
    operators: tuple[OperatorPrint, ...]
    interface: Mapping[str, str] = field(default_factory=dict)
    """Input or output -> type and shape."""
    inputs: Mapping[str, str] = field(default_factory=dict)
    """Input -> type, scale and zero point."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Parts that are no .rknn -> hash."""
    sha256: str = ""
    """Of the whole file."""

    def as_json(self) -> dict[str, Any]:
        return {"format": FORMAT, **asdict(self)}


def fingerprint(subject: Subject) -> Fingerprint:
    """Of everything under one path."""
    rows: list[OperatorPrint] = []
    interface: dict[str, str] = {}
    inputs: dict[str, str] = {}
    for part, model in subject.parts.items():
        for graph in model.graphs:
            rows += _graph(part, model, graph)
        prefix = f"{part} " if part else ""
        interface |= {f"{prefix}input {spec.name}": _spec(spec) for spec in model.inputs}
        for graph in model.graphs[:1]:
            tensors = [graph.tensors[index] for index in graph.inputs]
            inputs |= {f"{prefix}{tensor.name}": _quantization(tensor) for tensor in tensors}
        interface |= {f"{prefix}output {spec.name}": _spec(spec) for spec in model.outputs}
    others = {} if subject.bundle is None else subject.bundle.files
    files = {name: digest(data) for name, data in others.items() if not name.endswith(".rknn")}
    return Fingerprint(subject.chip, tuple(rows), interface, inputs, files, _whole(subject))


def place_of(operator: Operator, part: str = "", graph: int = 0) -> OperatorPlace:
    """For findings."""
    return OperatorPlace(operator.index, operator.type, _name(operator), part, graph)


def from_json(data: Any) -> Fingerprint:
    """The reverse of `as_json`; anything else is an error as `from_plain` has them."""
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ValueError(f"not a fingerprint of format {FORMAT}")
    return from_plain(Fingerprint, data)


def _whole(subject: Subject) -> str:
    if subject.is_voice:
        return ""
    try:
        with open(subject.path, "rb") as file:
            return file_digest(file, "sha256").hex()
    except OSError:
        return ""  # a model that was never a file


def _spec(spec: Any) -> str:
    return f"{spec.dtype}[{','.join(map(str, spec.shape))}] {spec.layout}"


def _graph(part: str, model: Model, graph: Graph) -> Iterable[OperatorPrint]:
    everything = model.operators_of(graph)
    owners = _owners(graph, everything)
    # Where data enter and leave is no computation, unless the NPU does it or constants belong to it.
    operators = [item for item in everything if item.type not in BOUNDARY or item.tasks or owners.get(item.index)]
    seen: Counter[str] = Counter()
    for operator in operators:
        name = _name(operator)
        seen[name] += 1
        yield OperatorPrint(
            part=part,
            graph=graph.index,
            index=operator.index,
            type=operator.type,
            name=name if seen[name] == 1 else f"{name} ({seen[name]})",
            runs_on=str(operator.placement),
            weights={tensor.name: digest(tensor.data) for tensor in owners.get(operator.index, ()) if tensor.data},
            quantization={tensor.name: _quantization(tensor) for tensor in operator.outputs if tensor.name},
            commands=_commands(graph, operator),
        )
    owned = {tensor.name for tensors in owners.values() for tensor in tensors}
    rest = [tensor for name, tensor in _constants(graph).items() if name not in owned]
    others = {tensor.name: digest(tensor.data) for tensor in rest if tensor.data}
    if others:
        yield OperatorPrint(part, graph.index, len(everything), NO_OPERATOR, "constants", "npu", others)


def _name(operator: Operator) -> str:
    """Its own, or that of what it makes: files of many toolkits name no operator."""
    return operator.name or next((tensor.name for tensor in operator.outputs if tensor.name), "")


def _owners(graph: Graph, operators: Iterable[Operator]) -> dict[int, list[Tensor]]:
    """Operator -> its constants: the ones that it names, and those whose addresses go into its commands."""
    found: dict[int, dict[str, Tensor]] = {}
    constants = _constants(graph)
    for operator in operators:
        named = {tensor.name: tensor for tensor in operator.inputs if tensor.name in constants}
        found.setdefault(operator.index, {}).update(named)
    tasks = sorted(graph.tasks, key=lambda task: task.first_command)
    starts = [task.first_command for task in tasks]
    for group in graph.relocations:
        if group.tensor not in constants:
            continue
        for _, command in struct.iter_unpack("<iI", group.entries):
            at = bisect_right(starts, command) - 1
            if at >= 0:
                found.setdefault(tasks[at].op_index, {})[group.tensor] = constants[group.tensor]
    return {index: list(tensors.values()) for index, tensors in found.items()}


def _constants(graph: Graph) -> dict[str, Tensor]:
    return {
        tensor.name: tensor
        for tensor in graph.tensors
        if tensor.data and not tensor.kind.is_activation and tensor.kind not in (Kind.COMMANDS, Kind.TASKS)
    }


def _quantization(tensor: Tensor) -> str:
    text = tensor.dtype.label
    if tensor.quantization is None:
        return text
    scales, zeros = tensor.quantization.scale, tensor.quantization.zero_point
    if len(scales) == 1:
        return f"{text} scale {scales[0]:.9g} zero point {zeros[0]}"
    return f"{text} {len(scales)} scales {digest(repr((scales, zeros)).encode())}"


def _commands(graph: Graph, operator: Operator) -> str:
    """The commands as they are in the file, before any address is put in."""
    hasher = hashlib.sha256()
    tasks = [task for task in graph.tasks if task.op_index == operator.index]  # of all lists: several cores, too
    for task in tasks:
        hasher.update(graph.task_words(task, tail=False).tobytes())
    return hasher.hexdigest()[:_DIGITS] if tasks else ""
