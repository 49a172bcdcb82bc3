"""How much memory a model needs at run time, computed from its tensors as the vendor's runtime does it."""

from __future__ import annotations

from collections.abc import Iterable

from openrknn.container.model import Model
from openrknn.container.parts import Graph, Kind, MemoryPlan

_ALIGNMENT = 64


def _stored_bytes(graph: Graph, kinds: Iterable[Kind]) -> int:
    """Bytes of the constants of these kinds, each rounded up to its size in memory."""
    wanted = frozenset(kinds)
    return sum(
        -(-len(tensor.data) // _ALIGNMENT) * _ALIGNMENT
        for tensor in graph.tensors
        if tensor.data is not None and tensor.kind in wanted
    )


def weight_bytes(graph: Graph) -> int:
    """Weights, bias and the constants of CPU operators."""
    return _stored_bytes(graph, (Kind.WEIGHT, Kind.CPU_CONSTANT))


def constant_bytes(graph: Graph) -> int:
    """Constants that the compiler made up."""
    return _stored_bytes(graph, (Kind.COMPILER_CONSTANT,))


def internal_bytes(graph: Graph) -> int:
    """Internal memory: inputs, outputs and everything between them."""
    return max((tensor.offset + tensor.size_bytes for tensor in graph.tensors if tensor.kind.is_activation), default=0)


def memory_plan(model: Model) -> MemoryPlan:
    """What the file's own numbers should be; graphs of a dynamic-shape model share the internal memory."""
    return MemoryPlan(
        sum(weight_bytes(graph) for graph in model.graphs),
        max(internal_bytes(graph) for graph in model.graphs),
        sum(constant_bytes(graph) for graph in model.graphs),
    )
