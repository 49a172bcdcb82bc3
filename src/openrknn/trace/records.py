"""What a trace holds: everything that a program asked of an NPU driver, in order, with the memory of each job.

A trace is a ZIP archive: `trace.json` (who recorded it, on which chip), `events.jsonl` (one event per line) and
`blobs/` (contents of buffers, by their hash, each once).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class OpenRecord:
    """A program opened a device node."""

    file: int
    path: str
    process: int
    at: int = 0
    """Nanoseconds since the recording began."""


@dataclass(frozen=True, slots=True)
class CallRecord:
    """An ioctl, before and after."""

    file: int
    name: str
    before: Mapping[str, int]
    after: Mapping[str, int]
    result: int
    nanoseconds: int
    at: int = 0
    """When it was answered: nanoseconds since the recording began."""


@dataclass(frozen=True, slots=True)
class MapRecord:
    """A program mapped a buffer."""

    file: int
    offset: int
    length: int
    at: int = 0
    """Nanoseconds since the recording began."""


@dataclass(frozen=True, slots=True)
class BufferState:
    """A buffer at one moment."""

    serial: int
    address: int
    size: int
    blob: str
    """Hash of its contents."""


@dataclass(frozen=True, slots=True)
class SubmitRecord:
    """A job, with all memory as it was when it started."""

    job: int
    file: int
    kind: str
    """rknpu or rocket: how to read the descriptors."""
    lists: Mapping[int, tuple[int, str]]
    """Per core: number of its first task, and the task descriptors in hex."""
    buffers: tuple[BufferState, ...] = field(repr=False)
    at: int = 0
    """Nanoseconds since the recording began."""
    base: int = 0
    """What the NPU adds to every address of the job (PC.TASK_DMA_BASE_ADDR)."""


@dataclass(frozen=True, slots=True)
class FinishRecord:
    """The end of a job, with the memory that it changed."""

    job: int
    error: str
    problem: str
    tasks: int
    macs: int
    nanoseconds: int
    buffers: tuple[BufferState, ...] = field(repr=False)
    at: int = 0
    """Nanoseconds since the recording began."""


@dataclass(frozen=True, slots=True)
class CloseRecord:
    """The last descriptor of a file is gone."""

    file: int
    at: int = 0
    """Nanoseconds since the recording began."""


Event: TypeAlias = OpenRecord | CallRecord | MapRecord | SubmitRecord | FinishRecord | CloseRecord
