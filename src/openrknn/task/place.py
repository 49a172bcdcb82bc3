"""Addresses of tasks: numbers once a model is loaded, places in tensors before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any, NamedTuple

from openrknn.backports import TypeVar

__all__ = ["A", "Address", "Place", "places_of", "with_places"]


class Place(NamedTuple):
    """An address that the loader fills in: so many bytes into a tensor."""

    tensor: str
    offset: int = 0
    data: bytes | None = None
    """Operands that a chip reads from memory and that its encoder makes: the file gets a tensor of these bytes."""


Address = int | Place

A = TypeVar("A", default=int, covariant=True)
"""The addresses of a task: `int`, unless somebody says `Address`."""

T = TypeVar("T")


def places_of(task: object) -> Iterator[Place]:
    """All places that a task, or part of one, names."""
    if isinstance(task, Place):
        yield task
    elif is_dataclass(task) and not isinstance(task, type):
        for entry in fields(task):
            yield from places_of(getattr(task, entry.name))


def with_places(task: T, change: Callable[[Place], Address]) -> T:
    """The same task, or part of one, with other places or with addresses for them."""
    if not is_dataclass(task) or isinstance(task, type):
        return task
    changed: dict[str, Any] = {}
    for entry in fields(task):
        value = getattr(task, entry.name)
        other: Any = change(value) if isinstance(value, Place) else with_places(value, change)
        if other is not value:
            changed[entry.name] = other
    return replace(task, **changed) if changed else task
