"""Outputs that join numbers of different kinds: boxes in pixels beside scores below one share a scale, and lose."""

from __future__ import annotations

from openrknn.compiler.ir import Graph

__all__ = ["split_final_concats"]


def split_final_concats(graph: Graph) -> None:
    """Make the parts of a Concat that is an output the outputs, until no output is one."""
    while True:
        makers = graph.producers()
        joined = next(
            (
                name
                for name in graph.outputs
                if name in makers
                and makers[name].type == "Concat"
                and not any(part in graph.constants or part in graph.inputs for part in makers[name].inputs)
            ),
            None,
        )
        if joined is None:
            break
        at = graph.outputs.index(joined)
        parts = [part for part in dict.fromkeys(makers[joined].inputs) if part not in graph.outputs]
        graph.outputs[at : at + 1] = parts
    graph.prune()
