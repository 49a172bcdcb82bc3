"""`openrknn check`: a model beside what is known of a good one, for pipelines."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from openrknn.cli.common.options import add_device_arguments
from openrknn.cli.common.output import CommandError, Output
from openrknn.cli.common.outputs import JUNIT, PAGE, SARIF, TEXT, OutputFile, OutputFolder

if TYPE_CHECKING:
    from openrknn.check.result import Outcome

NAME = "check"
HELP = "check models in a pipeline: outputs, answers, weights, budgets and lint against a golden folder"
DESCRIPTION = """Compare models with golden folders: outputs with tolerances, or answers (classes, boxes, areas, text, a
transcript) to pictures and sounds; weights, scales and operators with those of the model that was recorded, so that a
single changed bit is found and its operator named; what a run costs with its budget; and the findings of `openrknn
lint`. --record makes such a folder from a model that is known to be good; golden.toml in it is intended to be read and
changed. No board is needed. MODEL is a .rknn, a .rknnz, the folder of a voice, or a folder with models; DIR is one
golden folder, or one that holds a golden folder for each model, by its name. Without --golden, MODEL.golden beside the
model is used. Exit code 0: as it should be; 1: differences were found; 2: something could not be checked (no model, a
bad golden folder, a case that does not run); 130: interrupted."""
EXAMPLES = (
    "openrknn check model.rknn --record golden --input cat.jpg --input dog.jpg",
    "openrknn check model.rknn --golden golden",
    "openrknn check build/ --golden goldens/ --junit check.xml --sarif check.sarif",
    "openrknn check model.rknn --golden golden --only cat --device rknpu",
    "openrknn check model.rknn --record golden --reference model.onnx --input cat.jpg",
    "openrknn check model.rknn --golden golden --update     accept the change",
    "openrknn check model.rknn --golden golden --json | jq '.models[].checks[] | select(.status == \"failed\")'",
)

SCHEMA_VERSION = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's own arguments."""
    parser.add_argument("models", metavar="MODEL", nargs="+", help=".rknn or .rknnz, voices, folders of models")
    parser.add_argument("--golden", metavar="DIR", help="a golden folder, or a folder of them (default: MODEL.golden)")
    parser.add_argument("--only", metavar="CASE", action="append", default=[], help="this case alone (repeatable)")
    add_device_arguments(parser)
    made = parser.add_argument_group("make and refresh golden folders")
    made.add_argument(
        "--record", metavar="DIR", action=OutputFolder, help="make a golden folder from this model, which is good"
    )
    made.add_argument(
        "-i", "--input", metavar="[NAME=]FILE", action="append", default=[], help="each file is a case (.npy, .npz, "
        ".bin, picture, sound; or a folder of them); with NAME=, all together are one. Default: random numbers",
    )  # fmt: skip
    made.add_argument("--reference", metavar="MODEL.onnx", help="expect what this ONNX model computes")
    made.add_argument("--expect", choices=("both", "outputs", "answers"), default="both", help="what is recorded")
    made.add_argument("--update", action="store_true", help="show what differs, then record it again")
    made.add_argument(
        "--force", action="store_true",
        help="replace a golden folder, or reports that openrknn did not write",
    )
    fits = ("auto", "stretch", "letterbox", "crop")
    made.add_argument("--fit", choices=fits, default="auto", help="pictures: crop for classifiers, else letterbox")
    made.add_argument("--order", choices=("auto", "rgb", "bgr"), default="auto", help="pictures: colour order")
    made.add_argument("--layout", choices=("nhwc", "nchw"), help="arrays: layout, where the shape is ambiguous")
    tasks = ("classify", "detect", "segment", "pose", "ocr")
    made.add_argument("--task", choices=tasks, help="answers: what the model does, where its outputs do not tell")
    made.add_argument("--family", help="answers: the family of decoders (see `openrknn detect --help`)")
    made.add_argument("--labels", metavar="FILE", help="answers: names of the classes, one per line")
    made.add_argument("--reader", metavar="MODEL", help="answers: the model that reads what a PP-OCR detector finds")
    reports = parser.add_argument_group("reports")
    reports.add_argument(
        "--report", metavar="OUT.html", action=OutputFile, kind=PAGE, help="write an HTML page with all results"
    )
    reports.add_argument(
        "--junit", metavar="FILE", action=OutputFile, kind=JUNIT,
        help="write a JUnit report: tests for most pipelines",
    )
    reports.add_argument(
        "--sarif", metavar="FILE", action=OutputFile, kind=SARIF,
        help="write SARIF 2.1.0: findings for code scanning",
    )
    summary = "append a table in Markdown ($GITHUB_STEP_SUMMARY)"
    reports.add_argument("--summary", metavar="FILE", action=OutputFile, kind=TEXT, help=summary)
    reports.add_argument("--github", action="store_true", help="print annotations for GitHub Actions")


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Record, refresh or check."""
    if arguments.record:
        from openrknn.cli.check.making import record_one

        if arguments.golden or arguments.update:
            raise CommandError("--record makes a new folder; leave out --golden and --update")
        return record_one(arguments, output)
    for name in ("input", "reference"):
        if getattr(arguments, name):
            raise CommandError(f"--{name} belongs to --record DIR")
    from openrknn.check.result import exit_code

    outcomes = _checked(arguments, output)
    _reports(arguments, outcomes, output)
    if arguments.update:
        from openrknn.cli.check.making import update_all

        return update_all(arguments, outcomes, output)
    return exit_code(outcomes)


def _checked(arguments: argparse.Namespace, output: Output) -> list[Outcome]:
    from openrknn.check.errors import CannotCheckError
    from openrknn.check.golden_lookup import pairs
    from openrknn.check.run import check, unreadable
    from openrknn.cli.common.progress import stages
    from openrknn.errors import RknnError

    try:
        found = pairs(arguments.models, arguments.golden)
    except CannotCheckError as error:
        raise CommandError(str(error)) from error
    outcomes: list[Outcome] = []
    with stages(output) as tell:
        for pair in found:
            if pair.golden is None:
                problem = pair.problem or CannotCheckError("no golden folder")
                outcomes.append(unreadable(pair.model, arguments.golden or "", problem))
                continue
            try:
                outcome = check(
                    pair.model,
                    pair.golden,
                    device=arguments.device,
                    cores=arguments.cores,
                    only=arguments.only,
                    progress=tell,
                )
            except (RknnError, OSError) as error:
                outcome = unreadable(pair.model, str(pair.golden.folder), error)
            outcomes.append(outcome)
    return outcomes


def _reports(arguments: argparse.Namespace, outcomes: list[Outcome], output: Output) -> None:
    """Files first: a pipeline needs them most when something failed."""
    import json

    from openrknn.cli.common.files import os_problem, save_atomically, save_page

    if arguments.report:
        from openrknn.cli.check.text import next_step
        from openrknn.pages.checked import render

        save_page(arguments.report, render([entry.as_json() for entry in outcomes], next_step(outcomes)), output)
    if arguments.junit:
        from openrknn.check.pipeline_reports import junit

        save_atomically(arguments.junit, junit(outcomes).encode("utf-8", "replace"))
    if arguments.sarif:
        from openrknn import __version__
        from openrknn.check.pipeline_reports import sarif

        text = json.dumps(sarif(outcomes, version=__version__), indent=1, allow_nan=False)
        save_atomically(arguments.sarif, text.encode() + b"\n")
    if arguments.summary:
        from openrknn.check.pipeline_reports import markdown
        from openrknn.wholefiles import append

        try:
            append(arguments.summary, markdown(outcomes).encode("utf-8", "replace"))
        except OSError as error:
            raise CommandError(os_problem(error, arguments.summary)) from error
    if output.is_json:
        from openrknn.analysis.reports import as_json

        output.data({"schema_version": SCHEMA_VERSION, "models": as_json([entry.as_json() for entry in outcomes])})
    else:
        from openrknn.cli.check.text import show

        show(outcomes, output)
    if arguments.github and not output.is_json:
        from openrknn.check.pipeline_reports import annotation_lines

        for line in annotation_lines(outcomes):
            output.value(line)
