"""`openrknn inspect`: what is in a model, what to feed it, what to expect from it."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING

from openrknn.cli.files import load_model
from openrknn.cli.output import CommandError, Output

if TYPE_CHECKING:
    from openrknn.analysis.lint import Finding as LintFinding
    from openrknn.container.model import Model
    from openrknn.container.report import ModelReport

NAME = "inspect"
HELP = "show what is in a model, what to feed it and what to look out for"
DESCRIPTION = """Show what is in a model: who built it for which chip, which runtime loads it, what to feed and how to
read the results, which operators run where, how much work and memory it needs, and what to look out for."""
EXAMPLES = (
    "openrknn inspect yolo.rknn                 an overview",
    "openrknn inspect yolo.rknn --all           with every operator and tensor",
    "openrknn inspect yolo.rknn --html page.html",
    "openrknn inspect yolo.rknn --json | jq '.inputs[].shape'",
    "openrknn inspect yolo.rknn --quiet         only warnings; exit code 1 if the file is damaged",
)

EXIT_DAMAGED = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's own arguments."""
    parser.add_argument("file", metavar="FILE", help="a .rknn model")
    parser.add_argument("--html", metavar="OUT", help="write one self-contained HTML page instead of text")
    parser.add_argument("--graph", type=int, metavar="N", help="dynamic shapes: which graph to show (default: 0)")
    parser.add_argument("--all", action="store_true", help="every operator and every tensor in memory")
    parser.add_argument("--json", action="store_true", help="JSON, as described in docs/inspect-json.md")
    parser.add_argument("-q", "--quiet", action="store_true", help="print only warnings, one per line")


def _subject(item: LintFinding) -> str:
    return item.where.tensor or item.where.operator_name


def _with_lint(report: ModelReport, model: Model) -> ModelReport:
    """The findings of `openrknn lint` in short: the same codes, without the way through the commands."""
    from openrknn.analysis.lint import lint_commands
    from openrknn.container.report import Finding, Severity

    order = list(Severity)
    found = [
        Finding(item.code, item.severity, _subject(item), item.what, item.why, item.change)
        for item in lint_commands(model)
    ]
    ranked = sorted([*report.findings, *found], key=lambda item: -order.index(item.severity))
    return replace(report, findings=tuple(ranked))


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Describe one model."""
    from openrknn.container.explain import describe
    from openrknn.container.report import Severity, as_json

    # A damaged file is what one wants to look into: its problems are listed as findings.
    model = load_model(arguments.file, strict=False)
    if arguments.graph is not None and not 0 <= arguments.graph < len(model.graphs):
        raise CommandError(f"there is no graph {arguments.graph}; {arguments.file} has {len(model.graphs)}, from 0 on")
    report = _with_lint(_estimated(describe(model, graph=arguments.graph), model), model)
    if arguments.html:
        from openrknn.cli import report_html

        report_html.write(report, model, arguments.html)
        output.value(f"wrote {arguments.html}")
    elif output.is_human:
        from openrknn.cli.inspect.text import overview

        overview(report, output, show_all=arguments.all)
    elif output.is_json:
        output.data(as_json(report))
    else:
        for finding in report.findings:
            if finding.severity is not Severity.NOTE:
                output.value(f"{finding.severity}: {finding.what}")
    return EXIT_DAMAGED if any(finding.severity is Severity.ERROR for finding in report.findings) else 0


def _estimated(report: ModelReport, model: Model) -> ModelReport:
    """With what one core of a board takes for it; damaged files and those without tasks stay as they are."""
    from openrknn.container.report import Severity
    from openrknn.cost.report import estimate_of
    from openrknn.errors import RknnError
    from openrknn.runtime.cost import cost_of

    if not report.graphs or any(finding.severity is Severity.ERROR for finding in report.findings):
        return report
    try:
        return replace(report, estimate=estimate_of(cost_of(model, graph=model.graphs[report.graphs[0].index])))
    except RknnError:
        return report
