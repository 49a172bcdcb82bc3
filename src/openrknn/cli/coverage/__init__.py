"""`openrknn coverage`: which registers, fields and modes models use, and which of them the software NPU implements."""

from __future__ import annotations

import argparse

from openrknn.cli.common.files import load_model
from openrknn.cli.common.output import Output

NAME = "coverage"
HELP = "show which registers and modes models use and what the software NPU implements"
WAITS = "checking"
DESCRIPTION = """Decode the command streams of models as the software NPU would, without running them: which registers,
fields and modes they use, which of them a block computes with, which it knows to have no effect, and what is missing,
with the file, task and operator. Exit code 1 if something is missing."""
EXAMPLES = (
    "openrknn coverage yolo.rknn              a summary, and what is missing",
    "openrknn coverage models/*.rknn --all    every register and field, with the values seen",
    "openrknn coverage yolo.rknn --json | jq '.problems'",
    "openrknn coverage models/*.rknn --quiet  only what is missing, one per line",
)

SCHEMA_VERSION = 1
EXIT_MISSING = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's own arguments."""
    parser.add_argument("files", metavar="FILE", nargs="+", help="a .rknn model")
    parser.add_argument("--all", action="store_true", help="every register and field, with the values seen")
    parser.add_argument("-q", "--quiet", action="store_true", help="print only what is missing, one per line")


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Decode every file."""
    from openrknn.analysis.register_use.scan import scan
    from openrknn.analysis.register_use.summary import as_json, summarize

    report = summarize([scan(load_model(path), path) for path in arguments.files])
    if output.is_human:
        from openrknn.cli.coverage.text import show

        show(report, output, show_all=arguments.all)
    output.data({"schema_version": SCHEMA_VERSION, **as_json(report)})
    for problem in report.problems if not output.is_human else ():
        output.value(f"{problem.place}: {problem.text}")
    return EXIT_MISSING if report.problems else 0
