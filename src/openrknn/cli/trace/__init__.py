"""`openrknn trace`: inspect a recorded trace, and replay it on the software NPU."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from openrknn.cli.common.files import save_atomically
from openrknn.cli.common.output import CommandError, Output
from openrknn.cli.common.outputs import PAGE, OutputFile, check_file
from openrknn.cli.trace.jobs import gems, jobs_of, regs, tasks
from openrknn.quantities import count_of

if TYPE_CHECKING:
    from openrknn.trace.archive import Trace

NAME = "trace"
HELP = "inspect a recorded trace, or replay it on the software NPU"
DESCRIPTION = """A trace holds every request of a program to the NPU driver, and the device memory at each job.
`openrknn exec --trace FILE -- PROGRAM` records one."""
EXAMPLES = (
    "openrknn trace show run.trace                 every ioctl in order",
    "openrknn trace jobs run.trace                 what was submitted, and how long it took",
    "openrknn trace gems run.trace                 which buffer is weights, instructions, input, output ...",
    "openrknn trace tasks run.trace --model m.rknn   what each task reads and writes, by name",
    "openrknn trace regs run.trace --job 1         the register commands of a job, decoded",
    "openrknn trace regs run.trace --raw           the same with each word, its offset and its value in hex",
    "openrknn trace replay run.trace               the jobs again on the software NPU, compared with the recording",
    "openrknn trace diff a.trace b.trace           where two traces diverge",
    "openrknn trace timeline run.trace -o run.html   jobs, ioctls and buffers over time, as a page",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's own arguments."""
    parser.add_argument("what", choices=sorted(_ACTIONS), help="what to do")
    parser.add_argument("file", metavar="FILE", help="a trace")
    parser.add_argument("other", metavar="OTHER", nargs="?", help="diff: the trace to compare with")
    parser.add_argument(
        "-o", "--output", metavar="FILE", action=OutputFile, kind=PAGE, is_folder=lambda given: given.what == "gems",
        help="timeline: the page; gems: a folder for their contents",
    )  # fmt: skip
    parser.add_argument("--log", metavar="FILE", help="gems, tasks: the vendor's log, which names buffers and tensors")
    parser.add_argument("--model", metavar="FILE", help="gems, tasks: the .rknn that ran; its relocations name tensors")
    parser.add_argument("--raw", action="store_true", help="regs: with address, word, offset and value in hex")
    parser.add_argument("--job", type=int, metavar="N", help="only this job, counted from 1")


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Do what was asked for."""
    from openrknn.trace.archive import Trace

    if arguments.output and arguments.what not in ("timeline", "gems"):
        raise CommandError(f"trace {arguments.what} writes no file; -o belongs to timeline and gems")
    with Trace(arguments.file) as trace:
        return _ACTIONS[arguments.what](trace, arguments, output)


def _show(trace: Trace, arguments: argparse.Namespace, output: Output) -> int:
    from openrknn.trace.records import CallRecord, CloseRecord, FinishRecord, MapRecord, OpenRecord, SubmitRecord

    lines = []
    for event in trace.events:
        match event:
            case OpenRecord():
                text = f"open   {event.path} as file {event.file} by process {event.process}"
            case CallRecord():
                changed = {name: value for name, value in event.after.items() if event.before.get(name) != value}
                name = event.name + (f" {_action(event.before.get('flags', 0))}" if event.name == "ACTION" else "")
                text = f"ioctl  {name} {_values(event.before)} -> {event.result} {_values(changed)}".rstrip()
            case MapRecord():
                text = f"mmap   file {event.file}, {event.length:#x} bytes at {event.offset:#x}"
            case SubmitRecord():
                cores = ", ".join(f"core {core} from task {first}" for core, (first, _) in event.lists.items())
                text = f"job    {event.job} starts: {cores}, {len(event.buffers)} buffers"
            case FinishRecord():
                text = f"job    {event.job} finished: {event.error or 'ok'}, {event.tasks} tasks, {event.macs} MACs"
            case CloseRecord():
                text = f"close  file {event.file}"
        lines.append(text)
        output.line(text)
    output.data({"events": lines})
    return 0


def _action(number: int) -> str:
    from openrknn.uapi.rknpu import Action

    return Action(number).name if number in Action.__members__.values() else ""


def _values(values: object) -> str:
    shown = dict(values) if isinstance(values, dict) else {}
    return " ".join(f"{name}={value:#x}" if value > 9 else f"{name}={value}" for name, value in shown.items() if value)


def _jobs(trace: Trace, arguments: argparse.Namespace, output: Output) -> int:
    from rich.table import Table

    table = Table("job", "cores", "tasks", "MACs", "time", "end", box=None, header_style="bold")
    rows = []
    for number, submit, finish in jobs_of(trace, arguments):
        cores = ", ".join(str(core) for core in submit.lists)
        tasks, macs = (finish.tasks, finish.macs) if finish else (0, 0)
        milliseconds = finish.nanoseconds / 1e6 if finish else 0.0
        end = (finish.error or "ok") if finish else "not recorded"
        rows.append({"job": number, "cores": cores, "tasks": tasks, "macs": macs, "ms": milliseconds, "end": end})
        table.add_row(str(number), cores, str(tasks), f"{macs:,}", f"{milliseconds:.2f} ms", end)
    output.show(table)
    output.data({"jobs": rows})
    return 0


def _replay(trace: Trace, arguments: argparse.Namespace, output: Output) -> int:
    from openrknn.trace.replay import Replayer

    replayer = Replayer(trace)
    found = []
    for number, (submit, finish) in enumerate(trace.jobs(), start=1):
        job = replayer.load(submit)
        if arguments.job not in (None, number):
            continue
        differences = replayer.run(job, finish)
        verdict = "as recorded" if not differences else f"{len(differences)} buffers differ"
        output.line(f"job {number}: {len(job.program.steps)} tasks, {verdict}")
        for entry in differences:
            place = {"buffer": entry.serial, "role": entry.role, "offset": entry.offset}
            where = {"task": entry.task, "register": entry.register, "element": entry.element}
            found.append({"job": number, **place, **where})
            output.line(
                f"  buffer {entry.serial} ({entry.role}): {entry.bytes_that_differ} bytes, first at {entry.offset:#x}: "
                f"recorded {entry.recorded}, replayed {entry.replayed}, written by task {entry.task} "
                f"({entry.register}, element {entry.element})"
            )
    output.data({"differences": found})
    return 1 if found else 0


def _diff(trace: Trace, arguments: argparse.Namespace, output: Output) -> int:
    from openrknn.trace.archive import Trace
    from openrknn.trace.difference import first_divergence
    from openrknn.trace.records import CallRecord

    if not arguments.other:
        raise CommandError("diff needs two traces: openrknn trace diff FILE OTHER")
    with Trace(arguments.other) as other:
        found = first_divergence(trace, other)
        counts = [sum(isinstance(event, CallRecord) for event in side.events) for side in (trace, other)]
    output.data({"first_difference": None if found is None else found.number})
    if found is None:
        output.line(f"{counts[0]} calls, all equal")
        return 0
    if found.first is None or found.second is None:
        output.line(
            f"the first has {counts[0]} calls, the second {counts[1]}; all calls that both have are equal"
        )
        return 1
    output.line(f"call {found.number} differs:")
    for call in (found.first, found.second):
        output.line(f"  {call.name} {_values(call.before)} -> {call.result}")
    return 1


def _timeline(trace: Trace, arguments: argparse.Namespace, output: Output) -> int:
    from openrknn.pages.timeline import render
    from openrknn.trace.timeline import timeline_of

    target = arguments.output or f"{arguments.file}.html"
    check_file(target, arguments, PAGE)
    timeline = timeline_of(trace)
    about = f"{trace.chip}, driver {trace.about.get('driver', 'unknown')}"
    save_atomically(target, render(timeline, trace.path.name, about).encode("utf-8", "backslashreplace"))
    jobs = sum(1 for _ in trace.jobs())
    output.line(f"{target}: {count_of(jobs, 'job')}, {count_of(sum(call.count for call in timeline.calls), 'ioctl')}")
    output.data({"page": target, "jobs": jobs})
    return 0


_ACTIONS: dict[str, Callable[[Trace, argparse.Namespace, Output], int]] = {
    "diff": _diff,
    "gems": gems,
    "jobs": _jobs,
    "regs": regs,
    "replay": _replay,
    "show": _show,
    "tasks": tasks,
    "timeline": _timeline,
}
