"""`Call`: what a call of gRPC needs beside its message."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from openrknn.serve.plane.budget import Share
from openrknn.serve.rpc.streams import Stream

__all__ = ["Call"]


@dataclass(slots=True)
class Call:
    """One call."""

    headers: dict[str, str]
    seconds_left: float | None
    """Until its deadline."""
    share: Share
    """Of the memory; it ends when the answer is written."""
    parse: Callable[..., Any]
    """A raw message and a share; the message as an object. Asks for the memory first, beside what a third argument
    says is held already."""
    stream: Stream | None = None
    """Where the call lasts."""
    model: str = ""
    """For the log."""
    started: float = field(default_factory=time.monotonic)
    after: list[Callable[[], None]] = field(default_factory=list)
    """What to do when the answer is sent."""
