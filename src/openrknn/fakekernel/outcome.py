"""How a job ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["Outcome"]


class Outcome(NamedTuple):
    """What the engine says of a job, or what became of it otherwise."""

    status: Mapping[int, int] = {}
    """Interrupt bits of each core."""
    tasks: int = 0
    """Tasks that were done."""
    macs: int = 0
    nanoseconds: int = 0
    error: str = ""
    """For people; empty if all went well."""
    problem: str = ""
    """fault: an address in no buffer; commands: the NPU cannot execute them; stuck: it would wait indefinitely;
    dma: memory did not answer; timeout; crash: the engine ended; cancelled: the program is gone."""
    notes: tuple[str, ...] = ()
    """What its commands hold that boards are recorded to ignore, if not reported before."""
    address: int | None = None
    """Of a fault, where it is known."""
    is_write: bool = False
    """Of a fault: whether the NPU wanted to write there."""
