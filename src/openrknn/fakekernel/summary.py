"""What a device did, in a line for people."""

from __future__ import annotations

from openrknn.fakekernel.device import Status
from openrknn.fakekernel.jobs import Totals

__all__ = ["status_line", "summary"]

_STEPS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def summary(totals: Totals, seconds: float, what: str) -> str:
    """At the end."""
    if not totals.jobs:
        return f"no job was submitted to the emulated NPU ({what}) in {seconds:.2f} s"
    failed = f" ({totals.failed} failed)" if totals.failed else ""
    noted = "".join(f"\nnote: {text}" for text in totals.notes)
    return (
        f"{_count(totals.jobs, 'job')}{failed}, {_count(totals.tasks, 'task')}, {_number(totals.macs)}MAC: "
        f"{totals.nanoseconds / 1e9:.2f} s on the emulated NPU ({what}), {seconds:.2f} s in all{noted}"
    )


def status_line(status: Status) -> str:
    """While it runs."""
    load = " ".join(f"{percent}%" for percent in status.load)
    return (
        f"{_count(status.processes, 'program')}, {_count(status.buffers, 'buffer')} "
        f"({status.buffer_bytes / 2**20:.1f} MiB), {_count(status.totals.jobs, 'job')}, load {load}"
    )


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _number(value: int) -> str:
    for size, letter in _STEPS:
        if value >= size:
            return f"{value / size:.3g} {letter}"
    return f"{value} "
