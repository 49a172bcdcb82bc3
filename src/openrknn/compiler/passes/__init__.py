"""Passes over a graph: a rewriting, when it runs, and what it needs and gives; with a verifier between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from openrknn.compiler.ir import Graph
from openrknn.compiler.passes.verifier import (
    NO_ORPHANS,
    ONE_RESHAPE,
    ORDERED,
    READY,
    GraphError,
    Property,
    is_ready,
    verify_graph,
)

__all__ = [
    "NO_ORPHANS",
    "ONE_RESHAPE",
    "ORDERED",
    "READY",
    "GraphError",
    "Pass",
    "Property",
    "is_ready",
    "plain",
    "run_passes",
    "verify_graph",
    "verify_passes",
]  # fmt: skip

S = TypeVar("S")
Verify = Callable[[Graph, str, tuple[Property, ...]], None]
_verify: ContextVar[Verify | None] = ContextVar("_verify", default=None)


@dataclass(frozen=True)
class Pass(Generic[S]):
    """One rewriting of the graph, in place. S: what it may ask about besides the graph."""

    name: str
    run: Callable[[Graph, S], object]
    when: Callable[[S], bool] = lambda _: True
    needs: tuple[Property, ...] = ()
    gives: tuple[Property, ...] = ()


def plain(
    function: Callable[[Graph], None], *, needs: tuple[Property, ...] = (), gives: tuple[Property, ...] = ()
) -> Pass[Any]:
    """A pass that always runs and asks nothing."""
    return Pass(function.__name__, lambda graph, _: function(graph), needs=needs, gives=gives)


def run_passes(passes: Sequence[Pass[S]], graph: Graph, situation: S) -> None:
    """One after the other; inside `verify_passes` with a look at the graph before and after each."""
    verify = _verify.get()
    for number, entry in enumerate(passes):
        if not entry.when(situation):
            continue
        if verify is not None:
            verify(graph, f"before pass {number} {entry.name}", entry.needs)
        entry.run(graph, situation)
        if verify is not None:
            verify(graph, f"after pass {number} {entry.name}", entry.gives)


@contextmanager
def verify_passes(verify: Verify = verify_graph) -> Iterator[None]:
    """Every pass inside the block is followed by a look at the graph: for tests, and to find out which pass errs."""
    before = _verify.set(verify)
    try:
        yield
    finally:
        _verify.reset(before)
