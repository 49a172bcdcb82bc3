"""What `openrknn coverage` draws in a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from rich.table import Table
from rich.text import Text

from openrknn.analysis.register_use.scan import Problem
from openrknn.analysis.register_use.summary import FieldUse, RegisterUse, Report, Status
from openrknn.cli.common.output import Output, printable
from openrknn.cli.common.tables import indented, table, title
from openrknn.quantities import count_of, count_text

__all__ = ["show"]

_STYLES = {
    Status.COMPUTED: "green",
    Status.ZERO: "cyan",
    Status.WAIVED: "cyan",
    Status.IGNORED: "yellow",
    Status.UNUSED: "dim",
    Status.MISSING: "bold red",
    Status.OTHER_CHIP: "bold red",
}
_MOST_VALUES = 6
_MOST_PROBLEMS = 20
_NARROW = 80


def show(report: Report, output: Output, *, show_all: bool) -> None:
    """The summary; with `show_all` every register and field."""
    tasks, commands = sum(row.tasks for row in report.files), sum(row.commands for row in report.files)
    files = count_of(len(report.files), "model")
    output.show(Text(f"{files}, {count_of(tasks, 'task')}, {count_text(commands).strip()} commands"))
    output.show(title("Fields of the registers they write"), *indented(_summary(report, output.console.width)))
    if show_all:
        for family in _families(report):
            output.show(title(f"Registers of {family.upper()}"), *indented(_registers(report, family)))
    ignored = list(_ignored(report))
    if ignored and show_all:
        output.show(title("Set, but not used by any block"), *indented(_fields(ignored)))
    elif report.registers:
        output.show(Text("\n  --all lists every field, with the values seen", "dim"))
    if report.problems:
        output.show(title("Missing"), *indented(_problems(report.problems)))
    else:
        output.show(title("Nothing is missing: the software NPU can execute every task."))


def _families(report: Report) -> list[str]:
    return list(dict.fromkeys(row.chip_family for row in report.registers))


def _summary(report: Report, width: int) -> Table:
    """Fields per block and state; a chip that is not implemented is one line. Narrow terminals have the states only."""
    states = [state for state in Status if any(item.status is state for row in report.registers for item in row.fields)]
    heads = ("registers", *states, "modes") if width >= _NARROW else (*states,)
    rows = table("chip", "block", *heads, right=heads, wrap=heads)
    for family in _families(report):
        of_family = [row for row in report.registers if row.chip_family == family]
        blocks = dict.fromkeys(row.block for row in of_family)
        if all(row.status is Status.OTHER_CHIP for row in of_family):
            _add(rows, family, count_of(len(blocks), "block"), of_family, states)
            continue
        for block in blocks:
            _add(rows, family, block, [row for row in of_family if row.block == block], states)
    return rows


def _add(rows: Table, family: str, block: str, uses: list[RegisterUse], states: list[Status]) -> None:
    counts = Counter(item.status for row in uses for item in row.fields)
    modes = sum(len(item.values) for row in uses for item in row.fields if item.is_mode)
    cells = [Text(str(counts[state] or ""), _STYLES[state]) for state in states]
    is_narrow = len(rows.columns) == len(states) + 2
    rows.add_row(family, block, *(cells if is_narrow else [str(len(uses)), *cells, str(modes)]))


def _registers(report: Report, family: str) -> Table:
    rows = table("register", "field", "bits", "state", "files", "values seen", right=("files",), wrap=("values seen",))
    for row in report.registers:
        if row.chip_family != family:
            continue
        name = f"{row.block}.{row.name}"
        if row.undeclared:
            rows.add_row(name, "(undeclared)", "", Text(Status.MISSING, "bold red"), "", f"bits {row.undeclared:#x}")
        for item in row.fields:
            state = Text(item.status, _STYLES[item.status])
            rows.add_row(name, item.name, item.bits, state, str(row.files), _seen(item))
            name = ""
    return rows


def _seen(item: FieldUse) -> str:
    if not item.is_mode and len(item.values) > _MOST_VALUES:
        low, high = item.span
        return f"{low} .. {high}" if abs(low) < 1 << 16 and high < 1 << 16 else f"{low:#x} .. {high:#x}"
    most = item.values.most_common(_MOST_VALUES)
    more = ", ..." if len(item.values) > _MOST_VALUES else ""
    return ", ".join(f"{value} ({count_text(count).strip()})" for value, count in most) + more


def _ignored(report: Report) -> Iterator[tuple[RegisterUse, FieldUse]]:
    for row in report.registers:
        for item in row.fields:
            if item.status is Status.IGNORED:
                yield row, item


def _fields(found: Iterable[tuple[RegisterUse, FieldUse]]) -> Table:
    rows = table("field", "values seen", "what it is", wrap=("values seen", "what it is"))
    for row, item in found:
        rows.add_row(f"{row.block}.{row.name}.{item.name}", _seen(item), item.text)
    return rows


def _problems(problems: list[Problem]) -> Table:
    """Equal problems once, with the first place and how many there are."""
    counts = Counter((problem.register, problem.text) for problem in problems)
    first = {(problem.register, problem.text): problem for problem in reversed(problems)}
    rows = table("times", "what", "first seen in", right=("times",), wrap=("what", "first seen in"))
    for (register, text), count in counts.most_common(_MOST_PROBLEMS):
        what = f"{register}: {text}" if register else text
        rows.add_row(str(count), Text(printable(what), "red"), printable(first[register, text].place))
    if len(counts) > _MOST_PROBLEMS:
        rows.add_row("", f"and {len(counts) - _MOST_PROBLEMS} more kinds; --json lists them all", "")
    return rows
