"""What a task asks for, as a value: who runs a program that was made before needs no more of `budget`."""

from __future__ import annotations

from typing import NamedTuple


class Demand(NamedTuple):
    """What one task asks for."""

    work: int
    memory: int
