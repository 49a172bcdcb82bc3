"""One request on its way through the data plane."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Literal

from openrknn.serve.plane.classes import Labelled
from openrknn.serve.shared.regions import Part
from openrknn.serve.shared.tensor import Output, Tensor

__all__ = ["Answer", "Job", "OutputKind", "Stages"]

OutputKind = Literal["float", "raw"]


@dataclass(slots=True)
class Stages:
    """Where the seconds went."""

    queue: float = 0.0
    """Waiting for a context."""
    pre: float = 0.0
    """Bytes of the request to the NPU's input buffers."""
    npu: float = 0.0
    """The model itself, operators of the CPU included."""
    post: float = 0.0
    """Output buffers to bytes of the answer."""
    batch: int = 1
    """Items that ran together."""

    @property
    def total(self) -> float:
        return self.queue + self.pre + self.npu + self.post


@dataclass(frozen=True, slots=True)
class Answer:
    """Outputs as `Session.run` gave them, or as and where the client wanted them."""

    outputs: Mapping[str, Output | Labelled]
    stages: Stages
    model_name: str
    model_version: str
    items: int = 1
    arrived: float = 0.0
    """time.monotonic() when it came into the queue."""


@dataclass(slots=True, eq=False)
class Job:
    """Checked inputs, what to do with them, and the place for the answer.

    The future is the only thing that threads share: cancelling it before a context takes the job keeps it from running.
    """

    inputs: Mapping[str, Tensor]
    layouts: Mapping[str, str]
    kind: OutputKind = "float"
    items: int = 1
    """Of a batch."""
    deadline: float | None = None
    """time.monotonic() after which no client waits."""
    arrived: float = field(default_factory=time.monotonic)
    future: Future[tuple[dict[str, Output], Stages]] = field(default_factory=Future)
    outputs: Collection[str] | None = None
    """That somebody wants; None: all."""
    places: Mapping[str, Part] = field(default_factory=dict)
    """Output -> where in shared memory the client wants it."""

    def wants(self, name: str) -> bool:
        """Whether that output belongs into the answer."""
        return self.outputs is None or name in self.outputs

    level: int = 1
    """In the queue: 1 is the highest."""

    def is_late(self, now: float) -> bool:
        """Whether no client waits any more."""
        return self.deadline is not None and now >= self.deadline

    def fits(self, other: Job) -> bool:
        """Whether both can go into one batch."""
        return (
            self.kind == other.kind
            and self.layouts == other.layouts
            and all(
                array.dtype == other.inputs[name].dtype and array.shape[1:] == other.inputs[name].shape[1:]
                for name, array in self.inputs.items()
            )
        )
