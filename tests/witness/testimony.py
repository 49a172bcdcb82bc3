"""What the vendor's runtime did with a model: its calls, tensors, buffers and submits, read from a run's folder."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Type = Literal["float32", "float16", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "bool"]
Layout = Literal["nchw", "nhwc", "nc1hwc2", "undefined"]
TYPES: tuple[Type, ...] = (
    "float32", "float16", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "bool",
)  # fmt: skip
LAYOUTS: tuple[Layout, ...] = ("nchw", "nhwc", "nc1hwc2", "undefined")


class WitnessMissingError(Exception):
    """Something that the witness needs is not on this machine; the text says what, and how to get it."""


@dataclass(frozen=True)
class Input:
    """One input as `rknn_inputs_set` takes it; `raw` is the C API's pass_through."""

    data: bytes
    type: Type = "uint8"
    layout: Layout = "nhwc"
    raw: bool = False


@dataclass(frozen=True)
class Call:
    """A function of the C API, or a query by its name, that returned."""

    name: str
    code: int


@dataclass(frozen=True)
class Tensor:
    """What `rknn_query` says of an input or output."""

    role: str
    """input, output, native_input, native_output, or current_input (dynamic shapes)."""
    index: int
    name: str
    shape: tuple[int, ...]
    type: str
    """One of TYPES, or "unknown N" if the runtime says something else."""
    layout: str
    size_bytes: int
    size_with_stride_bytes: int
    width_stride: int
    scale: float
    zero_point: int


@dataclass(frozen=True)
class Allocation:
    """A buffer of the device, as the runtime asked for it."""

    handle: int
    name: str
    """task, weight, internal, regcmd (batches only), or the name of an input or output tensor."""
    address: int
    requested_bytes: int
    """What the runtime asked for."""
    size_bytes: int
    """What it got: whole pages."""
    flags: int


@dataclass(frozen=True)
class Buffer:
    """The contents of an allocation at one moment."""

    allocation: Allocation
    data: bytes


@dataclass(frozen=True)
class Submit:
    """One job handed to the NPU, with the memory as it was then."""

    flags: int
    core_mask: int
    task_start: int
    task_count: int
    cores: tuple[tuple[int, int], ...]
    """The five raw ranges (first task, number of tasks); see `ranges`."""
    priority: int
    timeout: int
    task_handle: int
    buffers: tuple[Buffer, ...]
    """All live buffers, in order of allocation. Empty if the dumps were switched off."""

    @property
    def ranges(self) -> dict[int, tuple[int, int]]:
        """For each core that works: first task and number of tasks.

        The kernel's rule: chips with one core leave `cores` empty and use the plain fields; jobs for one or two cores
        use entries 0 and 1, jobs for three cores use entries 2 to 4. Mask 0 lets the kernel choose; core 0 stands for
        it.
        """
        if not any(count for _, count in self.cores):
            return {0: (self.task_start, self.task_count)}
        working = [core for core in range(3) if (self.core_mask or 1) >> core & 1]
        first = 2 if len(working) == 3 else 0
        return {core: self.cores[first + core] for core in working}

    @property
    def tasks(self) -> Buffer:
        """The buffer of task records that this job points to."""
        return next(buffer for buffer in self.buffers if buffer.allocation.handle == self.task_handle)

    def buffer(self, name: str) -> Buffer:
        """The first live buffer of this name."""
        found = [buffer for buffer in self.buffers if buffer.allocation.name == name]
        if not found:
            names = ", ".join(buffer.allocation.name for buffer in self.buffers)
            raise KeyError(f"no buffer {name!r} at this submit; there are: {names}")
        return found[0]


@dataclass(frozen=True)
class Testimony:
    """Everything that was seen in one run."""

    exit_code: int
    """Of the process; negative: the signal that killed it."""
    stdout: str
    stderr: str
    calls: tuple[Call, ...]
    died_in: str | None
    """The call that did not return, after a crash."""
    tensors: tuple[Tensor, ...]
    facts: Mapping[str, Any]
    """api, driver, custom_string, weight, internal, total (the last three in bytes)."""
    allocations: tuple[Allocation, ...]
    submits: tuple[Submit, ...]
    outputs: tuple[bytes, ...]
    events: tuple[Mapping[str, Any], ...]
    """The raw log of the device."""
    seconds: float

    @property
    def signal(self) -> str | None:
        """SIGSEGV, SIGABRT, ... if the runtime crashed."""
        return signal.Signals(-self.exit_code).name if self.exit_code < 0 else None

    def code(self, call: str) -> int | None:
        """The last return code of a call; None if it was not made or did not return."""
        return next((entry.code for entry in reversed(self.calls) if entry.name == call), None)

    def allocation(self, name: str) -> Allocation:
        """The first allocation of this name."""
        found = [allocation for allocation in self.allocations if allocation.name == name]
        if not found:
            raise KeyError(f"no allocation {name!r}; there are: {', '.join(a.name for a in self.allocations)}")
        return found[0]

    def tensors_of(self, role: str) -> tuple[Tensor, ...]:
        return tuple(tensor for tensor in self.tensors if tensor.role == role)



# ----------------------------------------------------------------------------------------------------------------------
# Reading what was written

_ALLOCATED = re.compile(r"allocated memory, name: (?P<name>.*), virt addr: .*, handle: (?P<handle>\d+),")


def _read_lines(path: Path) -> list[dict[str, Any]]:
    """JSON lines; the last one may be cut off by a crash."""
    if not path.exists():
        return []
    lines = path.read_bytes().decode("utf-8", "replace").split("\n")
    return [json.loads(line) for line in lines[:-1]]


def read_testimony(folder: Path, process: subprocess.CompletedProcess[bytes], seconds: float) -> Testimony:
    report, events = _read_lines(folder / "report"), _read_lines(folder / "log")
    stdout = process.stdout.decode("utf-8", "replace")
    stderr = process.stderr.decode("utf-8", "replace")
    if not report and process.returncode:
        raise WitnessMissingError(f"the driver did not start (exit code {process.returncode}): {stderr.strip()[:500]}")
    tensors = tuple(_tensor(line) for line in report if "tensor" in line)
    allocations = _allocations(events, stdout, report, tensors)
    outputs = sorted((folder / "outputs").iterdir(), key=lambda path: int(path.name))
    last = report[-1] if report else {}
    return Testimony(
        exit_code=process.returncode,
        stdout=stdout,
        stderr=stderr,
        calls=tuple(Call(line["call"], line["code"]) for line in report if "call" in line),
        died_in=last.get("enter") if process.returncode else None,
        tensors=tensors,
        facts=_facts(report),
        allocations=allocations,
        submits=tuple(_submits(events, allocations, folder / "dumps")),
        outputs=tuple(path.read_bytes() for path in outputs),
        events=tuple(events),
        seconds=seconds,
    )


def _facts(report: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    wanted = ("api", "driver", "custom_string", "weight", "internal", "total")
    return {name: line[name] for line in report for name in wanted if name in line}


def _named(names: Sequence[str], number: int) -> str:
    return names[number] if 0 <= number < len(names) else f"unknown {number}"


def _tensor(line: Mapping[str, Any]) -> Tensor:
    return Tensor(
        role=line["tensor"],
        index=line["index"],
        name=line["name"],
        shape=tuple(line["dims"]),
        type=_named(TYPES, line["type"]),
        layout=_named(LAYOUTS, line["layout"]),
        size_bytes=line["size"],
        size_with_stride_bytes=line["size_with_stride"],
        width_stride=line["width_stride"],
        scale=float(line["scale"]),
        zero_point=line["zero_point"],
    )


def _allocations(
    events: Iterable[Mapping[str, Any]], stdout: str, report: Iterable[Mapping[str, Any]], tensors: Iterable[Tensor]
) -> tuple[Allocation, ...]:
    printed = {int(match["handle"]): match["name"] for match in _ALLOCATED.finditer(stdout)}
    known = {(tensor.role, tensor.index): tensor.name for tensor in tensors}
    bound = {line["address"]: known[line["memory"], line["index"]] for line in report if "memory" in line}
    return tuple(
        Allocation(
            handle=event["handle"],
            name=bound.get(event["address"], printed.get(event["handle"], "")),
            address=event["address"],
            requested_bytes=event["requested"],
            size_bytes=event["size"],
            flags=event["flags"],
        )
        for event in events
        if event["event"] == "create"
    )


def _submits(
    events: Iterable[Mapping[str, Any]], allocations: Iterable[Allocation], dumps: Path
) -> Iterator[Submit]:
    by_handle = {allocation.handle: allocation for allocation in allocations}
    contents = {path.name: path.read_bytes() for path in dumps.iterdir()}  # one file for each state of each buffer
    for event in events:
        if event["event"] != "submit":
            continue
        files = [(handle, f"{handle}.{version}") for handle, version in event["buffers"]]
        yield Submit(
            flags=event["flags"],
            core_mask=event["core_mask"],
            task_start=event["task_start"],
            task_count=event["task_count"],
            cores=tuple((start, count) for start, count in event["cores"]),
            priority=event["priority"],
            timeout=event["timeout"],
            task_handle=event["task_handle"],
            buffers=tuple(Buffer(by_handle[handle], contents[name]) for handle, name in files if name in contents),
        )
