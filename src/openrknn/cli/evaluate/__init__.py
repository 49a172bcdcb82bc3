"""`openrknn evaluate`: the accuracy of a model on a labelled dataset."""

from __future__ import annotations

import argparse
import re
from typing import Any

from openrknn.cli.common.options import add_device_arguments, number, positive, share
from openrknn.cli.common.output import CommandError, Output
from openrknn.cli.common.outputs import PAGE, OutputFile

NAME = "evaluate"
HELP = "measure accuracy on a labelled dataset: mAP, top-k, WER, with the float model beside it"
DESCRIPTION = """Measure the accuracy of a model on a labelled dataset, and beside it that of the float model it was
made from, on the same samples with the same preprocessing. DATA is recognised by its content: COCO (boxes, masks,
keypoints), YOLO (detect, segment, pose, obb), a folder per class or a table of files and classes, images with masks,
images with text, recordings with transcripts, or JSON lines. Average precision is computed by pycocotools. Each main
number comes with a 95 % confidence interval, so that one sees what a small dataset can tell. Exit code 1: the loss is
larger than --max-drop, or a number is below --require; 2: it cannot be measured; 130: interrupted, after printing what
was measured so far."""
EXAMPLES = (
    "openrknn evaluate yolo.rknn coco/ --float yolo.onnx",
    "openrknn evaluate yolo.rknn data.yaml --float yolo.onnx --report page.html",
    "openrknn evaluate classifier.rknn imagenet/val --limit 500",
    "openrknn evaluate yolo.rknn coco/ --float yolo.onnx --max-drop 1% --budget 5m     in a pipeline",
    "openrknn evaluate yolo.onnx coco/ --std 255                the float model alone",
    "openrknn evaluate moonshine-tiny LibriSpeech/dev-clean --limit 100",
    "openrknn evaluate model.rknn samples.jsonl --json | jq .model.metrics",
)

SCHEMA_VERSION = 1
EXIT_WORSE = 1
_INTERRUPTED = 130
_MODEL_OPTIONS = ("task", "family", "fit", "order", "mean", "std", "size", "threshold", "overlap", "device", "cores",
                  "workers")  # fmt: skip
_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h|min)?\Z")
_UNITS = {None: 1, "s": 1, "m": 60, "min": 60, "h": 3600}


def percent(text: str) -> float:
    """ "1%" or "0.01" -> 0.01."""
    value, is_percent = (text[:-1], True) if text.endswith("%") else (text, False)
    try:
        found = float(value) / (100 if is_percent else 1)
    except ValueError:
        found = -1.0
    if not 0 <= found <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share such as 1% or 0.01")
    return found


def time_span(text: str) -> float:
    """ "90", "90s", "5m", "1h" -> seconds."""
    match = _TIME.match(text.strip())
    if match is None or not float(match.group(1)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 90s, 5m or 1h")
    return float(match.group(1)) * _UNITS[match.group(2)]


def requirement(text: str) -> tuple[str, float]:
    """ "map50=0.5" -> ("map50", 0.5)."""
    from openrknn.evaluate.metrics.names import METRICS

    name, sign, value = text.partition("=")
    if not sign or name not in METRICS:
        raise argparse.ArgumentTypeError(f"{text!r} is not METRIC=VALUE; metrics are {', '.join(METRICS)}")
    try:
        return name, percent(value) if METRICS[name].is_share else float(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{value!r} is not a number") from None


def picture_size(text: str) -> tuple[int, int]:
    """ "640" or "480x640" (height x width)."""
    words = text.lower().split("x")
    if not 1 <= len(words) <= 2 or not all(word.isdigit() and 0 < int(word) <= 65_536 for word in words):
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 640 or 480x640 (height x width)")
    return int(words[0]), int(words[-1])


def numbers(text: str) -> tuple[float, ...]:
    """ "123.7,116.3,103.5"."""
    try:
        return tuple(float(word) for word in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of numbers") from None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's own arguments."""
    parser.add_argument(
        "model", metavar="MODEL", help="a .rknn, .rknnz or .onnx file, or a voice (its name or folder)"
    )
    parser.add_argument("data", metavar="DATA", help="a dataset: its folder, or the file that describes it")
    parser.add_argument(
        "--float", metavar="MODEL.onnx", dest="float_model", help="the float model, to evaluate beside it"
    )
    parser.add_argument("--limit", type=positive, metavar="N", help="N samples, chosen at random (always the same)")
    parser.add_argument("--budget", type=time_span, metavar="TIME", help="stop after this time: 90s, 5m, 1h")
    parser.add_argument(
        "--workers", type=positive, metavar="N", default=1, help="samples processed in parallel (default: 1)"
    )
    add_device_arguments(parser)
    judged = parser.add_argument_group("for pipelines")
    judged.add_argument(
        "--max-drop", type=percent, metavar="P",
        help="exit code 1 if the main metric is more than this below float: 1%% is one point of 100",
    )  # fmt: skip
    judged.add_argument(
        "--require", type=requirement, metavar="METRIC=VALUE", action="append", default=[],
        help="exit code 1 if a metric is worse than this: map=0.35, top1=70%%, wer=10%% (repeatable)",
    )  # fmt: skip
    judged.add_argument(
        "--report", metavar="OUT.html", action=OutputFile, kind=PAGE,
        help="write a page with all classes, curves and the worst samples",
    )  # fmt: skip
    judged.add_argument("--force", action="store_true", help="replace a page that openrknn did not write")
    judged.add_argument(
        "--worst", type=number("a whole number from 0 to 100", 0, 100, whole=True), metavar="N", default=8,
        help="samples shown that went worst (default: 8)",
    )  # fmt: skip
    how = parser.add_argument_group("the model, where its file does not say")
    tasks = ("classify", "detect", "segment", "pose", "ocr")
    how.add_argument("--task", choices=tasks, help="what the model does")
    how.add_argument("--family", metavar="NAME", help="the family of decoders (see `openrknn detect --help`)")
    how.add_argument("--labels", metavar="FILE", help="file with the model's class names, one per line")
    how.add_argument("--fit", choices=("letterbox", "stretch", "crop", "line"), help="how images are resized")
    how.add_argument("--order", choices=("rgb", "bgr"), help="colour order (default: as calibrated)")
    how.add_argument("--mean", type=numbers, metavar="M,...", help="ONNX: subtracted from the pixels")
    how.add_argument("--std", type=numbers, metavar="S,...", help="ONNX: the pixels are divided by this")
    how.add_argument("--size", type=picture_size, metavar="HxW", help="ONNX: image size, where the file leaves it open")
    how.add_argument(
        "--threshold", type=share, metavar="T", help="lowest score that counts (default: 0.001, as usual for mAP)"
    )
    how.add_argument(
        "--overlap", type=share, metavar="T", help="overlap that suppression allows (default: the family's own)"
    )


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Evaluate, print, and judge."""
    from openrknn.cli.common.labels import read_labels
    from openrknn.cli.common.progress import stages
    from openrknn.evaluate.metrics.names import METRICS
    from openrknn.evaluate.models import ModelOptions
    from openrknn.evaluate.run import evaluate

    if arguments.max_drop is not None and arguments.float_model is None:
        raise CommandError("--max-drop compares with the float model; give it: --float MODEL.onnx")
    given: dict[str, Any] = {name: getattr(arguments, name) for name in _MODEL_OPTIONS}
    if arguments.labels:
        given["labels"] = read_labels(arguments.labels, None).names
    try:
        with stages(output) as tell:
            report = evaluate(
                arguments.model,
                arguments.data,
                float_model=arguments.float_model,
                limit=arguments.limit,
                budget=arguments.budget,
                worst=arguments.worst,
                progress=tell,
                options=ModelOptions(**given),
            )
    except (ValueError, TypeError) as error:
        raise CommandError(str(error)) from error
    failures = report.failures(arguments.max_drop, dict(arguments.require))
    if output.is_json:
        output.data({"schema_version": SCHEMA_VERSION, **report.as_json(), "failures": failures})
    elif output.is_human:
        from openrknn.cli.evaluate.text import show

        show(report, failures, output)
    else:
        output.value(f"{report.metric.title} {METRICS[report.primary].text(report.value)}")
        for failure in failures:
            output.value(failure)
    if arguments.report:
        from openrknn.cli.common.files import save_page
        from openrknn.pages.evaluate import render

        save_page(arguments.report, render(report, failures, is_required=bool(arguments.require)), output)
    if report.end == "interrupted":
        return _INTERRUPTED
    return EXIT_WORSE if failures else 0
