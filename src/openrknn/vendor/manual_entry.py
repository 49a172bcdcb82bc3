"""One C function in words: what it is for, how it is called in Python, and what to look out for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["Entry", "entry"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One function in words."""

    summary: str
    python: str
    """How it is called; lines of code."""
    parameters: Mapping[str, str]
    """C parameter -> what it is in Python."""
    traps: tuple[str, ...] = ()
    see: tuple[str, ...] = ()


def entry(
    summary: str, python: str, parameters: dict[str, str], *traps: str, see: tuple[str, ...] = ()
) -> Entry:
    """An entry; traps come one after the other."""
    return Entry(summary, python, MappingProxyType(parameters), traps, see)
