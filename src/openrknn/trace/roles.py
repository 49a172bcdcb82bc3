"""Which buffer is what: weights, instructions, tasks, working memory, input, output.

A driver's interface does not show it. It follows from what the tasks of a job do with each buffer: where commands are
fetched from, what is only read as weights, what is read and never written, and so on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from openrknn.npu.task import Chained, Convolution, Flying, Pooling, Step
from openrknn.trace.records import BufferState


def reads_of(step: Step) -> Iterator[tuple[str, int]]:
    """(what it is, address) of everything that a step reads."""
    match step:
        case Convolution():
            yield "data", step.source.feature_address
            yield "weights", step.source.weight_address
            yield from _operands(step)
        case Flying():
            if step.reader.main is not None:
                yield "data", step.reader.main.address
            yield from _operands(step)
        case Pooling():
            yield "data", step.config.source_address


def _operands(step: Convolution | Flying) -> Iterator[tuple[str, int]]:
    reader = step.reader
    if reader is None:
        return
    if reader.bias_kinds:
        yield "weights", reader.bias_address
    if reader.norm_kinds:
        yield "weights", reader.norm_address
    if reader.operand is not None and not isinstance(step, Chained):
        yield "data", reader.operand.walk.address


def buffer_roles(
    buffers: Iterable[BufferState], steps: Iterable[Step], commands: Iterable[int], tasks: int | None
) -> dict[int, str]:
    """Serial number of each buffer -> its role; `commands` are fetch addresses, `tasks` the buffer of the records."""
    known = list(buffers)
    uses: dict[int, set[str]] = defaultdict(set)

    def note(address: int, use: str) -> None:
        for buffer in known:
            if buffer.address <= address < buffer.address + buffer.size:
                uses[buffer.serial].add(use)

    for address in commands:
        note(address, "commands")
    for step in steps:
        for use, address in reads_of(step):
            note(address, use)
        for address, _ in step.writes():
            note(address, "written")
    if tasks is not None:
        uses[tasks].add("tasks")
    return {buffer.serial: _role(uses[buffer.serial]) for buffer in known}


def _role(uses: set[str]) -> str:
    if "tasks" in uses:
        return "tasks"
    if "commands" in uses and "weights" in uses:
        return "weights and instructions"
    if "commands" in uses:
        return "instructions"
    if "written" in uses:
        return "working memory" if "data" in uses or "weights" in uses else "output"
    if "weights" in uses:
        return "weights"
    return "input" if "data" in uses else "not used by this job"
