"""What is in the jobs of a trace: buffers, tasks and commands."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from openrknn.cli.common.folder import Folder
from openrknn.cli.common.output import CommandError, Output

if TYPE_CHECKING:
    from openrknn.trace.archive import Trace
    from openrknn.trace.names import Names
    from openrknn.trace.records import FinishRecord, SubmitRecord
    from openrknn.trace.replay import LoadedJob

__all__ = ["gems", "jobs_of", "loaded", "regs", "tasks"]

_MOST_NAMES = 8


def jobs_of(trace: Trace, arguments: argparse.Namespace) -> Iterator[tuple[int, SubmitRecord, FinishRecord | None]]:
    """The jobs that are asked for, with their numbers."""
    jobs = list(enumerate(trace.jobs(), start=1))
    if arguments.job is not None and not 1 <= arguments.job <= len(jobs):
        raise CommandError(f"there is no job {arguments.job}; the trace has {len(jobs)}, counted from 1")
    for number, (submit, finish) in jobs:
        if arguments.job in (None, number):
            yield number, submit, finish


def loaded(trace: Trace, arguments: argparse.Namespace) -> Iterator[tuple[int, LoadedJob, FinishRecord | None]]:
    """Jobs in the memory of a software NPU; earlier ones are decoded too, because registers outlive jobs."""
    from openrknn.trace.replay import Replayer

    replayer = Replayer(trace)
    wanted = {number for number, _, _ in jobs_of(trace, arguments)}
    for number, (submit, finish) in enumerate(trace.jobs(), start=1):
        job = replayer.load(submit)
        if number in wanted:
            yield number, job, finish


def gems(trace: Trace, arguments: argparse.Namespace, output: Output) -> int:
    """Which buffer is what."""
    from rich.table import Table

    rows = []
    folder = Folder(arguments.output, force=arguments.force) if arguments.output else None
    for number, job, _ in loaded(trace, arguments):
        names = _names(arguments, job)
        heads = ("buffer", "device address", "size", "role", *(("what is in it",) if names.ranges else ()))
        table = Table(*heads, box=None, header_style="bold", title=f"job {number}")
        for state in job.submit.buffers:
            role, inside = job.roles[state.serial], names.inside(state.address, state.size)
            cells = (str(state.serial), f"{state.address:#x}", f"{state.size:,}", role)
            table.add_row(*cells, *((_some(inside),) if names.ranges else ()))
            place = {"address": state.address, "size": state.size}
            rows.append({"job": number, "buffer": state.serial, **place, "role": role, "names": inside})
            if folder is not None:
                name = f"job{number}_buffer{state.serial}.bin"
                folder.add_bytes(name, trace.contents(state), role, job=number, buffer=state.serial)
        output.show(table)
    if folder is not None:
        folder.finish(trace=str(trace.path))
    output.data({"buffers": rows})
    return 0


def _some(names: list[str]) -> str:
    rest = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {rest} more" if rest > 0 else "")


def _names(arguments: argparse.Namespace, job: LoadedJob) -> Names:
    """Names for addresses, if a log or a model is given; the model's count more."""
    from openrknn.container.load import load
    from openrknn.trace.names import Names, names_from_log, names_from_model

    names = Names()
    if arguments.log:
        names.ranges += names_from_log(Path(arguments.log).read_text(encoding="utf-8", errors="replace")).ranges
    if arguments.model:
        names.ranges += names_from_model(load(arguments.model), job).ranges
    return names


def tasks(trace: Trace, arguments: argparse.Namespace, output: Output) -> int:
    """What each task does with memory: the path of the data through the network."""
    from rich.table import Table

    from openrknn.fakekernel.space import on_bus
    from openrknn.trace.roles import reads_of

    rows = []
    for number, job, _ in loaded(trace, arguments):
        names = _names(arguments, job)
        table = Table("task", "what", "reads", "writes", box=None, header_style="bold", title=f"job {number}")
        for step in job.program.steps:
            reads = [_place(job, names, on_bus(job.submit.base, address)) for _, address in reads_of(step)]
            writes = [_place(job, names, on_bus(job.submit.base, address)) for address, _ in step.writes()]
            table.add_row(str(step.task), step.kind, "\n".join(reads), "\n".join(writes))
            rows.append({"job": number, "task": step.task, "kind": step.kind, "reads": reads, "writes": writes})
        output.show(table)
    output.data({"tasks": rows})
    return 0


def _place(job: LoadedJob, names: Names, address: int) -> str:
    """A device address, the role of its buffer, and a name if there is one."""
    holders = (state for state in job.submit.buffers if state.address <= address < state.address + state.size)
    role = next((job.roles[state.serial] for state in holders), "no buffer")
    name = names.at(address)
    return f"{address:#x} {role}" + (f": {name}" if name else "")


def regs(trace: Trace, arguments: argparse.Namespace, output: Output) -> int:
    """The commands of the tasks, decoded."""
    from openrknn import isa
    from openrknn.fakekernel.space import on_bus
    from openrknn.trace.replay import task_references

    registers = isa.map_for(trace.chip)
    listing = []
    for number, job, _ in loaded(trace, arguments):
        for core in sorted(job.submit.lists):
            for task in task_references(job.submit, core):
                size = (task.amount + isa.TAIL_WORDS) * isa.WORD_BYTES
                words = job.memory.view(task.address, size, "commands").view("<u8").tolist()
                place = f"job {number}, core {core}, task {task.number}"
                output.line(f"# {place}, operator {task.operator}, at {on_bus(job.submit.base, task.address):#x}")
                for index, (word, one) in enumerate(zip(words, isa.disassemble(words, registers), strict=True)):
                    text, address = isa.format_instruction(one), on_bus(job.submit.base, task.address + 8 * index)
                    row = {"job": number, "core": core, "task": task.number, "text": text}
                    listing.append({**row, "address": address, "word": f"{word:#018x}", **_parts(word)})
                    output.line((_raw(address, word) if arguments.raw else "") + text)
    output.data({"commands": listing})
    return 0


def _parts(word: int) -> dict[str, int]:
    from openrknn.isa import Command

    command = Command.decode(word)
    return {"offset": command.offset, "value": command.value}


def _raw(address: int, word: int) -> str:
    """Where the word is, the word itself, the offset of the register in it, and the value."""
    parts = _parts(word)
    return f"{address:#010x}  {word:#018x}  {parts['offset']:#06x} {parts['value']:#010x}  "
