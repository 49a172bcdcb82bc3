"""`openrknn inspect` of a model in parts: what runs where, and why."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from openrknn.analysis.parted.report import (
    PartedReport,
    describe_parts,
    inside,
    parted_json,
    port_text,
)
from openrknn.cli.common.files import save_page
from openrknn.cli.common.output import CommandError, Output, printable
from openrknn.cli.common.tables import bar, facts, indented, table, title
from openrknn.pages.parted.strips import types_text
from openrknn.quantities import count_of, count_text, duration, shape_text, size_text

if TYPE_CHECKING:
    from openrknn.container.bundle import Bundle

__all__ = ["inspect_parts"]

_BAR_CELLS = 12
_NARROW = 90
_FEW_NOTES = 12
_FEW_TYPES = 6
_COLOURS = {"npu": "green", "cpu": "yellow"}
EXIT_DAMAGED = 1


def inspect_parts(bundle: Bundle, arguments: argparse.Namespace, output: Output) -> int:
    """Describe one model in parts."""
    if arguments.graph is not None:
        raise CommandError(f"{arguments.file} is in parts and has no graphs; extract a part to look at its graphs")
    report = describe_parts(bundle)
    problems = [f"{part.file}: {part.problem}" for part in report.parts if part.problem]
    if arguments.html:
        from openrknn.pages.parted.page import parted_page

        save_page(arguments.html, parted_page(bundle), output)
    elif output.is_json:
        output.data(parted_json(bundle, report))
    elif output.is_human:
        _overview(bundle, report, output, show_all=arguments.all)
    else:
        for problem in problems:
            output.value(f"error: {problem}")
    return EXIT_DAMAGED if problems else 0


def _overview(bundle: Bundle, report: PartedReport, output: Output, *, show_all: bool) -> None:
    name = os.path.basename(report.path) if report.path else "model"
    heading = Text.assemble((printable(name), "bold"), f"  in {count_of(len(report.parts), 'part')}")
    output.show(Panel(facts(_head(report)), title=heading, title_align="left", border_style="blue", expand=False))
    for words, ports in (("Inputs", report.inputs), ("Outputs", report.outputs)):
        rows = [Text.assemble((printable(port.name), "bold green"), f"  {port_text(port)}") for port in ports]
        output.show(title(words), *indented(*rows))
    if len(report.plans) > 1:
        output.show(title("Shapes"), *indented(_plans(report)))
    output.show(title("Parts, in the order in which they run"), *indented(_parts(report, output)))
    if report.notes:
        shown = report.notes if show_all else report.notes[:_FEW_NOTES]
        output.show(title("Operators that stay on the CPU"))
        output.show(*indented(*(Text(printable(note)) for note in shown)))
        if len(shown) < len(report.notes):
            output.show(*indented(Text(f"and {len(report.notes) - len(shown)} more: --all lists them", "dim")))
    if show_all:
        _inside(bundle, report, output)
    else:
        hint = "--all shows the inside of each part; `openrknn extract` writes them to files"
        output.show(Text(f"\n{hint}", "dim"))


def _head(report: PartedReport) -> list[tuple[str, str]]:
    plan = report.first
    kinds = [part.kind for part in report.ordered()]
    share = f"{report.npu_share:.1%} of {count_text(plan.macs)}MAC" if plan.macs else "no multiplications in it"
    time = f"about {duration(plan.board_us / 1e6)} on a board, {duration(plan.cpu_us / 1e6)} on its CPU alone"
    return [
        ("built for", report.chip + (f", {report.precision}" if report.precision else "")),
        ("built by", report.made_by),
        ("parts", f"{kinds.count('npu')} on the NPU, {kinds.count('cpu')} on the CPU (ONNX Runtime)"),
        ("on the NPU", share),
        ("time", time),
        ("size", size_text(report.size_bytes)),
        ("shapes", f"{len(report.plans)} choices" if len(report.plans) > 1 else ""),
        ("batches", f"filled up with rows: {', '.join(report.padded)}" if report.padded else ""),
    ]


def _plans(report: PartedReport) -> Table:
    columns = ("shapes", "parts", "MAC", "on the NPU", "board")
    rows = table(*columns, right=columns[2:], wrap=("shapes", "parts"))
    for plan in report.plans:
        rows.add_row(
            printable(_shapes(plan.shapes)) or "any",
            " ".join(map(str, plan.parts)),
            count_text(plan.macs),
            f"{plan.npu_macs / plan.macs:.1%}" if plan.macs else "",
            duration(plan.board_us / 1e6),
        )
    return rows


def _shapes(shapes: Mapping[str, tuple[int, ...]]) -> str:
    return ", ".join(f"{name} {shape_text(shape)}" for name, shape in shapes.items())


def _parts(report: PartedReport, output: Output) -> Table:
    is_narrow = output.console.width < _NARROW
    columns = ["#", "on", "operators", "MAC", "", "board", "why"]
    shown = [name for name in columns if not (is_narrow and name == "")]
    right = ("#", "MAC", "board")
    rows = table(*shown, right=right, wrap=("operators", "why"))
    total = max(report.first.board_us, 1e-9)
    for part in report.ordered():
        share = part.board_us / total
        cells = {
            "#": Text(str(part.number)),
            "on": Text(part.kind.upper(), _COLOURS[part.kind]),
            "operators": Text(f"{part.operators}: {printable(types_text(part, _FEW_TYPES, ' ...'))}"),
            "MAC": Text(count_text(part.macs) if part.macs else ""),
            "": Text(bar(share, _BAR_CELLS, ascii_only=output.console.options.ascii_only), _COLOURS[part.kind]),
            "board": Text(duration(part.board_us / 1e6)),
            "why": Text(printable(part.problem or part.reason), "bold red" if part.problem else ""),
        }
        rows.add_row(*(cells[name] for name in shown))
    return rows



def _inside(bundle: Bundle, report: PartedReport, output: Output) -> None:
    from openrknn.cli.inspect.text import overview

    for part in report.ordered():
        flow = f"{', '.join(part.inputs)} -> {', '.join(part.outputs)}"
        output.show(title(f"Part {part.number}, {part.kind.upper()}: {printable(flow)}"))
        known = inside(bundle, part.number)
        if known is not None:
            overview(known.report, output, show_all=True)
        else:
            output.show(*indented(Text(printable(types_text(part, len(part.types)) or part.problem))))
