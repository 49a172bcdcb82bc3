"""`openrknn lint`: conversion mistakes that a board would run without an error."""

from __future__ import annotations

import argparse
import textwrap
from typing import TYPE_CHECKING

from openrknn.cli.common.explained import page_for
from openrknn.cli.common.files import load_model
from openrknn.cli.common.output import CommandError, Output
from openrknn.cli.common.outputs import PAGE, OutputFile

if TYPE_CHECKING:
    from openrknn.analysis.lint import Finding

NAME = "lint"
HELP = "find conversion mistakes that a board would run without an error"
WAITS = "checking"
DESCRIPTION = """Look for mistakes in the commands, weights and scales of models: tensors that are read in a different
layout than they were written in, or that are never written; multipliers that overflowed; outputs that can never cross
their decision point; constant channels; sums in which one operand vanishes. No board is needed, and nothing is run
unless --run is given: it also finds outputs that do not depend on the input. Each finding says where it is, why it
matters, and what to change in the network or its conversion. Exit code 0: nothing serious; 1: an error, or a warning
with --strict; 2: a file could not be read."""
EXAMPLES = (
    "openrknn lint yolo.rknn",
    "openrknn lint models/*.rknn --quiet         one line for each error and warning",
    "openrknn lint yolo.rknn --strict            fail on warnings too, in a pipeline",
    "openrknn lint yolo.rknn --run               also: does the output depend on the input?",
    "openrknn lint yolo.rknn --ignore cpu-island --ignore constant-channels",
    "openrknn lint yolo.rknn --report lint.html  a page with all findings",
    "openrknn lint --explain layout-mismatch     what a code means",
    "openrknn lint yolo.rknn --json | jq '.files[].findings[].code'",
)

SCHEMA_VERSION = 1
EXIT_FOUND = 1
EXIT_BAD_FILE = 2
_COLUMNS = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's own arguments."""
    from openrknn.analysis.lint_codes import CODES

    parser.add_argument("models", metavar="MODEL", nargs="*", help=".rknn files")
    parser.add_argument("--strict", action="store_true", help="exit code 1 for warnings too")
    parser.add_argument(
        "--run",
        action="store_true",
        help="also run the model on the software NPU, with four inputs, and find outputs that do not depend on them",
    )
    parser.add_argument(
        "--ignore",
        metavar="CODE",
        action="append",
        default=[],
        choices=CODES,
        help="do not report this code (repeatable)",
    )
    parser.add_argument(
        "--report", metavar="OUT.html", action=OutputFile, kind=PAGE, help="write an HTML page with all findings"
    )
    parser.add_argument("--explain", metavar="CODE", choices=CODES, help="explain a code and exit")


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Check all files; the worst decides the exit code."""
    from openrknn.analysis.lint import explain, lint

    if arguments.explain:
        text = explain(arguments.explain) or ""
        output.data({"schema_version": SCHEMA_VERSION, "code": arguments.explain, "text": text})
        for paragraph in text.splitlines() if not output.is_json else ():
            for line in textwrap.wrap(paragraph, _COLUMNS) or [""]:
                output.value(line)
        return 0
    if not arguments.models:
        raise CommandError("give one or more .rknn files, or --explain CODE")
    results: list[tuple[str, tuple[Finding, ...] | str]] = []
    for path in arguments.models:
        try:
            found = lint(load_model(path, strict=False), run=arguments.run)
            results.append((path, tuple(finding for finding in found if finding.code not in arguments.ignore)))
        except CommandError as error:
            Output.complain(str(error), page=page_for(error))
            results.append((path, str(error)))
    if arguments.report:
        from openrknn.cli.common.files import save_page
        from openrknn.pages.findings import render

        save_page(arguments.report, render(results, ran=arguments.run), output)
    _tell(results, output, ran=arguments.run)
    return max(_exit_code(result, strict=arguments.strict) for _, result in results)


def _exit_code(result: tuple[Finding, ...] | str, *, strict: bool) -> int:
    from openrknn.analysis.lint import Severity

    if isinstance(result, str):
        return EXIT_BAD_FILE
    bad = {Severity.ERROR, Severity.WARNING} if strict else {Severity.ERROR}
    return EXIT_FOUND if any(finding.severity in bad for finding in result) else 0


def _tell(results: list[tuple[str, tuple[Finding, ...] | str]], output: Output, *, ran: bool) -> None:
    from openrknn.analysis.lint import Severity, next_step

    if output.is_json:
        files = [
            {"file": path, "error": result}
            if isinstance(result, str)
            else {"file": path, "findings": [finding.as_json() for finding in result]}
            for path, result in results
        ]
        output.data({"schema_version": SCHEMA_VERSION, "ran": ran, "files": files})
        return
    for path, result in results:
        if isinstance(result, str):
            continue
        if output.is_human:
            from openrknn.cli.lint.text import show

            show(path, result, output)
            continue
        for finding in result:
            if finding.severity is not Severity.NOTE:
                output.value(f"{path}: {finding.severity}: {finding.code}: {finding.what}")
    found = [finding for _, result in results if not isinstance(result, str) for finding in result]
    if output.is_human and not all(isinstance(result, str) for _, result in results):
        output.next_step(next_step(found, ran=ran))
