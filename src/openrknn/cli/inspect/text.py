"""The overview that `openrknn inspect` draws in a terminal."""

from __future__ import annotations

import os
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from openrknn.analysis.board_time import range_text, where_text
from openrknn.analysis.reports import Finding, InputReport, ModelReport, OutputReport, Severity, Totals
from openrknn.cli.common.output import Output, printable
from openrknn.cli.common.tables import facts, indented, title
from openrknn.cli.inspect import tables
from openrknn.quantities import count_of, count_text, numbers_text, shape_text, size_text

__all__ = ["overview"]

_FEW_OPERATORS = 16
_LONG_TABLE = 250
_BLANK = Text("")
_STYLES = {Severity.NOTE: "cyan", Severity.WARNING: "yellow", Severity.ERROR: "bold red"}


def overview(report: ModelReport, output: Output, *, show_all: bool = False) -> None:
    """Everything a newcomer wants to know, the most urgent first."""
    output.show(_head(report))
    output.show(title("Inputs"), *indented(*map(_input, report.inputs)))
    output.show(title("Outputs"), *indented(*_outputs(report.outputs)))
    if report.is_dynamic:
        output.show(title("Shapes"), *indented(tables.shapes(report)))
    operators = report.graphs[0].totals.operators
    output.show(title(_operator_title(report)))
    width = output.console.width
    few = show_all or operators <= _FEW_OPERATORS
    if few:
        _show_table(tables.operators(report.graphs[0], width), output)
    else:
        output.show(*indented(tables.operator_types(report.graphs[0], width)), _BLANK)
        output.show(*indented(tables.heaviest(report.graphs[0], width)), _BLANK)
        line = None if output.console.options.ascii_only else tables.memory_line(report.graphs[0], width - 4)
        output.show(*indented(*([line] if line else [])), _BLANK)
        output.show(*indented(Text(f"--all lists all {operators} operators and the memory plan", "dim")))
    if show_all:
        output.show(title("Internal memory"))
        _show_table(tables.memory(report.graphs[0]), output)
    if report.findings:
        output.show(title("Watch out for"), *indented(*map(_finding, report.findings)))


def _show_table(table: Table, output: Output) -> None:
    if table.row_count <= _LONG_TABLE:
        output.show(*indented(table))
        return
    for line in tables.plain_lines(table):
        output.line(f"  {line}")


def _head(report: ModelReport) -> RenderableType:
    name = os.path.basename(report.path) if report.path else "model"
    heading = Text.assemble((printable(name), "bold"), f"  {size_text(report.size_bytes)}")
    return Panel(facts(_head_rows(report)), title=heading, title_align="left", border_style="blue", expand=False)


def _head_rows(report: ModelReport) -> list[tuple[str, str]]:
    origin, totals = report.origin, report.graphs[0].totals
    cores = count_of(origin.cores, "core")
    return [
        ("built for", f"{origin.chip} ({origin.target}, {cores})"),
        ("built by", f"{_builder(origin.toolkit_version)} from {origin.framework or 'unknown'}"),
        ("format", f"model format {origin.format_version}, container {origin.container_version:#x} ({origin.flavour})"),
        ("runtime", _runtime(report)),
        ("", report.runtime.refused_by),
        ("operators", _placed(totals)),
        ("work", f"{_macs(totals)}, {count_of(totals.tasks.get('1', 0), 'task')}"),
        ("time", _time(report)),
        (
            "memory",
            f"weights {size_text(totals.weight_bytes + totals.constant_bytes)}, "
            f"activations {size_text(totals.internal_bytes)}, commands {size_text(totals.command_bytes)}",
        ),
        ("batch", f"{report.batch_size} inputs per run" if report.batch_size > 1 else ""),
        ("shapes", f"dynamic: {report.graph_count} graphs" if report.is_dynamic else ""),
        ("custom text", report.custom_string),
    ]


def _builder(version: str) -> str:
    """Our own compiler gives its name with its version."""
    return version if version.startswith("openrknn") else f"rknn-toolkit2 {version or '(unknown)'}"


def _runtime(report: ModelReport) -> str:
    need = report.runtime
    oldest = f"{need.library} {need.version} and newer load it ({need.certainty})" if need.version else need.library
    advised = f"the vendor advises {need.advised} and newer" if need.advised else ""
    return "; ".join(text for text in (oldest, advised) if text)


def _macs(totals: Totals) -> str:
    unknown = f" + {totals.macs_unknown} operators of unknown work" if totals.macs_unknown else ""
    return f"{count_text(totals.macs)}MAC{unknown}"


def _time(report: ModelReport) -> str:
    if report.estimate is None or not report.estimate.bound:
        return ""
    return f"{range_text(report.estimate)}, one core: {where_text(report.estimate)}"


def _placed(totals: Totals) -> str:
    if len(totals.placements) == 1:
        return f"{totals.operators}, all on the {next(iter(totals.placements)).upper()}"
    return ", ".join(f"{count} on the {name.upper()}" for name, count in totals.placements.items())


def _input(item: InputReport) -> RenderableType:
    rows = [
        ("feed", item.feed),
        ("mean", numbers_text(item.mean) if item.normalizes else ""),
        ("std", numbers_text(item.std) if item.normalizes else ""),
        ("inside", _inside(item)),
    ]
    return Group(_headline(item), Padding(facts(rows, "dim"), (0, 0, 0, 2), expand=False))


def _headline(item: InputReport | OutputReport) -> Text:
    text = f"  {item.dtype} {shape_text(item.shape)} {tables.layout_text(item)}".rstrip()
    return Text.assemble((printable(item.name), "bold green"), text)


def _inside(item: InputReport | OutputReport) -> str:
    parts = []
    if item.scale is not None:
        parts.append(f"scale {item.scale:.6g}, zero point {item.zero_point}")
    if item.range is not None:
        parts.append(f"holds {item.range[0]:.4g} .. {item.range[1]:.4g}")
    if item.native_layout not in {item.layout, "undefined"}:
        parts.append(f"{item.native_layout.upper()} {shape_text(item.native_shape)} in memory")
    return ", ".join(parts)


def _outputs(items: Sequence[OutputReport]) -> list[RenderableType]:
    """One output in words, several as a table."""
    if len(items) == 1:
        return [
            Group(
                _headline(items[0]),
                Padding(
                    facts([("read", items[0].read), ("inside", _inside(items[0]))], "dim"), (0, 0, 0, 2), expand=False
                ),
            )
        ]
    return [
        tables.outputs(items),
        Text("read: ask the runtime for float32, or compute (q - zero point) * scale", "dim"),
    ]


def _operator_title(report: ModelReport) -> str:
    return f"Operators of graph {report.graphs[0].index}" if report.is_dynamic else "Operators"


def _finding(finding: Finding) -> RenderableType:
    grid = Table.grid(padding=(0, 1))
    grid.add_column(no_wrap=True, min_width=len(Severity.WARNING))
    grid.add_column(overflow="fold")
    grid.add_row(Text(str(finding.severity), _STYLES[finding.severity]), Text(printable(finding.what)))
    if finding.why:
        grid.add_row("", Text(f"why: {printable(finding.why)}", "dim"))
    if finding.action:
        grid.add_row("", Text(f"do:  {printable(finding.action)}", "dim"))
    return grid
