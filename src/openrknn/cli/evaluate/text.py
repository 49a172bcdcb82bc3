"""What `openrknn evaluate` prints: the numbers of both models, the classes, and what to know about them."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from openrknn.cli.common.output import Output, printable
from openrknn.cli.common.tables import indented, table, title
from openrknn.evaluate.metrics.names import METRICS
from openrknn.evaluate.report import Report
from openrknn.evaluate.words import next_step, sentence
from openrknn.quantities import count_of, duration

__all__ = ["show"]

_MOST_CLASSES = 25
_MOST_PROBLEMS = 5
_ENDS = {"budget": "the time was over", "interrupted": "interrupted", "limit": "as --limit says"}


def show(report: Report, failures: Sequence[str], output: Output) -> None:
    """For people."""
    output.show(title(printable(report.model.model)))
    end = f", {_ENDS[report.end]}" if report.end in _ENDS else ""
    samples = f"{report.evaluated} of {count_of(report.total, 'sample')}{end}"
    about = f"{report.model.about}; {report.kind} in {report.dataset}: {samples}, {duration(report.seconds)}"
    output.show(*indented(Text(printable(about), "dim")))
    output.show(Text(""), *indented(_numbers(report)))
    if report.model.scores.classes:
        output.show(Text(""), *indented(_classes(report)))
    if report.worst:
        output.show(Text(""), *indented(_worst(report)))
    for name, why in report.problems[:_MOST_PROBLEMS]:
        output.complain(f"{name}: {why}; left out")
    if len(report.problems) > _MOST_PROBLEMS:
        output.complain(f"{len(report.problems) - _MOST_PROBLEMS} more samples were left out")
    for note in report.notes:
        output.complain(f"note: {note}")
    output.show(Text(""), *indented(Text(printable(sentence(report)), "bold")))
    for failure in failures:
        output.show(*indented(Text(printable(failure), "bold red")))
    step = next_step(report)
    if step:
        output.show(*indented(Text(f"next: {step}")))


def _numbers(report: Report) -> Table:
    has_float = report.reference is not None
    columns = ("metric", "NPU" if has_float else "value", *(("float", "loss") if has_float else ()), "")
    grid = table(*columns, right=columns[1:-1])
    for name, value in report.model.scores.values.items():
        metric = METRICS[name]
        row = [Text(metric.title, "bold" if name == report.primary else ""), Text(metric.text(value))]
        if report.reference is not None:
            row += [Text(metric.text(report.reference.scores.values.get(name))), _loss(report, name)]
        grid.add_row(*row, Text(metric.about, "dim"))
    return grid


def _loss(report: Report, name: str) -> Text:
    drop = report.drop_of(name)
    if drop is None:
        return Text("-")
    size = 100 * drop if METRICS[name].is_share else drop
    is_bad = METRICS[name].is_share and drop > 0.01
    return Text(f"{size:+.1f}" if METRICS[name].is_share else f"{size:+.3g}", "yellow" if is_bad else "")


def _classes(report: Report) -> Table:
    """All classes, the worst of both first if there are too many."""
    rows = [row for row in report.model.scores.classes if row.count]
    others = {row.name: row.value for row in report.reference.scores.classes} if report.reference else {}
    metric = report.metric
    if len(rows) > _MOST_CLASSES:
        rows = sorted(rows, key=lambda row: _rank(row.value, others.get(row.name)))[:_MOST_CLASSES]
        heading = f"the {_MOST_CLASSES} worst of {len(report.model.scores.classes)} classes; --json has all"
    else:
        heading = None
    columns = ("class", "count", "NPU" if others else metric.title, *(("float", "loss") if others else ()))
    grid = table(*columns, right=columns[1:], heading=heading)
    for row in rows:
        cells = [printable(row.name)[:40], str(row.count), metric.text(row.value)]
        if others:
            other = others.get(row.name)
            loss = "-" if other is None or row.value is None else f"{100 * metric.loss(row.value, other):+.1f}"
            cells += [metric.text(other), loss]
        grid.add_row(*(Text(cell) for cell in cells))
    return grid


def _rank(value: float | None, other: float | None) -> tuple[float, float]:
    own = value if value is not None else 0.0
    return (own - other if other is not None else 0.0, own)


def _worst(report: Report) -> Table:
    has_float = report.reference is not None
    has_expected = any(one.expected for one in report.worst)
    columns = ("worst samples", "NPU" if has_float else "", *(("float",) if has_float else ()),
               *(("expected",) if has_expected else ()), "found" if has_expected else "errors")  # fmt: skip
    wrapped = ("worst samples", "expected", "found", "errors")
    grid = table(*columns, right=columns[1 : 3 if has_float else 2], wrap=wrapped)
    for one in report.worst:
        cells = [one.name, f"{100 * one.quality:.0f} %"]
        if has_float:
            cells.append("-" if one.reference_quality is None else f"{100 * one.reference_quality:.0f} %")
        cells += [one.expected[:200]] if has_expected else []
        cells.append(one.said[:200])
        grid.add_row(*(Text(printable(cell)) for cell in cells))
    return grid
