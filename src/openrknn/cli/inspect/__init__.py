"""`openrknn inspect`: what is in a model, what to feed it, what to expect from it."""

from __future__ import annotations

import argparse

from openrknn.cli.common.files import load_model, save_page
from openrknn.cli.common.output import CommandError, Output
from openrknn.cli.common.outputs import PAGE, OutputFile
from openrknn.cli.common.parts import bundle_in

NAME = "inspect"
HELP = "show what is in a model, what to feed it and what to watch out for"
WAITS = "reading the model"
DESCRIPTION = """Show what is in a model: who built it for which chip, which runtime loads it, what to feed and how to
read the results, which operators run where, how much work and memory it needs, and what to watch out for. Of a model
in parts (.rknnz): the parts for NPU and CPU in their order, and why each is where it is."""
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
    parser.add_argument("file", metavar="FILE", help="a .rknn model, or a .rknnz in parts")
    parser.add_argument(
        "--html", action=OutputFile, kind=PAGE, metavar="OUT",
        help="write one self-contained HTML page instead of text",
    )
    parser.add_argument("--graph", type=int, metavar="N", help="dynamic shapes: which graph to show (default: 0)")
    parser.add_argument("--all", action="store_true", help="every operator and every tensor in memory")
    parser.add_argument("--json", action="store_true", help="JSON, as described in docs/inspect-json.md")
    parser.add_argument("-q", "--quiet", action="store_true", help="print only warnings, one per line")


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Describe one model."""
    from openrknn import analysis
    from openrknn.analysis.reports import Severity, as_json
    from openrknn.container.sequence import is_decoder

    if is_decoder(arguments.file):
        from openrknn.cli.inspect.decoder import inspect_decoder

        return inspect_decoder(arguments, output)
    bundle = bundle_in(arguments.file)
    if bundle is not None:
        from openrknn.cli.inspect.parted import inspect_parts

        return inspect_parts(bundle, arguments, output)
    # A damaged file is what one wants to look into: its problems are listed as findings.
    model = load_model(arguments.file, strict=False)
    if arguments.graph is not None and not 0 <= arguments.graph < len(model.graphs):
        graphs = f"{arguments.file} has {len(model.graphs)}, counted from 0"
        raise CommandError(f"there is no graph {arguments.graph}; {graphs}")
    report = analysis.report(model, graph=arguments.graph)
    if arguments.html:
        from openrknn.pages.model.page import render

        save_page(arguments.html, render(report, model), output)
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
