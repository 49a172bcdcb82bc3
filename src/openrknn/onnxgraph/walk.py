"""Ways through the nodes of an ONNX graph: who makes a value, who reads it, what runs before what."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

__all__ = ["in_order", "makers_of", "readers_of", "reads_of", "values_behind"]


def makers_of(nodes: Iterable[Any]) -> dict[str, Any]:
    """Value -> the node that makes it."""
    return {name: node for node in nodes for name in node.output if name}


def readers_of(nodes: Iterable[Any]) -> dict[str, list[Any]]:
    """Value -> the nodes that read it, each once; graphs inside of nodes do not count."""
    readers: dict[str, list[Any]] = {}
    for node in nodes:
        for name in dict.fromkeys(node.input):
            readers.setdefault(name, []).append(node)
    return readers


def reads_of(node: Any) -> list[str]:
    """The inputs of a node, and values from outside that the graphs inside it use."""
    names = list(node.input)
    for graph in _inside(node):
        own = {value.name for value in (*graph.input, *graph.initializer)}
        for inner in graph.node:
            names += [name for name in reads_of(inner) if name not in own]
            own.update(inner.output)
        names += [value.name for value in graph.output if value.name not in own]
    return names


def _inside(node: Any) -> Iterator[Any]:
    for entry in node.attribute:
        if entry.HasField("g"):
            yield entry.g
        yield from entry.graphs


def values_behind(makers: Mapping[str, Any], names: Iterable[str]) -> set[str]:
    """These values, and all that they are computed from."""
    waiting, found = list(names), set[str]()
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += makers[name].input if name in makers else ()
    return found


def in_order(nodes: Iterable[Any], known: Collection[str]) -> list[Any]:
    """Makers before readers, as in most files already. Nodes of a cycle come last; running them is an error."""
    waiting, done = list(nodes), []
    made = set(known) | {""}
    everything = made | {name for node in waiting for name in node.output}
    while waiting:
        later = []
        for node in waiting:
            if all(name in made or name not in everything for name in reads_of(node)):
                done.append(node)
                made.update(node.output)
            else:
                later.append(node)
        if len(later) == len(waiting):
            return [*done, *later]
        waiting = later
    return done
