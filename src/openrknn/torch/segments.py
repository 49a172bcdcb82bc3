"""A graph cut into runs of nodes: those that become ONNX, and those that stay in PyTorch.

Runs follow each other as the nodes do in the graph, so that reads and writes of the same memory keep their order.
Where a run cannot be exported it is halved until the nodes that cannot are alone.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from openrknn.torch.effects import Effects, leaves_of
from openrknn.torch.errors import LOG, ExportError

_MOST_TRIALS = 60
"""Exports of one graph; what is not exported by then runs in PyTorch."""


@dataclass(slots=True)
class Piece:
    """A run of nodes as a module of its own."""

    module: Any
    inputs: list[tuple[Any, tuple[int, ...]]]
    """For each input: the node of the graph that makes it, and which part of its value."""
    outputs: list[tuple[Any, tuple[int, ...]]]
    fakes: list[Any]
    """What each output looks like."""
    constants: dict[Any, Any] = field(default_factory=dict)
    """Values of nodes that are numbers (sizes): known without running anything."""


@dataclass(slots=True)
class Segment:
    """A run of nodes, and what became of it."""

    nodes: list[Any]
    piece: Piece | None = None
    """None: it stays in PyTorch."""
    made: Any = None
    reason: str = ""


def cut(
    nodes: Sequence[Any], effects: Effects, statics: Mapping[Any, Any], make: Callable[[Piece], Any],
) -> list[Segment]:  # fmt: skip
    """All nodes in runs, in their order. `make` exports a piece, or raises `ExportError`."""
    found: list[Segment] = []
    budget = [_MOST_TRIALS]
    for is_eager, run in _runs(nodes, effects):
        if is_eager:
            found.append(Segment(run, reason=effects.eager[run[0]]))
        else:
            found.extend(_tried(run, effects, statics, make, budget))
    return _merged(found)


def _tried(
    run: list[Any], effects: Effects, statics: Mapping[Any, Any], make: Callable[[Piece], Any],
    budget: list[int],
) -> Iterator[Segment]:  # fmt: skip
    if budget[0] <= 0:
        yield Segment(run, reason="its export was tried too often")
        return
    budget[0] -= 1
    try:
        piece = piece_of(run, effects.values, statics)
        yield Segment(run, piece, make(piece))
        return
    except ExportError as error:
        LOG.info("%d nodes from %s cannot be exported: %s", len(run), run[0].name, error)
        if len(run) == 1 or _has_contexts(run):
            yield Segment(run, reason=str(error))
            return
    half = len(run) // 2
    for part in (run[:half], run[half:]):
        yield from _tried(part, effects, statics, make, budget)


def piece_of(run: Sequence[Any], values: Mapping[Any, Any], statics: Mapping[Any, Any]) -> Piece:
    """A module of these nodes. Parameters become its own, numbers become constants."""
    inside = set(run)
    graph = torch.fx.Graph()
    root: dict[str, Any] = {}
    known: dict[Any, Any] = {}
    inputs: list[tuple[Any, tuple[int, ...]]] = []
    owner = run[0].graph.owning_module

    def place(node: Any, value: Any, path: tuple[int, ...]) -> Any:
        if isinstance(value, torch.Tensor):
            inputs.append((node, path))
            return graph.placeholder(f"input{len(inputs) - 1}")
        if isinstance(value, tuple | list):
            return tuple(place(node, one, (*path, at)) for at, one in enumerate(value))
        return value

    outside = [node for one in run for node in one.all_input_nodes if node not in inside]
    for node in dict.fromkeys(outside):  # placeholders come first in a graph
        if node not in statics and node not in values:
            raise ExportError(f"the shape of {node.name} is not known")
        if node not in statics:
            known[node] = place(node, values[node], ())
    for number, node in enumerate(dict.fromkeys(one for one in outside if one in statics)):
        root[f"static{number}"] = statics[node]
        known[node] = graph.get_attr(f"static{number}")
    for node in run:
        if node.op in {"get_attr", "call_module"}:
            _adopt(root, owner, node.target)
        known[node] = graph.node_copy(node, lambda one: known[one])
    ends = [node for node in run if any(user not in inside for user in node.users)]
    outputs, fakes, leaves, constants = _ends(graph, ends, values, known)
    if not leaves:
        raise ExportError("it makes no tensor that anything needs")
    graph.output(leaves)
    return Piece(torch.fx.GraphModule(root, graph).eval(), inputs, outputs, fakes, constants)


def _ends(
    graph: Any, ends: Sequence[Any], values: Mapping[Any, Any], known: Mapping[Any, Any]
) -> tuple[list[tuple[Any, tuple[int, ...]]], list[Any], list[Any], dict[Any, Any]]:
    """Each tensor that leaves the piece: its place, what it looks like and its node; and values without tensors."""
    outputs: list[tuple[Any, tuple[int, ...]]] = []
    fakes: list[Any] = []
    leaves: list[Any] = []
    constants: dict[Any, Any] = {}

    def leave(node: Any, value: Any, inner: Any, path: tuple[int, ...]) -> None:
        if isinstance(value, torch.Tensor):
            outputs.append((node, path))
            fakes.append(value)
            leaves.append(inner)
        elif isinstance(value, tuple | list):
            for at, one in enumerate(value):
                leave(node, one, graph.call_function(operator.getitem, (inner, at)), (*path, at))

    for node in ends:
        value = values[node]
        if any(isinstance(leaf, torch.Tensor) for leaf in leaves_of(value)):
            leave(node, value, known[node], ())
        if not isinstance(value, torch.Tensor):
            constants[node] = value
    return outputs, fakes, leaves, constants


def _adopt(root: dict[str, Any], owner: Any, target: str) -> None:
    value = owner
    for name in target.split("."):
        value = getattr(value, name)
    root[target] = value


def _runs(nodes: Sequence[Any], effects: Effects) -> Iterator[tuple[bool, list[Any]]]:
    run: list[Any] = []
    for node in nodes:
        if run and (node in effects.eager) != (run[0] in effects.eager):
            yield run[0] in effects.eager, run
            run = []
        run.append(node)
    if run:
        yield run[0] in effects.eager, run


def _merged(segments: Sequence[Segment]) -> list[Segment]:
    """Neighbours that stay in PyTorch are one."""
    found: list[Segment] = []
    for segment in segments:
        if found and found[-1].piece is None and segment.piece is None:
            found[-1].nodes.extend(segment.nodes)
            if segment.reason not in found[-1].reason:
                found[-1].reason += f"; {segment.reason}"
        else:
            found.append(segment)
    return found


def _has_contexts(run: Sequence[Any]) -> bool:
    """Autocast begins and ends with a node each: half of it would be something else."""
    return any("autocast" in str(node.target) or "set_grad_enabled" in str(node.target) for node in run)
